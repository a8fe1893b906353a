"""Manifests: the checksums and the origin of a folder of data, in its ``manifest.json``; and the list of folders."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from midway._files import file_digest, parse_json, write_atomically
from midway._version import __version__
from midway.data.datasets import ASSETS, data_home

FILE_NAME = "manifest.json"
FORMAT = 1


@dataclass(frozen=True)
class FileFacts:
    """Size and checksum of a file, or of a folder of files taken together."""

    bytes: int
    sha256: str  # of the content; for a folder, of the names and checksums of its files

    @classmethod
    def of(cls, path: Path) -> FileFacts:
        """Measure a file or a folder."""
        if path.is_file():
            return cls(path.stat().st_size, file_digest(path))
        names = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
        parts = {name: cls.of(path / name) for name in names}
        listing = "".join(f"{name} {facts.sha256}\n" for name, facts in parts.items())
        return cls(sum(facts.bytes for facts in parts.values()), hashlib.sha256(listing.encode()).hexdigest())


@dataclass(frozen=True)
class Manifest:
    """The record of a folder of data: its origin and its files."""

    name: str
    source: str
    settings: dict[str, Any] = field(default_factory=dict)  # of generated data: seed, severities, ...
    files: dict[str, FileFacts] = field(default_factory=dict)
    made: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    midway: str = field(default_factory=lambda: __version__)
    due: tuple[str, ...] = ()  # paths that are still to be generated

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """Read the manifest of a folder; None if it has none, or a ``manifest.json`` of another format."""
        path = folder / FILE_NAME
        if not path.is_file():
            return None
        try:
            content = parse_json(path.read_text(encoding="utf-8"))
            if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
                return None
            content["due"] = tuple(content.get("due", ()))
            content["files"] = {name: FileFacts(**facts) for name, facts in content["files"].items()}
            return cls(**content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is damaged ({error}); remove it and make or fetch the data again.") from None

    def write(self, folder: Path) -> None:
        """Write the manifest into a folder."""
        files = dict(sorted(self.files.items()))
        content = {"format": FORMAT} | asdict(replace(self, files=files))
        write_atomically(folder / FILE_NAME, json.dumps(content, indent=2) + "\n")

    def problem(self, folder: Path, *, deep: bool = False) -> str:
        """Return the first difference to a folder, or an empty text; checksums are compared only if ``deep``."""
        for name, facts in self.files.items():
            path = folder / name
            if not path.exists():
                return f"{name} is missing"
            if (size := total_bytes([path])) != facts.bytes:
                return f"{name} has {size:,} bytes, not {facts.bytes:,}"
            if deep and FileFacts.of(path) != facts:
                return f"{name} has changed"
        return f"unfinished: {len(self.due)} parts are missing, the same command continues" if self.due else ""


@dataclass(frozen=True)
class InventoryEntry:
    """A data set on this machine."""

    name: str
    path: Path
    bytes: int
    verified: bool  # it matches its manifest
    note: str  # its origin, or why it is not verified


def inventory(home: str | Path | None = None, *, deep: bool = False) -> list[InventoryEntry]:
    """List the data sets in ``home``, by default the data home, after the one that ships with the package.

    The sizes of the files are compared with the manifest; with ``deep``, all checksums are computed again.

    Example:
        >>> from midway.data import inventory
        >>> inventory("no/such/folder")[0].name
        'cifar10-mini'
    """
    parent = data_home() if home is None else Path(home).expanduser()
    packaged = InventoryEntry(
        "cifar10-mini", ASSETS, total_bytes(ASSETS.glob("cifar10_mini.*")), True, "in the package"
    )
    folders = sorted(path for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []
    return [packaged, *(_record(folder, deep) for folder in folders)]


def _record(folder: Path, deep: bool) -> InventoryEntry:
    size = total_bytes([folder])
    if folder.name.startswith(".") and folder.name.endswith(".partial"):
        name = folder.name.removeprefix(".").removesuffix(".partial")
        return InventoryEntry(name, folder, size, False, "unfinished: the same command continues it")
    try:
        manifest = Manifest.read(folder)
    except ValueError:
        return InventoryEntry(folder.name, folder, size, False, "its manifest is damaged")
    if manifest is None:
        return InventoryEntry(folder.name, folder, size, False, "it has no manifest")
    problem = manifest.problem(folder, deep=deep)
    return InventoryEntry(folder.name, folder, size, not problem, problem or manifest.source)


def total_bytes(paths: Iterable[Path]) -> int:
    """Return the size of files and folders together."""
    files = (file for path in paths for file in ([path] if path.is_file() else path.rglob("*")))
    return sum(file.stat().st_size for file in files if file.is_file())
