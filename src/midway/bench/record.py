"""Cells and their records: what is asked and what comes out, as plain values for other processes and for files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from midway._files import parse_json, without_nan
from midway.metrics import METRICS
from midway.streams import Scenario

FORMAT = 2
"""Version of a stored record; raised when its meaning changes."""


@dataclass(frozen=True)
class Cell:
    """Everything that determines the numbers of one entry of a comparison, and its label.

    Attributes:
        method: Name of the method.
        label: Its name in tables.
        settings: Every hyper-parameter of the method, defaults included.
        network: See ``midway.bench.resources.load_network``.
        weights: A digest of the weights or of their file, or ``"untrained"``.
        data: Name of the data set.
        root: Its folder; None for the data home.
        images: Use at most this many; None for all.
        size: Side in pixels of images in files; None for the data set's own.
        scenario: The scenario of the stream.
        seed: Seed of the stream, and of the method if it has one.
        batch_size: Images per batch.
        precision: Precision of the network, ``"float32"`` or ``"bf16"``.
        device: The device, such as ``"cpu"`` or ``"cuda"``.
        threads: Number of CPU threads. Sums are split among them, so the last bits depend on it.
        module: The module that defines the method.
        code: Digest of the code that computes the numbers and, for a folder of images, of its files; see
            ``midway.bench.code``. It is not part of the key: a stored result of another code answers the same
            question, but is out of date.
        classes: Which logit each class folder is, see ``midway.data.load``; None if the data set knows it.
        further_weights: A digest of weights that the method brings, such as DDA's denoiser; None without.

    Example:
        >>> from midway.bench import Grid
        >>> cell = Grid.from_dict({"methods": "tent", "scenarios": "pure:fog"}).cells()[0]
        >>> cell.scenario, cell.settings["steps"], len(cell.key)
        (Scenario(kind='pure', shifts=('fog',), amount=None, severity=5), 1, 16)
    """

    method: str
    label: str
    settings: dict[str, Any] = field(hash=False)
    network: str
    weights: str
    data: str
    root: str | None
    images: int | None
    size: int | None
    scenario: Scenario
    seed: int
    batch_size: int
    precision: str
    device: str
    threads: int
    module: str
    code: str = ""
    classes: str | tuple[str, ...] | tuple[int, ...] | None = None
    further_weights: str | None = None

    @cached_property
    def key(self) -> str:
        """Sixteen hex digits over what the cell asks: not its label, its code, or where the weights are stored."""
        content = self.to_dict() | {"architecture": self.architecture}
        for name in ("label", "module", "network", "code"):
            del content[name]
        text = json.dumps(content, sort_keys=True, default=repr)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def architecture(self) -> str:
        """The name of the network without the folder of its file."""
        before, _, function = self.network.rpartition(":")
        if before.endswith(".py"):
            return f"{Path(before).name}:{function}"
        architecture, at, _ = self.network.partition("@")
        return architecture if at or not Path(self.network).is_absolute() else "read off the file"

    @property
    def stream_key(self) -> tuple[object, ...]:
        """What determines the stream: cells with equal stream keys see the same images, which are computed once."""
        return (self.data, self.root, self.size, self.classes, self.images, self.scenario, self.seed, self.batch_size)

    def to_dict(self) -> dict[str, Any]:
        """Return the cell as plain values, ready for JSON."""
        content = vars(self) | {"scenario": str(self.scenario)}
        content.pop("key", None)  # cached
        return content

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Cell:
        """Read a cell from plain values; lists among the settings become tuples again."""
        values = {each.name: content[each.name] for each in fields(cls)}
        if isinstance(values.get("classes"), list):
            values["classes"] = tuple(values["classes"])
        check_types(cls, values | {"scenario": None})
        values["settings"] = with_tuples(values["settings"])
        values["scenario"] = Scenario.parse(values["scenario"])
        return cls(**values)

    def __str__(self) -> str:
        return f"{self.label} on {self.scenario}, seed {self.seed}"


def with_tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with tuples for lists: methods take tuples, which JSON and TOML do not have."""
    return {name: _with_tuples(value) for name, value in settings.items()}


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list | tuple) else value


