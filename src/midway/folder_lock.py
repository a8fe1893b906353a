"""A folder for one process at a time."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self


class FolderTakenError(ValueError):
    """Another process has the folder; the message says which."""

    def __init__(self, folder: Path, holder: str) -> None:
        super().__init__(f"another process ({holder}) is writing to {folder}: wait for it, or choose another folder.")
        self.holder = holder


class FolderLock:
    """Take a folder for this process; the system gives it back when the process ends, however it ends.

    Args:
        folder: The folder; it is made if it is not there.
        name: The file in it that stands for the lock.
        wait: Wait for another process instead of raising.

    Raises:
        FolderTakenError: Another process has it, and ``wait`` is False.
        OSError: The folder cannot be written to.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.folder_lock import FolderLock
        >>> with tempfile.TemporaryDirectory() as folder, FolderLock(Path(folder)):
        ...     pass  # nobody else writes here
    """

    def __init__(self, folder: Path, name: str = ".lock", *, wait: bool = False) -> None:
        self.folder = folder
        self.path = folder / name
        while True:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                self._take(wait)
                if self._is_in_place():  # else the one before removed it
                    break
            except BaseException:
                os.close(self._file)
                raise
            os.close(self._file)

    def _take(self, wait: bool) -> None:
        import fcntl  # not on every system, and only a lock needs it

        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not wait:
                    holder = os.pread(self._file, 100, 0).decode(errors="replace").strip() or "unknown"
                    raise FolderTakenError(self.folder, holder) from None
                time.sleep(0.2)
            else:
                break
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def _is_in_place(self) -> bool:
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._file))

    def close(self) -> None:
        """Give the folder back, without a trace."""
        if self._is_in_place():
            self.path.unlink()
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
