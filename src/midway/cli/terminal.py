"""The console that every command writes to."""

from __future__ import annotations

from typing import IO

from rich.console import Console


def terminal(file: IO[str] | None = None, *, stderr: bool = False) -> Console:
    """Make a console on which ``pure:fog:`` stays what it is; rich would show a picture of fog.

    Example:
        >>> import sys
        >>> from midway.cli.terminal import terminal
        >>> terminal(sys.stdout).print("pure:fog: no fog")
        pure:fog: no fog
    """
    return Console(file=file, stderr=stderr, emoji=False)
