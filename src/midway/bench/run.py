"""Run a plan into a store: skip finished cells, continue after failures, stop cleanly."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from midway.bench.cell import Cell
from midway.bench.engines import Engine
from midway.bench.record import Record
from midway.bench.store import Store


class Watcher:
    """Receives the progress of a run, for progress bars; this one ignores it.

    Example:
        >>> from midway.bench import Grid, LocalEngine, Watcher
        >>> class Printer(Watcher):
        ...     def batch(self, cell, done, total, running):
        ...         print(f"{cell}: {done}/{total}")
        >>> cell = Grid.from_dict({"methods": "source", "images": 100, "batch_sizes": 100}).cells()[0]
        >>> _ = list(LocalEngine().run([cell], on_batch=Printer().batch))
        source on pure:gaussian_noise, seed 0: 1/1
    """

    def begin(self, cells: Sequence[Cell], finished: int) -> None:
        """Cells are about to run; ``finished`` cells have results already."""

    def batch(self, cell: Cell, done: int, total: int, running: float) -> None:
        """A batch of a cell is done; ``running`` is the accuracy so far, in percent."""

    def end(self, record: Record) -> None:
        """The record of a cell is in the store."""


@dataclass(frozen=True)
class Tally:
    """How a run ended.

    Attributes:
        before: Cells that had results already.
        finished: Cells that finished now.
        failed: Cells that failed now.
        out_of_date: Cells whose stored results were computed by other code; run again unless ``keep_old``.
    """

    before: int
    finished: int
    failed: int
    out_of_date: int = 0


def run(
    cells: Sequence[Cell],
    store: Store,
    engine: Engine,
    *,
    command: str = "",
    keep_predictions: bool = False,
    keep_old: bool = False,
    watcher: Watcher | None = None,
) -> Tally:
    """Run the cells without a valid result in the store, and add each record to it as the cell finishes.

    A cell that fails is stored as failed and run again the next time. An interrupt (Ctrl-C) passes through: finished
    cells are in the store.

    Args:
        cells: The plan.
        store: Receives the records.
        engine: Runs the cells.
        command: The command that started the run, stored with every record.
        keep_predictions: Also store every answer.
        keep_old: Accept stored results that other code computed.
        watcher: Receives the progress.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.bench import Grid, LocalEngine, Store, run
        >>> cells = Grid.from_dict({"methods": "source,bn", "images": 100, "batch_sizes": 50}).cells()
        >>> with tempfile.TemporaryDirectory() as folder, Store(Path(folder)) as store:
        ...     run(cells, store, LocalEngine())
        ...     run(cells, store, LocalEngine())
        Tally(before=0, finished=2, failed=0, out_of_date=0)
        Tally(before=2, finished=0, failed=0, out_of_date=0)
    """
    watcher = watcher or Watcher()
    left = [cell for cell in cells if not store.has(cell, predictions=keep_predictions, keep_old=keep_old)]
    before, out_of_date = len(cells) - len(left), len(store.out_of_date(cells))
    watcher.begin(left, before)
    failed = 0
    with closing(engine.run(left, keep_predictions=keep_predictions, on_batch=watcher.batch)) as records:  # type: ignore[type-var]
        for record in records:
            store.add(record, command=command)
            failed += record.failure is not None
            watcher.end(record)
    return Tally(before, len(left) - failed, failed, out_of_date)
