"""Changes of an object with a large state: what a failed batch undoes, instead of a copy of the state before it."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Changes(ABC):
    """What an object records from its ``begin_undo`` on, so that later changes can be undone."""

    @abstractmethod
    def undo(self) -> None:
        """Undo all changes since the beginning, bit for bit; recording goes on."""

    @abstractmethod
    def end(self) -> None:
        """Stop recording."""
