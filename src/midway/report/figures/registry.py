"""The registry of figures: each is one file that builds plain data and draws it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from midway.registry import Registry
from midway.report.figures.drawing import styled
from midway.report.figures.sources import SOURCES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Source = TypeVar("Source")
Data = TypeVar("Data")


@dataclass(frozen=True)
class FigureSpec:
    """A figure: what it shows, what it is computed from, and how it is drawn.

    Attributes:
        name: Its name on the command line, and of its files.
        title: Its heading.
        caption: What it shows.
        source: The class of what it is computed from; see ``midway.report.figures.SOURCES``.
        requires: What the source must contain.
        example: Options of ``midway run`` that give such a source; empty if there are none.
        build: Function from a source to plain data.
        enough: Function that tells whether the data is enough to draw.
        draw: Function from the data to a figure of matplotlib.
        defined_in: Module and name of the function that draws it.
    """

    name: str
    title: str
    caption: str
    source: type
    requires: str
    example: str
    build: Callable[[Any], Any] = field(repr=False)
    enough: Callable[[Any], bool] = field(repr=False)
    draw: Callable[[Any], Figure] = field(repr=False)
    defined_in: str


FIGURES: Registry[FigureSpec] = Registry("figure", group="figures", package="midway.report.figures")
"""Every figure by name."""


def figure(
    name: str,
    *,
    title: str,
    caption: str,
    source: type[Source],
    build: Callable[[Source], Data],
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
    """Draw the figures that a source is enough for, one after the other.

    Args:
        source: What figures are computed from, such as a ``Frame`` of results; see ``midway.report.figures.SOURCES``.
        only: Names of the figures to draw; all if empty. Figures of other sources are skipped.

    Raises:
        ValueError: A name is unknown; the message lists the valid names and the nearest match.

    Example:
        >>> from midway.report import Frame, Row
        >>> from midway.report.figures import draw_figures
        >>> from midway.streams import Scenario
        >>> row = Row("bn", Scenario.parse("pure:fog"), "all", 0, "accuracy", 75.0)
        >>> [name for name, figure in draw_figures(Frame((row,), methods={"bn": "bn"}))]
        ['scenarios']
    """
    for spec in [FIGURES[name] for name in only] or all_figures():
        if isinstance(source, spec.source) and spec.enough(data := spec.build(source)):
            yield spec.name, spec.draw(data)
