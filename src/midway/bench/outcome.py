"""What comes back from a cell, as plain values that travel between processes and into files."""

from __future__ import annotations

import math
import platform
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from midway.bench.cell import Cell
from midway.bench.evaluate import Result


@dataclass(frozen=True)
class Failure:
    """Why a cell has no result.

    Attributes:
        error: Kind and message, one line.
        traceback: Where it happened; empty when a worker was killed.
    """

    error: str
    traceback: str = ""


@dataclass(frozen=True)
class Outcome:
    """A finished cell: a result or a failure.

    Attributes:
        cell: What was run.
        result: What came out; None if it failed.
        failure: Why it failed; None if it did not.
        seconds: Time of the whole cell, making its images and loading its network included.
        environment: Versions, processor and threads it ran with.
        predictions: Name -> array (``logits``, ``labels``, ``group``); empty unless they were asked for.
    """

    cell: Cell
    result: Result | None
    failure: Failure | None
    seconds: float
    environment: dict[str, Any]
    predictions: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)


def numbers(result: Result) -> dict[str, Any]:
    """Return what a cell determines of its result: everything but times, memory and the label.

    Two runs of one cell agree in it exactly, wherever and beside whatever they ran. NaN becomes None, so that equal
    means equal.

    Example:
        >>> from midway.bench import Result
        >>> from midway.bench.outcome import numbers
        >>> result = Result("bn", "BN", {}, "pure:fog", 4, 75.0, {"fog": 75.0}, {"fog": 4}, (50.0, 100.0), 0.125)
        >>> "seconds_per_batch" in numbers(result), numbers(result)["accuracy"]
        (False, 75.0)
    """
    content = result.to_dict()
    del content["seconds_per_batch"], content["label"]
    content["cost"].pop("peak_memory_mb", None)
    plain: dict[str, Any] = _without_nan(content)
    return plain


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value


@cache
def environment() -> dict[str, Any]:
    """Return what this process runs on.

    Example:
        >>> from midway.bench.outcome import environment
        >>> sorted(environment())
        ['cpu', 'numpy', 'platform', 'python', 'torch']
    """
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": _processor(),
    }


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.is_file():
        for line in listing.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
