"""How good settings are: all streams of a search, a batch of each in turn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch

from midway.bench import Cell
from midway.bench.material import Material
from midway.bench.work import make_method, using_threads
from midway.streams import Stream

OnRound = Callable[[int, int, float], None]
"""Told after every round: rounds done, rounds in all, mean accuracy over the streams so far, in percent."""


@dataclass(frozen=True)
class Score:
    """What came out of some settings.

    Attributes:
        accuracy: Mean over the streams of the accuracy on all images of each, in percent.
        by_stream: The accuracy on each stream.
        by_group: Stream -> group -> accuracy; here the outliers are seen by themselves.
    """

    accuracy: float
    by_stream: dict[str, float]
    by_group: dict[str, dict[str, float]]


def score(
    cells: Sequence[Cell], streams: Sequence[Stream], material: Material, *, on_round: OnRound | None = None
) -> Score:
    """Run cells side by side, one batch of every stream a round, and say how good they are.

    A bad setting shows within a few rounds, on all streams at once. The numbers are those of ``midway run``, bit for
    bit: every stream has a method of its own.

    Args:
        cells: One method with one setting on several streams.
        streams: The stream of each cell.
        material: Networks of this process.
        on_round: Told after every round; what it raises ends the trial.

    Example:
        >>> from midway.bench.material import Material
        >>> from midway.tune import Search, score
        >>> material, cells = Material(), Search(method="bn", images=100, batch_size=50).cells({})[:2]
        >>> found = score(cells, [material.stream(cell) for cell in cells], material)
        >>> found.accuracy == sum(found.by_stream.values()) / 2
        True
    """
    with using_threads(cells[0].threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = [_Run(cell, stream, material) for cell, stream in zip(cells, streams, strict=True)]
        rounds = max(len(stream) for stream in streams)
        for done in range(1, rounds + 1):
            for run in runs:
                run.advance()
            if on_round is not None:
                on_round(done, rounds, fmean(run.accuracy for run in runs))
    by_stream = {run.cell.scenario: run.accuracy for run in runs}
    by_group = {run.cell.scenario: run.by_group() for run in runs}
    return Score(fmean(by_stream.values()), by_stream, by_group)


class _Run:
    """A method on its way through a stream, counting what it gets right."""

    def __init__(self, cell: Cell, stream: Stream, material: Material) -> None:
        self.cell, self.stream = cell, stream
        self.method = make_method(cell, material)
        self.batches = iter(stream)
        self.right = torch.zeros(len(stream.groups), dtype=torch.int64)
        self.seen = torch.zeros_like(self.right)

    def advance(self) -> None:
        """Answer the next batch; a stream that has ended stays as it is."""
        batch = next(self.batches, None)
        if batch is not None:
            predicted = self.method(batch.images.to(self.cell.device)).argmax(dim=1).cpu()
            groups = len(self.seen)
            self.right += batch.group[predicted == batch.labels].bincount(minlength=groups)
            self.seen += batch.group.bincount(minlength=groups)

    @property
    def accuracy(self) -> float:
        """On all images so far, in percent."""
        return 100 * int(self.right.sum()) / int(self.seen.sum())

    def by_group(self) -> dict[str, float]:
        """Return the accuracy on the images of each group, in percent."""
        pairs = zip(self.stream.groups, self.right.tolist(), self.seen.tolist(), strict=True)
        return {group: 100 * right / seen for group, right, seen in pairs if seen}
