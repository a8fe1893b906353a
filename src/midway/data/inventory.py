"""What data is here, where, how big, and whether it is what it should be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from midway.data.embedded import ASSETS
from midway.data.home import data_home
from midway.data.manifest import Manifest, folder_bytes


@dataclass(frozen=True)
class Record:
    """One data set on this machine.

    Attributes:
        name: What ``midway.data.load`` calls it, or the name of its folder.
        path: Where it lies.
        bytes: Its size.
        verified: Whether it matches a manifest.
        note: Where it comes from, or why it is not verified.
    """

    name: str
    path: Path
    bytes: int
    verified: bool
    note: str


def inventory(home: str | Path | None = None, *, deep: bool = False) -> list[Record]:
    """List the data sets in the data home, the embedded one first.

    Args:
        home: The folder that holds one folder a data set; ``data_home()`` if left out.
        deep: Compute all checksums again; else names and sizes of the files are compared with the manifest.

    Example:
        >>> from midway.data import inventory
        >>> inventory("no/such/folder")[0].name
        'cifar10-mini'
    """
    place = data_home() if home is None else Path(home).expanduser()
    embedded = Record("cifar10-mini", ASSETS, folder_bytes(ASSETS.glob("cifar10_mini.*")), True, "in the package")
    folders = sorted(path for path in place.iterdir() if path.is_dir()) if place.is_dir() else []
    return [embedded, *(_record(folder, deep) for folder in folders)]


def _record(folder: Path, deep: bool) -> Record:
    size = folder_bytes([folder])
    if folder.name.startswith(".") and folder.name.endswith(".partial"):
        name = folder.name.removeprefix(".").removesuffix(".partial")
        return Record(name, folder, size, False, "unfinished: the same command continues it")
    try:
        manifest = Manifest.find(folder)
    except ValueError:
        return Record(folder.name, folder, size, False, "its manifest is damaged")
    if manifest is None:
        return Record(folder.name, folder, size, False, "no manifest: nothing to compare it with")
    problem = manifest.problem(folder, deep=deep)
    return Record(folder.name, folder, size, not problem, problem or manifest.source)
