"""Files: writing them whole or not at all, space reserved in advance, checksums, and folders for one process."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
import unicodedata
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Self

from filelock import FileLock, Timeout


def write_atomically(path: Path, content: str | bytes) -> Path:
    """Write a file so that a crash or a full disk leaves the previous file or the new one, never a part."""
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        with naming(path, instead_of=partial):
            with partial.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            return partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


@contextmanager
def naming(path: Path, instead_of: Path | None = None) -> Iterator[None]:
    """Add the name of a file to errors of the operating system that lack it: a full disk while writing, for example.

    ``instead_of`` is a temporary file, whose name tells a user nothing.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(instead_of)):
            error.filename = str(path)
        raise


def check_space(folder: Path, needed: int, what: str) -> None:
    """Refuse, before anything is written, if a disk has fewer bytes left than are needed."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f"{what} needs {_megabytes(needed)} in {folder}, and {_megabytes(free)} are free: free some space, or "
            "choose another folder."
        )


def reserve(file: BinaryIO, size: int) -> None:
    """Give a new file its size on the disk; writing to a memory map of a file with holes kills the process instead."""
    file.flush()
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            return
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
    file.seek(0, os.SEEK_END)
    while (left := size - file.tell()) > 0:  # on systems without the call
        file.write(bytes(min(left, 1 << 20)))
    file.flush()


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def remove(path: Path) -> None:
    """Remove a file or a folder, if it exists."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def is_printable(text: str) -> bool:
    """Return whether a text can be a line of a file or a terminal.

    Not if it has control characters, or if the command line had bytes that are not UTF-8.
    """
    return not any(unicodedata.category(character) in ("Cc", "Cs") for character in text)


def read_text(path: Path) -> str:
    """Read a text file; one that is not UTF-8 is a ValueError that names it."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start:,}).") from None


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; whatever is wrong is a ValueError, also nesting that is too deep and halves of characters."""
    try:
        value = json.loads(text)
        if (b"\\u" if isinstance(text, bytes) else "\\u") in text:  # type: ignore[operator]
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("it contains half of a character (a lone surrogate)") from None
    return value


def without_nan(value: Any) -> Any:
    """Return a value of dictionaries and lists with None for NaN and infinity, which JSON does not have.

    Example:
        >>> without_nan({"accuracy": float("nan"), "by_batch": (1.0, 2.0)})
        {'accuracy': None, 'by_batch': [1.0, 2.0]}
    """
    if isinstance(value, dict):
        return {str(key): without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return list(map(without_nan, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the checksum of a file as hexadecimal digits, read block by block."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


class FolderTakenError(ValueError):
    """Another process writes to the folder; the message says which."""

    def __init__(self, folder: Path, holder: str) -> None:
        super().__init__(f"another process ({holder}) is writing to {folder}: wait for it, or choose another folder.")
        self.holder = holder


class FolderLock:
    """Reserve a folder for this process; the operating system releases it when the process ends, however it ends.

    ``name`` is the lock file. A ``FolderTakenError`` is raised if another process holds the folder, unless ``wait``.
    """

    def __init__(self, folder: Path, name: str = ".lock", *, wait: bool = False) -> None:
        self.path = folder / name
        self._lock = FileLock(self.path, timeout=-1 if wait else 0)
        while not self._lock.is_locked:
            folder.mkdir(parents=True, exist_ok=True)
            try:
                self._lock.acquire()
            except FileNotFoundError:
                continue  # the process that held the folder removed it
            except Timeout:
                holder = "unknown"
                with suppress(OSError):
                    holder = self.path.read_text(errors="replace").strip() or holder
                raise FolderTakenError(folder, holder) from None
        with suppress(OSError):  # Windows refuses to write to a locked file
            self.path.write_text(f"{os.getpid()}\n")

    def close(self) -> None:
        """Release the folder and remove the lock file."""
        if os.name == "posix":  # waiting processes notice that their file was removed, and create it again
            self.path.unlink(missing_ok=True)
            self._lock.release()
        else:
            self._lock.release()
            with suppress(OSError):
                self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
