"""The console of all commands."""

from __future__ import annotations

from typing import IO

from rich.console import Console


def terminal(file: IO[str] | None = None, *, stderr: bool = False) -> Console:
    """Return a console without emoji codes: rich would print ``pure:fog:`` with a picture of fog.

    Example:
        >>> import sys
        >>> from midway.cli.terminal import terminal
        >>> terminal(sys.stdout).print("pure:fog: no fog")
        pure:fog: no fog
    """
    return Console(file=file, stderr=stderr, emoji=False)
