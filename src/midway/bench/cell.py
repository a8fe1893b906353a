"""A cell: one method on one stream, as plain values, with a key that identifies it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from midway.streams import Scenario


@dataclass(frozen=True)
class Cell:
    """Everything that determines the numbers of one entry of a comparison, and its label.

    Attributes:
        method: Name of the method.
        label: Its name in tables.
        settings: Every hyper-parameter of the method, defaults included.
        network: See ``midway.bench.networks.load_network``.
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
        return (self.data, self.root, self.size, self.images, self.scenario, self.seed, self.batch_size)

    def to_dict(self) -> dict[str, Any]:
        """Return the cell as plain values, ready for JSON."""
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"scenario": str(self.scenario)}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Cell:
        """Read a cell from plain values; lists among the settings become tuples again."""
        known = {each.name: content[each.name] for each in fields(cls)}
        settings = {name: as_tuple(value) for name, value in content["settings"].items()}
        return cls(**(known | {"settings": settings, "scenario": Scenario.parse(content["scenario"])}))

    def __str__(self) -> str:
        return f"{self.label} on {self.scenario}, seed {self.seed}"


def as_tuple(value: Any) -> Any:
    """Turn lists into tuples, also within lists: that is what methods take, and what JSON and TOML do not have."""
    return tuple(map(as_tuple, value)) if isinstance(value, list | tuple) else value
