"""The registry of figures, each one file that builds plain data and draws it, and what figures are computed from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from torch import nn

from midway._registry import Registry
from midway.bench import Record
from midway.bench.entries import Entry
from midway.data.image_set import ImageSet
from midway.methods import MITA, adapt
from midway.report.figures.drawing import styled
from midway.report.tidy import Frame
from midway.streams import pure
from midway.tune.result import StudyResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FigureSource = TypeVar("FigureSource")
Data = TypeVar("Data")


@dataclass(frozen=True)
class NetworkAndImages:
    """A network, images and the methods to adapt it with, for figures that are computed on request."""

    model: nn.Module  # in evaluation mode
    data: ImageSet  # clean, in the order in which the images arrive
    batch_size: int = 200
    image: int = 0  # index of the image whose changes are shown
    shift: str = "gaussian_noise"  # the corruption of samples and energies, and of the images among which outliers are
    outliers: str = "glass_blur"
    mita: Mapping[str, Any] = field(default_factory=dict)  # settings of the MITA that figures show, as adapt takes them
    baseline: Entry = field(default_factory=lambda: Entry("tent", {}, "tent"))  # the method whose errors are corrected
    method: Entry = field(default_factory=lambda: Entry("mita", {}, "mita"))  # the method that corrects them
    langevin_steps: int = 200
    seed: int = 0  # of the streams, the methods and the chains

    def adapted_mita(self) -> MITA:
        """Return a MITA that has adapted to all images under the corruption."""
        method = adapt(self.model, "mita", seed=self.seed, **self.mita)
        assert isinstance(method, MITA)
        for batch in pure(self.data, self.shift, batch_size=self.batch_size, seed=self.seed):
            method(batch.images)
        return method


class PredictionPair(NamedTuple):
    """PredictionPair of two methods: stored by ``midway run --keep-predictions``, or computed if there are none."""

    runs: Sequence[tuple[Path, Sequence[Record]]]  # folders and their records
    baseline: str = "tent"  # label of the method whose errors are corrected
    method: str = "mita"  # label of the method that corrects them
    compute: Callable[[], NetworkAndImages] | None = None  # None if predictions are not to be computed


SOURCES: dict[type, str] = {
    Frame: "results",
    StudyResult: "a search",
    PredictionPair: "predictions, stored or with --pictures",
    NetworkAndImages: "network and images, with --pictures",
}
"""Every class of sources, and its description in messages and listings."""


@dataclass(frozen=True)
class FigureSpec:
    """A figure: what it shows, what it is computed from, and how it is drawn."""

    name: str  # on the command line, and of its files
    title: str
    caption: str
    source: type  # one of SOURCES
    requires: str  # what the source must contain
    example: str  # options of `midway run` that give such a source; empty if there are none
    build: Callable[[Any], Any] = field(repr=False)  # from a source to plain data
    enough: Callable[[Any], bool] = field(repr=False)  # whether the data is enough to draw
    draw: Callable[[Any], Figure] = field(repr=False)
    defined_in: str  # module and name of the function that draws it


FIGURES: Registry[FigureSpec] = Registry("figure", group="figures", package="midway.report.figures")
"""Every figure by name."""


def figure(
    name: str,
    *,
    title: str,
    caption: str,
    source: type[FigureSource],
    build: Callable[[FigureSource], Data],
    requires: str,
    example: str = "",
    enough: Callable[[Data], bool] = bool,
) -> Callable[[Callable[[Data], Figure]], Callable[[Data], Figure]]:
    """Register a function that draws data as a figure; the arguments are explained in ``FigureSpec``.

    ``midway figures``, its help and the gallery follow from the registry. Other packages register figures with an
    entry point of the group ``midway.figures`` that names their module.

    Example:
        >>> from midway.report import Frame
        >>> from midway.report.figures import FIGURES, draw_figures, figure
        >>> from midway.report.figures.drawing import new_figure
        >>> @figure("labels", title="Labels", caption="All labels.", source=Frame, requires="a result",
        ...         build=lambda frame: frame.unique("label"))
        ... def draw_labels(labels):
        ...     drawing = new_figure(2, 2)
        ...     _ = drawing.text(0.1, 0.5, ", ".join(labels))
        ...     return drawing
        >>> dict(draw_figures(Frame(()), only=["labels"]))
        {}
        >>> FIGURES.remove("labels")
    """

    def register(draw: Callable[[Data], Figure]) -> Callable[[Data], Figure]:
        drawn, where = styled(draw), f"{draw.__module__}.{draw.__qualname__}"
        FIGURES.add(name, FigureSpec(name, title, caption, source, requires, example, build, enough, drawn, where))
        return drawn

    return register


def all_figures() -> list[FigureSpec]:
    """Return all figures, sorted by source and name."""
    sources = list(SOURCES)
    rank = {spec: sources.index(spec.source) if spec.source in sources else len(sources) for spec in FIGURES.values()}
    return sorted(rank, key=lambda spec: (rank[spec], spec.name))


def draw_figures(source: object, *, only: Collection[str] = ()) -> Iterator[tuple[str, Figure]]:
    """Draw the figures that a source, such as a ``Frame`` of results, is enough for, one after the other.

    If ``only`` names figures, the others are skipped; an unknown name raises a ValueError with the nearest match.
    """
    for spec in [FIGURES[name] for name in only] or all_figures():
        if isinstance(source, spec.source) and spec.enough(data := spec.build(source)):
            yield spec.name, spec.draw(data)
