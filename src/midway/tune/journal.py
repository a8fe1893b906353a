"""Optuna's journal, in a file that survives whoever is killed while writing to it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock


class JournalLock(JournalFileOpenLock):
    """A lock on a file that the system gives back when its process ends, however it ends.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.tune.journal import JournalLock
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     lock = JournalLock(Path(folder) / "study.journal")
        ...     lock.acquire()
        ...     lock.release()
        True
    """

    def __init__(self, path: Path) -> None:  # the one of Optuna makes a file, which outlives who is killed
        self.path = path
        self._file = -1

    def acquire(self) -> bool:
        """Wait for the file and take it."""
        import fcntl  # not on every system, and only a lock needs it

        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except BaseException:
            os.close(self._file)
            raise
        return True

    def release(self) -> None:
        """Give the file back."""
        os.close(self._file)


def open_journal(path: Path) -> JournalStorage:
    """Open or make a journal; a last line that was torn off by a kill or a full disk is cut off first.

    Raises:
        OSError: The file cannot be written to.
        ValueError: The file is no journal, or a line of it is damaged; nothing is changed then.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = JournalLock(path)
    with _held(lock):
        _mend(path)
    return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))


@contextmanager
def _held(lock: JournalLock) -> Iterator[None]:
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _mend(path: Path) -> None:
    *lines, tail = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not _is_entry(line):
            raise ValueError(
                f"{path}:{number}: this line is no entry of a search's journal. If the file is one, mend or remove "
                "the line; if not, choose another storage. Nothing was changed."
            )
    if not tail:
        return
    if not lines and not _is_entry(tail) and not tail.startswith(b"{"):
        raise ValueError(f"{path} is no journal of a search: choose another storage. Nothing was changed.")
    with path.open("r+b") as file:
        if _is_entry(tail):
            file.seek(0, os.SEEK_END)
            file.write(b"\n")
        else:
            file.truncate(sum(len(line) + 1 for line in lines))


def _is_entry(line: bytes) -> bool:
    try:
        entry = json.loads(line)
    except ValueError:
        return False
    return isinstance(entry, dict) and "op_code" in entry
