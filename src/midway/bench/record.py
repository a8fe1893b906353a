"""Records: what a cell gives, as plain values that travel between processes and into files."""

from __future__ import annotations

import json
import math
import platform
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from midway.bench.cell import Cell
from midway.metrics import METRICS

FORMAT = 2
"""Version of a stored record; raised when its meaning changes."""


class StoreError(ValueError):
    """A store that cannot be read or written; the message says where and what to do."""


@dataclass(frozen=True)
class Result:
    """What was measured of one method on one stream.

    Attributes:
        metrics: Metric -> value over all images of the stream; see ``midway.metrics.METRICS``.
        groups: Group of the stream -> metric -> value; ``"images"`` is the number of its images.
        batch_accuracies: Accuracy on each batch in percent, in order.
        diagnostics: What the method recorded, at the end of the stream.
        hyperparameters: The hyper-parameters of the method, with those resolved from the first batch.

    Example:
        >>> from midway.bench import Result
        >>> result = Result({"accuracy": 75.0}, {"fog": {"images": 4, "accuracy": 75.0}}, (50.0, 100.0))
        >>> result.accuracy, result.images, result.by_group
        (75.0, 4, {'fog': 75.0})
    """

    metrics: dict[str, float]
    groups: dict[str, dict[str, float]]
    batch_accuracies: tuple[float, ...] = ()
    diagnostics: dict[str, float] = field(default_factory=dict)
    hyperparameters: dict[str, Any] = field(default_factory=dict)

    @property
    def accuracy(self) -> float:
        """Accuracy on all images, in percent."""
        return self.metrics["accuracy"]

    @property
    def images(self) -> int:
        """Number of images."""
        return sum(self.images_by_group.values())

    @property
    def by_group(self) -> dict[str, float]:
        """Accuracy on the images of each group, in percent."""
        return {group: values["accuracy"] for group, values in self.groups.items()}

    @property
    def images_by_group(self) -> dict[str, int]:
        """Number of images of each group."""
        return {group: int(values["images"]) for group, values in self.groups.items()}

    @property
    def seconds_per_batch(self) -> float:
        """Mean seconds of adaptation and answer; making the batch does not count."""
        return self.metrics["seconds_per_batch"]

    def repeatable(self) -> dict[str, Any]:
        """Return everything that repeating the cell reproduces exactly: all but times and memory; NaN becomes None."""
        content = asdict(self)
        content["metrics"] = {
            name: value for name, value in self.metrics.items() if name not in METRICS or METRICS[name].repeatable
        }
        plain: dict[str, Any] = _without_nan(content)
        return plain

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Result:
        """Read a result from plain values."""
        return cls(**(content | {"batch_accuracies": tuple(content["batch_accuracies"])}))


@dataclass(frozen=True)
class Failure:
    """Why a cell has no result.

    Attributes:
        error: Type and message of the error, one line.
        traceback: The traceback; empty when a worker process was killed.
    """

    error: str
    traceback: str = ""


@dataclass(frozen=True)
class Record:
    """One cell that was run: a result or a failure.

    Attributes:
        cell: What was run.
        result: What was measured; None if the cell failed.
        failure: Why it failed; None if it did not.
        seconds: Time of the whole cell, loading and making its images included.
        environment: Versions, processor and threads it ran with.
        command: What started the run.
        finished: When it ended, in UTC.
        predictions: File with the answers in the folder of the store; None if they were not stored.
        answers: Arrays ``logits``, ``labels`` and ``group`` on their way to that file; empty in stored records.
    """

    cell: Cell
    result: Result | None
    failure: Failure | None
    seconds: float
    environment: dict[str, Any]
    command: str = ""
    finished: str = ""
    predictions: str | None = None
    answers: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False, compare=False)

    def replaces(self, known: Record | None) -> bool:
        """Tell whether this record counts instead of an earlier one: a failure never hides a result."""
        return self.result is not None or known is None or known.result is None

    def to_line(self) -> bytes:
        """Write the record as one line of JSON."""
        content = {
            "format": FORMAT,
            "key": self.cell.key,
            "cell": self.cell.to_dict(),
            "result": None if self.result is None else asdict(self.result),
            "failure": None if self.failure is None else asdict(self.failure),
            "seconds": self.seconds,
            "environment": self.environment,
            "command": self.command,
            "finished": self.finished,
            "predictions": self.predictions,
        }
        return json.dumps(content, default=repr).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes, where: str) -> Record:
        """Read one line.

        Args:
            line: The line.
            where: File and number of the line, for errors.

        Raises:
            StoreError: The line is damaged or has a format that this version does not read.
        """
        try:
            content = json.loads(line)
            written = content["format"]
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError(
                f"{where}: this line is not a result ({error}). Nothing was changed: repair or remove the line; "
                "its cell will be run again."
            ) from error
        if written != FORMAT:
            age = "a newer" if isinstance(written, int) and written > FORMAT else "another"
            raise StoreError(
                f"{where}: written by {age} version of midway (format {written}, this one reads {FORMAT}): "
                "use that version, or another folder."
            )
        try:
            return cls(
                cell=Cell.from_dict(content["cell"]),
                result=None if content["result"] is None else Result.from_dict(content["result"]),
                failure=None if content["failure"] is None else Failure(**content["failure"]),
                seconds=content["seconds"],
                environment=content["environment"],
                command=content["command"],
                finished=content["finished"],
                predictions=content["predictions"],
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{where}: this result is incomplete ({error!r}): repair or remove the line.") from error


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value


@cache
def environment() -> dict[str, Any]:
    """Return the versions and the processor of this process.

    Example:
        >>> from midway.bench.record import environment
        >>> sorted(environment())
        ['cpu', 'midway', 'numpy', 'platform', 'python', 'torch']
    """
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
    if listing.is_file():
        for line in listing.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
