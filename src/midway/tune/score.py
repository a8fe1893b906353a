"""The score of settings: all streams of a search, one batch of each in turn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch

from midway.bench import Cell
from midway.bench.engines.base import using_threads
from midway.bench.resources import ResourceCache
from midway.streams import Stream

OnRound = Callable[[int, int, float], None]
"""Called after every round: rounds done, number of rounds, mean accuracy over the streams so far, in percent."""


@dataclass(frozen=True)
class Score:
    """The accuracy of some settings.

    Attributes:
        accuracy: Mean over the streams of the accuracy on all images of each, in percent.
        by_stream: The accuracy on each stream.
        by_group: Stream -> group -> accuracy; outliers are a group.
    """

    accuracy: float
    by_stream: dict[str, float]
    by_group: dict[str, dict[str, float]]


def score(
    cells: Sequence[Cell], streams: Sequence[Stream], resources: ResourceCache, *, on_round: OnRound | None = None
) -> Score:
    """Run cells in rounds of one batch per stream and return their accuracy.

    Bad settings show within a few rounds, on all streams at once. The numbers equal those of ``midway run`` bit for
    bit: every stream has its own instance of the method.

    Args:
        cells: One method with the same settings on several streams.
        streams: The stream of each cell.
        resources: Networks of this process.
        on_round: Called after every round; an exception ends the trial.

    Example:
        >>> from midway.bench.resources import ResourceCache
        >>> from midway.tune import Search, score
        >>> resources, cells = ResourceCache(), Search(method="bn", images=100, batch_size=50).cells({})[:2]
        >>> result = score(cells, [resources.stream(cell) for cell in cells], resources)
        >>> result.accuracy == sum(result.by_stream.values()) / 2
        True
    """
    with using_threads(cells[0].threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = [_Run(cell, stream, resources) for cell, stream in zip(cells, streams, strict=True)]
        rounds = max(len(stream) for stream in streams)
        for done in range(1, rounds + 1):
            for run in runs:
                run.advance()
            if on_round is not None:
                on_round(done, rounds, fmean(run.accuracy for run in runs))
    by_stream = {str(run.cell.scenario): run.accuracy for run in runs}
    by_group = {str(run.cell.scenario): run.by_group() for run in runs}
    return Score(fmean(by_stream.values()), by_stream, by_group)


class _Run:
    """A method on a stream, with counts of its correct answers."""

    def __init__(self, cell: Cell, stream: Stream, resources: ResourceCache) -> None:
        self.cell, self.stream = cell, stream
        self.method = resources.method(cell)
        self.batches = iter(stream)
        self.correct = torch.zeros(len(stream.groups), dtype=torch.int64)
        self.seen = torch.zeros_like(self.correct)

    def advance(self) -> None:
        """Answer the next batch, if the stream has one."""
        batch = next(self.batches, None)
        if batch is not None:
            predicted = self.method(batch.images.to(self.cell.device)).argmax(dim=1).cpu()
            groups = len(self.seen)
            self.correct += batch.group[predicted == batch.labels].bincount(minlength=groups)
            self.seen += batch.group.bincount(minlength=groups)

    @property
    def accuracy(self) -> float:
        """Accuracy on all images so far, in percent."""
        return 100 * int(self.correct.sum()) / int(self.seen.sum())

    def by_group(self) -> dict[str, float]:
        """Return the accuracy on the images of each group, in percent."""
        pairs = zip(self.stream.groups, self.correct.tolist(), self.seen.tolist(), strict=True)
        return {group: 100 * correct / seen for group, correct, seen in pairs if seen}
