"""Accuracy against cost: what the last points are paid with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from midway.bench import Result
from midway.report.figures.style import COLUMN, FAINT, Look, line_style, looks_of, new_figure, styled, tick_by_decades
from midway.report.standings import CostKind, pareto_front, stand

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

UNITS = {"seconds": "seconds a batch", "gflops": "GFLOPs an image, forward and backward"}


@dataclass(frozen=True)
class Priced:
    """A method's mean accuracy in percent, and its cost."""

    label: str
    cost: float
    accuracy: float


@dataclass(frozen=True)
class AccuracyAndCost:
    """Methods by cost.

    Attributes:
        kind: Which cost.
        streams: How many streams and seeds the means are over.
        points: The methods, cheapest first.
        front: Those that no other beats in both.
        looks: Of the methods.
    """

    kind: CostKind
    streams: int
    points: tuple[Priced, ...]
    front: tuple[str, ...]
    looks: dict[str, Look]


def accuracy_and_cost(results: Iterable[Result], *, kind: CostKind = "seconds") -> AccuracyAndCost:
    """Collect mean accuracy and cost of the methods, on the streams that all have.

    Args:
        results: Of one comparison.
        kind: ``"seconds"`` a batch as measured, or ``"gflops"`` an image as counted, where that was done.

    Example:
        >>> from midway.bench import Result
        >>> from midway.report.figures import accuracy_and_cost
        >>> def of(label, accuracy, seconds):
        ...     return Result(label, label, {}, "pure:fog", 8, accuracy, {}, {}, (), seconds)
        >>> accuracy_and_cost([of("bn", 60.0, 0.1), of("tent", 59.0, 0.3), of("mita", 66.0, 2.0)]).front
        ('bn', 'mita')
    """
    results = list(results)
    standings = stand(results)
    priced = [
        Priced(s.label, cost, s.accuracy) for s in standings.methods if (cost := s.cost(kind)) is not None and cost > 0
    ]
    priced.sort(key=lambda point: point.cost)
    front = pareto_front([s for s in standings.methods if any(p.label == s.label for p in priced)], kind)
    return AccuracyAndCost(kind, len(standings.places), tuple(priced), front, looks_of(results))


@styled
def draw_accuracy_and_cost(found: AccuracyAndCost) -> Figure:
    """Draw the methods as points with their names, the front as a line."""
    figure = new_figure(COLUMN * 1.35, 3.1)
    axes = figure.add_subplot()
    front = [point for point in found.points if point.label in found.front]
    axes.plot([p.cost for p in front], [p.accuracy for p in front], color=FAINT, linewidth=0.8, dashes=(3, 2), zorder=1)
    for point in found.points:
        style = line_style(found.looks[point.label]) | {"linestyle": "none"}
        axes.plot([point.cost], [point.accuracy], zorder=3, **style)
    axes.set_xscale("log")
    tick_by_decades(axes, (point.cost for point in found.points))
    axes.set_xlabel(UNITS[found.kind])
    axes.set_ylabel(f"accuracy (%), mean of {found.streams}" if found.streams > 1 else "accuracy (%)")
    axes.margins(x=0.14, y=0.1)
    axes.grid()
    figure.draw_without_rendering()  # so that the places of labels are known
    _name_points(axes, found)
    return figure


def _name_points(axes: Axes, found: AccuracyAndCost) -> None:
    """Write each name beside its point, where no other point or name is; the front's names first."""
    from matplotlib.text import Text

    points = axes.transData.transform([(point.cost, point.accuracy) for point in found.points])
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in points]
    front = [place for place, point in zip(points, found.points, strict=True) if point.label in found.front]
    steps = [step / 100 for step in range(101)]
    for (x0, y0), (x1, y1) in pairwise(front):  # names keep clear of the line
        line = [(x0 + step * (x1 - x0), y0 + step * (y1 - y0)) for step in steps]
        taken += [(x - 2, y - 2, x + 2, y + 2) for x, y in line]
    inside = axes.get_window_extent().extents
    places = [
        (6, 0, "left", "center"),
        (0, 6, "center", "bottom"),
        (0, -6, "center", "top"),
        (-6, 0, "right", "center"),
    ]
    places += [(5, 5, "left", "bottom"), (5, -5, "left", "top"), (-5, 5, "right", "bottom"), (-5, -5, "right", "top")]
    far = (14, -14, 22, -22, 30, -30, 38, -38)
    places += [(dx, dy, "left" if dx > 0 else "right", "center") for dy in far for dx in (8, -8, 20, -20)]
    for point in sorted(found.points, key=lambda point: point.label not in found.front):
        best: Annotation | None = None
        least = float("inf")
        for dx, dy, horizontal, vertical in places:
            note = axes.annotate(
                found.looks[point.label].title,
                (point.cost, point.accuracy),
                (dx, dy),
                textcoords="offset points",
                ha=horizontal,
                va=vertical,
                fontsize=7,
                weight="bold" if point.label in found.front else "normal",
                arrowprops={"arrowstyle": "-", "color": FAINT, "linewidth": 0.4} if abs(dy) > 8 else None,
            )
            note.get_window_extent()  # puts it in its place
            extent = Text.get_window_extent(note)  # without the line that leads to it
            box = (extent.x0, extent.y0, extent.x1, extent.y1)
            clash = sum(_overlap(box, other) for other in taken) + 5 * _outside(box, inside)
            if clash < least:
                if best is not None:
                    best.remove()
                best, least, kept = note, clash, box
            else:
                note.remove()
            if least == 0:
                break
        taken.append((kept[0] - 4, kept[1] - 2, kept[2] + 4, kept[3] + 2))


Box = tuple[float, float, float, float]


def _overlap(a: Box, b: Box) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return width * height if width > 0 and height > 0 else 0.0


def _outside(box: Box, frame: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1]) - _overlap(box, frame)
