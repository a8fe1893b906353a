"""Keep freed memory in the process: on the CPU, a network's layers allocate and free the same large blocks again."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's mallopt
_LARGE = 2**31 - 1


def keep_freed_memory() -> bool:
    """Let the C library reuse large blocks instead of returning them to the kernel; return whether it does now.

    By default glibc maps blocks of some megabytes anew, and the kernel clears every page of them: the outputs of
    layers, in every pass. Nothing changes where the environment configures malloc, or without glibc. The process
    keeps the memory of its peak until it ends; ``malloc_trim`` returns it.
    """
    configured = any(name.startswith("MALLOC_") for name in os.environ) or "GLIBC_TUNABLES" in os.environ
    if sys.platform != "linux" or configured:
        return False
    with suppress(AttributeError, OSError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        return bool(mallopt(_MMAP_THRESHOLD, _LARGE) and mallopt(_TRIM_THRESHOLD, _LARGE))
    return False
