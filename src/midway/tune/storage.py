"""What several processes share in a search: a journal in a file or a database, and who is alive.

Passwords of databases are never shown. A process is identified by machine, number, start time, boot and PID namespace.
"""

from __future__ import annotations

import os
import re
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial

from midway._errors import shorten_error
from midway._files import FolderLock, parse_json
from midway._secrets import hide_password, without_password

HEARTBEAT_SECONDS = 30
"""Interval of heartbeats in a database; after four missed ones a trial is given to others."""

Status = Literal["alive", "dead", "unknown"]
OnLost = Callable[[optuna.Study, FrozenTrial], None]


@contextmanager
def open_storage(text: str, on_lost: OnLost | None = None) -> Iterator[BaseStorage]:
    """Open a storage that several processes and machines can share; it is created if it does not exist.

    A file becomes Optuna's journal. A URL is that of a database, whose heartbeats show lost trials. Errors never show
    the password.
    """
    if "://" not in text:
        path, file = Path(text).expanduser(), Path(text).expanduser().resolve()
        try:
            with FolderLock(file.parent, f".{file.name}.lock", wait=True):
                _repair(file)
        except OSError as error:
            raise ValueError(f"the storage {path} cannot be written to ({error.strerror}): choose another.") from error
        try:
            journal = JournalStorage(JournalFileBackend(str(file), lock_obj=_JournalLock(file)))
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:  # of a line with other content
            raise ValueError(
                f"{path} is a damaged journal of a search ({type(error).__name__}: {error}): remove it, or choose "
                "another storage. Nothing was changed."
            ) from error
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
        reason = hide_password(shorten_error(error), text)
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


def _repair(path: Path) -> None:
    """Remove a last line that a kill or a full disk truncated; a file with other damage is not changed."""
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
        operation = parse_json(line)
    except ValueError:
        return False
    return isinstance(operation, dict) and "op_code" in operation


@contextmanager
def ignore_experimental() -> Iterator[None]:
    """Ignore the warnings of Optuna about experimental features within the block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


def this_process() -> str:
    """Return a name of this process that no other process has."""
    return ":".join([socket.gethostname(), str(os.getpid()), _start_time(os.getpid()), *_boot_and_pid_namespace()])


def status_of(process: str) -> Status:
    """Return whether a process that ``this_process`` named is alive, if that can be seen from this process."""
    host, _, rest = process.partition(":")
    number, *details = rest.split(":")
    if host != socket.gethostname():
        return "unknown"
    if not details:
        return "alive" if _exists(int(number)) else "dead"
    start, boot, namespace = details
    this_boot, this_namespace = _boot_and_pid_namespace()
    if boot != this_boot:
        return "dead"  # the machine was restarted
    if namespace != this_namespace:
        return "unknown"  # a container with the same host name has its own process numbers
    return "alive" if _exists(int(number)) and start == _start_time(int(number)) else "dead"


def _boot_and_pid_namespace() -> tuple[str, str]:
    """Return what identifies this boot and this PID namespace; empty on systems that do not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return boot, str(Path("/proc/self/ns/pid").readlink()).replace(":", "")
    except OSError:
        return "", ""


def _start_time(process: int) -> str:
    """Return the start time of a process in ticks since the boot; empty on systems that do not tell."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
