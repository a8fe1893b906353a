"""What figures are computed from: results, predictions, a network and images, or a search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from midway.bench import Cell, Record
from midway.bench.entries import Entry
from midway.data.image_set import ImageSet
from midway.methods import MITA, adapt
from midway.report.tidy import Frame
from midway.streams import pure
from midway.tune.result import StudyResult


@dataclass(frozen=True)
class NetworkAndImages:
    """A network, images and the methods to adapt it with, for figures that are computed on request.

    Attributes:
        model: The classifier, in evaluation mode.
        data: Clean images, in the order in which they arrive.
        batch_size: Images per batch.
        image: Index of the image whose changes are shown.
        shift: The corruption of samples and energies, and of the images among which outliers are.
        outliers: The corruption of the outliers.
        mita: Settings of the MITA that samples, changes and energies show, as ``midway.adapt`` takes them.
        baseline: The method whose errors are corrected.
        method: The method that corrects them.
        langevin_steps: Length of the Langevin chains.
        seed: Seed of the streams, the methods and the chains.
    """

    model: nn.Module
    data: ImageSet
    batch_size: int = 200
    image: int = 0
    shift: str = "gaussian_noise"
    outliers: str = "glass_blur"
    mita: Mapping[str, Any] = field(default_factory=dict)
    baseline: Entry = field(default_factory=lambda: Entry("tent", {}, "tent"))
    method: Entry = field(default_factory=lambda: Entry("mita", {}, "mita"))
    langevin_steps: int = 200
    seed: int = 0

    def adapted_mita(self) -> MITA:
        """Return a MITA that has adapted to all images under the corruption."""
        method = adapt(self.model, "mita", seed=self.seed, **self.mita)
        assert isinstance(method, MITA)
        for batch in pure(self.data, self.shift, batch_size=self.batch_size, seed=self.seed):
            method(batch.images)
        return method


@dataclass(frozen=True)
class Predictions:
    """Predictions of two methods: stored by ``midway run --keep-predictions``, or computed if there are none.

    Attributes:
        runs: Folders of runs and their records.
        baseline: Label of the method whose errors are corrected.
        method: Label of the method that corrects them.
        compute: Returns the network and images to compute predictions with; None if they are not to be computed.
    """

    runs: Sequence[tuple[Path, Sequence[Record]]]
    baseline: str = "tent"
    method: str = "mita"
    compute: Callable[[], NetworkAndImages] | None = None


SOURCES: dict[type, str] = {
    Frame: "results",
    StudyResult: "a search",
    Predictions: "predictions, stored or with --pictures",
    NetworkAndImages: "network and images, with --pictures",
}
"""Every class of sources, and its description in messages and listings."""


def cell_of(records: Iterable[Record], name: str) -> Cell | None:
    """Return the first cell with this label, or else of this method; None if there is neither."""
    cells = [record.cell for record in records]
    return next((cell for key in ("label", "method") for cell in cells if getattr(cell, key) == name), None)


def entry_of(records: Iterable[Record], name: str) -> Entry:
    """Return a method with its settings in a run, without the seed; with its defaults if it is not in the run."""
    cell = cell_of(records, name)
    if cell is None:
        return Entry.make(name, {})
    return Entry(cell.method, {key: value for key, value in cell.settings.items() if key != "seed"}, cell.label)