def check_types(kind: type, values: Mapping[str, Any]) -> None:
    """Raise TypeError if a value read from a file is not what the annotation of its field says."""
    plain = {"str": str, "int": int, "float": int | float, "None": type(None), "dict": dict, "tuple": tuple}
    for each in fields(kind):
        allowed = [plain.get(part.partition("[")[0]) for part in str(each.type).split(" | ")]
        value = values.get(each.name)
        known = each.name in values and None not in allowed
        if known and not isinstance(value, tuple(filter(None, allowed))):
            raise TypeError(f"{each.name} is {value!r:.40}, expected {each.type}")


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


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
        """Accuracy on all images, in percent; a ValueError if the images have no labels."""
        if "accuracy" not in self.metrics:
            raise ValueError("there is no accuracy: the images have no labels.")
        return self.metrics["accuracy"]

    @property
    def images(self) -> int:
        """Number of images."""
        return sum([int(values["images"]) for values in self.groups.values()])

    @property
    def by_group(self) -> dict[str, float]:
        """Accuracy on the images of each group, in percent."""
        return {group: values["accuracy"] for group, values in self.groups.items() if "accuracy" in values}

    @property
    def seconds_per_batch(self) -> float:
        """Mean seconds of adaptation and prediction; making the batch does not count."""
        return self.metrics["seconds_per_batch"]

    def repeatable(self) -> dict[str, Any]:
        """Return everything that repeating the cell reproduces exactly: all but times and memory; NaN is None."""
        content = asdict(self)
        content["metrics"] = {
            name: value for name, value in self.metrics.items() if name not in METRICS or METRICS[name].repeatable
        }
        plain: dict[str, Any] = without_nan(content)
        return plain

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Result:
        """Read a result from plain values."""
        values = content | {"batch_accuracies": tuple(content["batch_accuracies"])}
        check_types(cls, values)
        if not all(map(_is_number, values["batch_accuracies"])):
            raise TypeError("batch_accuracies are not numbers")
        tables = {"metrics": values["metrics"], **values["groups"]}
        for name, table in tables.items():
            if not isinstance(table, dict) or not all(map(_is_number, table.values())):
                raise TypeError(f"{name} is not a table of numbers")
        return cls(**values)


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
        predictions: File with the predictions in the folder of the store; None if they were not stored.
        arrays: Arrays ``logits``, ``labels`` and ``group`` on their way to that file; empty in stored records.
    """

    cell: Cell
    result: Result | None
    failure: Failure | None
    seconds: float
    environment: dict[str, Any]
    command: str = ""
    finished: str = ""
    predictions: str | None = None
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False, compare=False)

    def replaces(self, known: Record | None) -> bool:
        """Return whether this record counts instead of an earlier one: a failure never hides a result."""
        return self.result is not None or known is None or known.result is None

    def to_line(self) -> bytes:
        """Write the record as one line of JSON."""
        content: dict[str, Any] = {"format": FORMAT, "key": self.cell.key}
        content |= {name: getattr(self, name) for name in STORED}
        content["cell"] = self.cell.to_dict()
        for name in ("result", "failure"):
            content[name] = None if content[name] is None else asdict(content[name])
        return json.dumps(content, default=repr).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes, where: str) -> Record:
        """Read one line; a ``StoreError`` with ``where``, the file and the number of the line, if that fails."""
        try:
            content = parse_json(line)
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
            Scenario.parse(content["cell"]["scenario"])
        except (KeyError, TypeError):
            pass  # reported below as an incomplete result
        except ValueError as error:
            raise StoreError(
                f"{where}: {error} A scenario of another package needs that package: install it, or name it with "
                "--import."
            ) from error
        try:
            values = {name: content[name] for name in STORED}
            values["cell"] = Cell.from_dict(content["cell"])
            if content["result"] is not None:
                values["result"] = Result.from_dict(content["result"])
            if content["failure"] is not None:
                values["failure"] = Failure(**content["failure"])
            check_types(cls, values)
            return cls(**values)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{where}: this result is incomplete ({error!r}): repair or remove the line.") from error


STORED = tuple(each.name for each in fields(Record) if each.name != "arrays")
"""The fields of a record in a file, in this order."""
