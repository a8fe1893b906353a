"""Storages of searches: Optuna's journal in a file, or a database; passwords are never shown."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial

from midway.files import FolderLock

HEARTBEAT_SECONDS = 30
"""Interval of heartbeats in a database; after four missed ones a trial is given to others."""

OnLost = Callable[[optuna.Study, FrozenTrial], None]


@contextmanager
def open_storage(text: str, on_lost: OnLost | None = None) -> Iterator[BaseStorage]:
    """Open a storage that several processes and machines can share; it is created if it does not exist.

    Args:
        text: A file, which becomes Optuna's journal; or a database URL, such as ``sqlite:///tune.db`` or
            ``postgresql://user:password@host/name``.
        on_lost: Called with trials whose heartbeats stopped; only databases have heartbeats.

    Raises:
        ValueError: It cannot be opened, or is damaged; the message does not show the password.
    """
    if "://" not in text:
        path = Path(text).expanduser()
        try:
            journal = open_journal(path)
        except OSError as error:
            raise ValueError(f"the storage {path} cannot be written to ({error.strerror}): choose another.") from error
        yield journal
        return
    url = re.sub(r"^postgres(ql)?://", "postgresql+psycopg://", text)  # the driver that midway[tune] installs
    try:
        with ignore_experimental():
            database = RDBStorage(
                url,
                heartbeat_interval=HEARTBEAT_SECONDS,
                grace_period=4 * HEARTBEAT_SECONDS,
                heartbeat_stale_trial_callback=on_lost,
            )
    except ImportError as error:
        raise ValueError(f"{without_password(text)} needs a driver that is not installed: {error}.") from error
    except Exception as error:
        reason = hide_password(str(error).strip().splitlines()[0], text)
        raise ValueError(
            f"the storage {without_password(text)} cannot be opened: {reason}. Check that the server runs, the "
            "database exists and the file is not damaged."
        ) from error
    try:
        yield database
    finally:
        database.remove_session()
        database.engine.dispose()


class _JournalLock(JournalFileOpenLock):
    """The lock of midway for Optuna's journal; Optuna's own one outlives a process that is killed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def acquire(self) -> bool:
        """Wait for the lock and take it."""
        self._lock = FolderLock(self.path.parent, f".{self.path.name}.lock", wait=True)
        return True

    def release(self) -> None:
        """Release the lock."""
        self._lock.close()


def open_journal(path: Path) -> JournalStorage:
    """Open a journal; a last line that a kill or a full disk truncated is removed first.

    Raises:
        OSError: The file cannot be written to.
        ValueError: The file is not a journal, or a line of it is damaged; it is not changed then.
    """
    path = path.resolve()
    lock = _JournalLock(path)
    with FolderLock(path.parent, f".{path.name}.lock", wait=True):
        _repair(path)
    return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))


def _repair(path: Path) -> None:
    path.touch()
    *lines, tail = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not _is_operation(line):
            raise ValueError(
                f"{path}:{number}: this line is not part of the journal of a search. If the file is a journal, repair "
                "or remove the line; otherwise choose another storage. Nothing was changed."
            )
    if not tail:
        return
    if not lines and not _is_operation(tail) and not tail.startswith(b"{"):
        raise ValueError(f"{path} is not the journal of a search: choose another storage. Nothing was changed.")
    with path.open("r+b") as file:
        if _is_operation(tail):
            file.seek(0, os.SEEK_END)
            file.write(b"\n")
        else:
            file.truncate(sum(len(line) + 1 for line in lines))


def _is_operation(line: bytes) -> bool:
    try:
        operation = json.loads(line)
    except ValueError:
        return False
    return isinstance(operation, dict) and "op_code" in operation


def without_password(address: str) -> str:
    """Return an address of a database with its password hidden.

    Example:
        >>> from midway.tune.storage import without_password
        >>> without_password("postgresql://ann:se/cr@t@host/name"), without_password("study.journal")
        ('postgresql://ann:***@host/name', 'study.journal')
        >>> without_password("postgresql://host/name?password=my secret&user=ann")
        'postgresql://host/name?password=***&user=ann'
    """
    scheme, sign, rest = address.partition("://")
    if not sign:
        return address
    login, at, host = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    rest = f"{user}:***@{host}" if at and colon else rest
    return f"{scheme}://" + re.sub("(password=)[^&]*", r"\1***", rest, flags=re.IGNORECASE)


def hide_password(text: str, address: str) -> str:
    """Return a text with the password of an address hidden.

    Example:
        >>> from midway.tune.storage import hide_password
        >>> hide_password("no such user, password=secret", "postgresql://ann:secret@host/name")
        'no such user, password=***'
    """
    login, _, host = address.partition("://")[2].rpartition("@")
    secrets = [login.partition(":")[2], *re.findall("password=([^&]*)", host, flags=re.IGNORECASE)]
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return text


@contextmanager
def ignore_experimental() -> Iterator[None]:
    """Ignore the warnings of Optuna about experimental features within the block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield
