"""Identities of processes that run trials: machine, process number, start time, boot and PID namespace."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Literal

Status = Literal["alive", "dead", "unknown"]


def this_process() -> str:
    """Return a name of this process that no other process has.

    Example:
        >>> from midway.tune.processes import status_of, this_process
        >>> status_of(this_process())
        'alive'
    """
    return ":".join([socket.gethostname(), str(os.getpid()), _start_time(os.getpid()), *_boot_and_pid_namespace()])


def status_of(process: str) -> Status:
    """Return whether a process that ``this_process`` named is alive, if that can be seen from this process.

    Example:
        >>> from midway.tune.processes import status_of
        >>> status_of("another-machine:12")
        'unknown'
    """
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
