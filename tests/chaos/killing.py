"""Run the command line in forked processes, and kill them at random moments or inside their writes.

The forking process imports midway once and computes nothing, so a start costs milliseconds instead of seconds.
"""

from __future__ import annotations

import builtins
import io
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Ended:
    """How a command ended: its status (negative: a signal), what it printed, and how long it took."""

    status: int
    output: str
    seconds: float

    @property
    def killed(self) -> bool:
        return self.status == -signal.SIGKILL

    @property
    def in_one_sentence(self) -> bool:
        """Whether it failed in order: status 1, no traceback, one line that says what is wrong."""
        return self.status == 1 and "Traceback" not in self.output and self.output.count("error: ") == 1


def midway(
    arguments: Sequence[str | Path],
    *,
    seconds: float | None = None,
    write: int | None = None,
    before: Callable[[], None] | None = None,
    limit: float = 240.0,
) -> Ended:
    """Run ``midway`` with arguments in a forked process.

    Args:
        arguments: The command line.
        seconds: Kill the process and its workers after this time.
        write: Kill the process within the write with this number, counted from 1, after half of the bytes.
        before: Called in the process before the command.
        limit: A command that takes longer hangs; it is killed, and its status is -SIGALRM.
    """
    reading, writing = os.pipe()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(reading)
        for descriptor in (1, 2):
            os.dup2(writing, descriptor)
        os._exit(_run([str(argument) for argument in arguments], write, before))
    os.close(writing)
    output, status = b"", None
    os.set_blocking(reading, False)
    while status is None:
        with suppress(BlockingIOError):
            output += os.read(reading, 1 << 16)
        done, code = os.waitpid(child, os.WNOHANG)
        passed = time.monotonic() - started
        if done:
            status = os.waitstatus_to_exitcode(code)
        elif passed > min(limit, limit if seconds is None else seconds):
            os.kill(child, signal.SIGKILL)  # first alone: it may not have its own group yet
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            status = -signal.SIGALRM if passed > limit else -signal.SIGKILL
        else:
            time.sleep(0.005)
    while True:  # workers that outlive their parent for a moment hold the pipe open
        try:
            block = os.read(reading, 1 << 16)
        except BlockingIOError:
            break
        if not block:
            break
        output += block
    os.close(reading)
    return Ended(status, output.decode(errors="replace"), time.monotonic() - started)


def _run(arguments: list[str], write: int | None, before: Callable[[], None] | None) -> int:
    """Run the command line in this forked process and return its status."""
    import midway.cli

    sys.argv = ["midway", *arguments]
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(number, "w"), write_through=True) for number in (1, 2))
    status = 0
    try:
        if write is not None:
            _die_in_write(write)
        if before is not None:
            before()
        midway.cli.main()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    except BaseException:
        import traceback

        traceback.print_exc()
        status = 70
    return status


def _die_in_write(number: int) -> None:
    """Kill this process in one of its writes to files, after half of the bytes, or just before or after a rename."""
    left = number
    opened, os_write, fsync, replace = io.open, os.write, os.fsync, os.replace

    def due() -> bool:
        nonlocal left
        left -= 1
        return left == 0

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)

    class Dying(io.BufferedWriter):
        def write(self, data: Any, /) -> int:
            if due():
                view = memoryview(data)
                super().write(view[: len(view) // 2])
                self.flush()
                die()
            return super().write(data)

    def dying_open(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if "b" in mode and set(mode) & set("wax") and "+" not in mode:
            return Dying(io.FileIO(file, mode.replace("b", "")))
        return opened(file, mode, *args, **kwargs)

    def dying_write(descriptor: int, data: bytes, /) -> int:
        if descriptor > 2 and due():
            os_write(descriptor, data[: len(data) // 2])
            die()
        return os_write(descriptor, data)

    def dying_fsync(descriptor: int, /) -> None:
        if due():
            die()
        fsync(descriptor)

    def dying_replace(source: Any, target: Any, **kwargs: Any) -> None:
        if due():
            if left % 2:
                replace(source, target, **kwargs)
            die()
        replace(source, target, **kwargs)

    builtins.open = io.open = dying_open  # type: ignore[assignment]
    os.write, os.fsync, os.replace = dying_write, dying_fsync, dying_replace  # type: ignore[assignment]
