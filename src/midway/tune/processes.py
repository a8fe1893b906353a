"""Which process runs a trial, and whether it still lives."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Literal

Fate = Literal["alive", "dead", "unknown"]


def this_process() -> str:
    """Name this process so that no other one is taken for it: machine, number, start, boot, and room of numbers.

    Example:
        >>> from midway.tune.processes import fate_of, this_process
        >>> fate_of(this_process())
        'alive'
    """
    return ":".join([socket.gethostname(), str(os.getpid()), _start(os.getpid()), *_room()])


def fate_of(process: str) -> Fate:
    """Tell whether a process that ``this_process`` named still lives, as far as that can be seen from here.

    Example:
        >>> from midway.tune.processes import fate_of
        >>> fate_of("another-machine:12")
        'unknown'
    """
    host, _, rest = process.partition(":")
    number, *more = rest.split(":")
    if host != socket.gethostname():
        return "unknown"
    if more:
        start, boot, space = more
        if boot != _room()[0]:
            return "dead"  # the machine was started anew
        if space != _room()[1]:
            return "unknown"  # a container of the same name counts its processes by itself
        return "alive" if _exists(int(number)) and start == _start(int(number)) else "dead"
    return "alive" if _exists(int(number)) else "dead"


def _room() -> tuple[str, str]:
    """Return what tells this boot from others, and this room of process numbers; nothing where the system is silent."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return boot, str(Path("/proc/self/ns/pid").readlink()).replace(":", "")
    except OSError:
        return "", ""


def _start(process: int) -> str:
    """Return when a process began, in ticks since the boot; nothing where the system is silent."""
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
