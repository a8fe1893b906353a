"""The one thing an engine does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from midway.bench.cell import Cell
from midway.bench.record import Record
from midway.bench.work import OnBatch


class Engine(Protocol):
    """Runs cells somewhere and yields each outcome as soon as it is there, in any order.

    An engine never raises because of a cell: what goes wrong in one, a killed worker included, is a failed outcome. It
    knows nothing of the store. Closing the iterator stops what is running.
    """

    def run(
        self, cells: Sequence[Cell], *, keep_predictions: bool = False, on_batch: OnBatch | None = None
    ) -> Iterator[Record]:
        """Run cells.

        Args:
            cells: What to run, in this order as far as there is one.
            keep_predictions: Records carry logits, labels and groups.
            on_batch: Told after every batch, in the calling thread.
        """
        ...
