"""A cell: one method on one stream, as plain values, with a key that stands for its numbers."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Cell:
    """All that determines the numbers of one entry of a comparison, and what to call it.

    Attributes:
        method: Name of the method.
        label: What tables call it.
        settings: Every hyper-parameter of the method, defaults included.
        network: See ``midway.bench.networks.load_network``.
        weights: Which weights these are: a digest of them or of their file, or ``"untrained"``.
        data: Name of the data set.
        root: Its folder; None for the usual place.
        images: Use at most this many; None for all.
        size: Side in pixels of images in files; None for the data set's own.
        scenario: The text of the scenario.
        seed: Of the stream, and of the method if it has one.
        batch_size: Images a batch.
        precision: ``"float32"`` or ``"bf16"``, of the network.
        device: Where it runs, such as ``"cpu"`` or ``"cuda"``.
        threads: Threads of the processor it uses. Sums are split among them, so the last bits depend on it.
        version: Of midway.
        module: Where the method is defined, for processes that do not know it yet.
        content: Digest of what has no version: the file of a method of one's own, the files of a folder of images.

    Example:
        >>> from midway.bench import Grid
        >>> cell = Grid.from_dict({"methods": "tent", "scenarios": "pure:fog"}).cells()[0]
        >>> cell.scenario, cell.settings["steps"], len(cell.key)
        ('pure:fog', 1, 16)
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
    scenario: str
    seed: int
    batch_size: int
    precision: str
    device: str
    threads: int
    version: str
    module: str
    content: str = ""

    @property
    def key(self) -> str:
        """Sixteen hex digits over exactly what determines the numbers: not the label, nor where the weights lie."""
        content = asdict(self)
        for name in ("label", "module", "network", *([] if self.content else ["content"])):
            del content[name]
        content["architecture"] = self.architecture
        text = json.dumps(content, sort_keys=True, default=repr)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def architecture(self) -> str:
        """Name the network without saying where it lies."""
        before, _, function = self.network.rpartition(":")
        if before.endswith(".py"):
            return f"{Path(before).name}:{function}"
        architecture, at, _ = self.network.partition("@")
        return architecture if at or not Path(self.network).is_absolute() else "read off the file"

    @property
    def stream_key(self) -> tuple[object, ...]:
        """What determines the stream: cells that agree in it see the same images, which are made only once."""
        return (self.data, self.root, self.size, self.images, self.scenario, self.seed, self.batch_size)

    def to_dict(self) -> dict[str, Any]:
        """Return the cell as plain values, ready for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "content" or value}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Cell:
        """Take a cell back from plain values; lists among the settings become tuples again."""
        content = {"content": ""} | content  # which older lines do not have
        known = {each.name: content[each.name] for each in fields(cls)}
        return cls(**(known | {"settings": {name: as_tuple(value) for name, value in content["settings"].items()}}))

    def __str__(self) -> str:
        return f"{self.label} on {self.scenario}, seed {self.seed}"


def as_tuple(value: Any) -> Any:
    """Turn lists into tuples, also within lists: that is what methods take, and what JSON and TOML do not have."""
    return tuple(map(as_tuple, value)) if isinstance(value, list | tuple) else value
