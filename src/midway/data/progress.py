"""How long work tells how far it is: a function anyone can write."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called now and then by downloads and generators.

    Example:
        >>> def progress(task: str, done: int, total: int | None) -> None:
        ...     print(f"{task}: {done} of {total or '?'}")
        >>> progress("unpacking", 3, None)
        unpacking: 3 of ?
    """

    def __call__(self, task: str, done: int, total: int | None) -> None:
        """Take note that ``done`` of ``total`` (None: unknown) units of a task are finished."""
        ...


def silent(task: str, done: int, total: int | None) -> None:
    """Show nothing."""
