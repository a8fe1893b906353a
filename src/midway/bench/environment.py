"""What a result was computed with: versions and the processor."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch


@cache
def environment() -> dict[str, Any]:
    """Return the versions and the processor of this process."""
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": _processor(),
        "midway": version("midway"),
    }


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text().splitlines() if listing.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), platform.processor() or "unknown")
