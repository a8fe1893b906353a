"""Keep freed memory in the process: on the CPU, a network's layers allocate and free the same large blocks again."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's mallopt
_LARGE = 2**31 - 1
_LARGEST_IN_OLD_VERSIONS = 32 << 20  # they refuse larger thresholds of blocks that are mapped


def keep_freed_memory() -> bool:
    """Let the C library reuse large blocks instead of returning them to the kernel; return whether it does now.

    By default glibc returns freed memory at the end of the heap and very large blocks to the kernel, which clears
    their pages when they are used again: for the outputs of layers, in every pass. Nothing changes where the
    environment configures malloc, or without glibc. The process keeps the memory of its peak until it ends;
    ``malloc_trim`` returns it.
    """
    configured = any(name.startswith("MALLOC_") for name in os.environ) or "GLIBC_TUNABLES" in os.environ
    if sys.platform != "linux" or configured:
        return False
    with suppress(AttributeError, OSError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        kept = mallopt(_TRIM_THRESHOLD, _LARGE)
        return bool(kept and any(mallopt(_MMAP_THRESHOLD, size) for size in (_LARGE, _LARGEST_IN_OLD_VERSIONS)))
    return False
