"""What a folder of data should hold: checksums and how it came about, in ``manifest.json`` beside the files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from midway.files import file_digest

FILE_NAME = "manifest.json"
FORMAT = 1
BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class FileFacts:
    """Size and checksum of a file, or of a folder of files taken together.

    Attributes:
        bytes: Size.
        sha256: Checksum of the content; for a folder, of the names and checksums of its files.
    """

    bytes: int
    sha256: str

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
    """The record of a folder of data.

    Attributes:
        name: What the data is, for example ``"cifar10"``.
        source: Where it comes from.
        settings: What it was made with (seed, severities, ...); empty for data that was fetched.
        files: Path inside the folder -> size and checksum.
        due: Paths that are still to be made.
        made: When, in UTC.
        midway: Version of this package that wrote it.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.data.manifest import FileFacts, Manifest
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "labels.txt")
        ...     _ = path.write_text("0 1 2")
        ...     Manifest("toy", "by hand", files={"labels.txt": FileFacts.of(path)}).write(Path(folder))
        ...     before = Manifest.find(Path(folder)).problem(Path(folder))
        ...     _ = path.write_text("0 1 3")
        ...     after = Manifest.find(Path(folder)).problem(Path(folder), deep=True)
        >>> before, after
        ('', 'labels.txt has changed')
    """

    name: str
    source: str
    settings: dict[str, Any] = field(default_factory=dict)
    files: dict[str, FileFacts] = field(default_factory=dict)
    made: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    midway: str = field(default_factory=lambda: package_version())
    due: tuple[str, ...] = ()

    @classmethod
    def find(cls, folder: Path) -> Manifest | None:
        """Read the manifest of a folder; None if it has none, or a ``manifest.json`` of something else.

        Raises:
            ValueError: The manifest is damaged.
        """
        path = folder / FILE_NAME
        if not path.is_file():
            return None
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
                return None
            content["due"] = tuple(content.get("due", ()))
            content["files"] = {name: FileFacts(**facts) for name, facts in content["files"].items()}
            return cls(**content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is damaged ({error}); remove it and make or fetch the data again.") from None

    def write(self, folder: Path) -> None:
        """Write the manifest into a folder in one step: a reader sees the old or the new one, never half of it."""
        files = {name: vars(facts) for name, facts in sorted(self.files.items())}
        content = {"format": FORMAT} | vars(self) | {"files": files}
        part = folder / f".{FILE_NAME}.part"
        part.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        part.replace(folder / FILE_NAME)

    def problem(self, folder: Path, *, deep: bool = False) -> str:
        """Say what in a folder is not as recorded; empty if all is well.

        Args:
            folder: Where the files lie.
            deep: Compute the checksums again; else only existence and sizes of files are looked at.
        """
        for name, facts in self.files.items():
            path = folder / name
            if not path.exists():
                return f"{name} is missing"
            if (size := folder_bytes([path])) != facts.bytes:
                return f"{name} has {size:,} bytes, not {facts.bytes:,}"
            if deep and FileFacts.of(path) != facts:
                return f"{name} has changed"
        return f"unfinished: {len(self.due)} parts are to be made, the same command continues" if self.due else ""


def package_version() -> str:
    """Return the version of this package."""
    from midway._version import __version__

    return __version__


def folder_bytes(paths: Iterable[Path]) -> int:
    """Return the size of files and folders together."""
    total = 0
    for path in paths:
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        total += sum(file.stat().st_size for file in files)
    return total
