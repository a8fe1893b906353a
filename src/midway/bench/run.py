"""Run a plan into a store: skip what is finished, go on where something fails, stop cleanly."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from midway.bench.cell import Cell
from midway.bench.engines import Engine
from midway.bench.outcome import Outcome
from midway.bench.store import Store


class Watcher(Protocol):
    """Told how a run goes, for progress bars."""

    def begin(self, cells: Sequence[Cell], finished: int) -> None:
        """Cells are about to run; as many were finished before."""
        ...

    def batch(self, cell: Cell, done: int, total: int, running: float) -> None:
        """A batch of a cell is done; ``running`` is the accuracy so far, in percent."""
        ...

    def end(self, outcome: Outcome) -> None:
        """A cell is in the store."""
        ...


class _Silence:
    """Watches and says nothing."""

    def begin(self, cells: Sequence[Cell], finished: int) -> None:
        """Say nothing."""

    def batch(self, cell: Cell, done: int, total: int, running: float) -> None:
        """Say nothing."""

    def end(self, outcome: Outcome) -> None:
        """Say nothing."""


@dataclass(frozen=True)
class Tally:
    """How a run ended: cells that were finished before, finished now, and failed now."""

    before: int
    finished: int
    failed: int


def run(
    cells: Sequence[Cell],
    store: Store,
    engine: Engine,
    *,
    command: str = "",
    keep_predictions: bool = False,
    watcher: Watcher | None = None,
) -> Tally:
    """Run the cells that the store does not have, and add each to it as it finishes.

    A cell that fails is stored as failed and tried again the next time. An interrupt (Ctrl-C) passes through: what is
    finished is in the store.

    Args:
        cells: The plan.
        store: Where results go.
        engine: What runs cells.
        command: What started this, stored with every result.
        keep_predictions: Also keep every answer.
        watcher: Told how it goes.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.bench import Grid, LocalEngine, Store, run
        >>> cells = Grid.from_dict({"methods": "source,bn", "images": 100, "batch_sizes": 50}).cells()
        >>> with tempfile.TemporaryDirectory() as folder, Store(Path(folder)) as store:
        ...     run(cells, store, LocalEngine())
        ...     run(cells, store, LocalEngine())
        Tally(before=0, finished=2, failed=0)
        Tally(before=2, finished=0, failed=0)
    """
    watching: Watcher = watcher or _Silence()
    left = [cell for cell in cells if not store.has(cell, predictions=keep_predictions)]
    before = len(cells) - len(left)
    watching.begin(left, before)
    failed = 0
    with closing(engine.run(left, keep_predictions=keep_predictions, on_batch=watching.batch)) as outcomes:  # type: ignore[type-var]
        for outcome in outcomes:
            store.add(outcome, command=command)
            failed += outcome.failure is not None
            watching.end(outcome)
    return Tally(before, len(left) - failed, failed)
