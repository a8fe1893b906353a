"""Accuracy against cost, and the methods that no other method beats in both."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from midway.metrics import METRICS
from midway.report.figures.drawing import COLUMN, GREY, annotate, line_style, new_figure, set_log_ticks
from midway.report.figures.registry import figure
from midway.report.series import AccuracyAndCost, Point, accuracy_and_cost
from midway.report.tidy import Frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation


@figure(
    "cost_gflops",
    title="Accuracy against operations",
    caption="Accuracy against counted operations; the line joins the methods that no other method beats in both.",
    source=Frame,
    build=partial(accuracy_and_cost, metric="gflops"),
    enough=lambda data: len(data.points) > 1,
    requires="two methods on the same stream, with their cost",
    example="--methods bn,tent",
)
@figure(
    "cost_seconds",
    title="Accuracy against time",
    caption="The line joins the methods that no other method beats in both accuracy and time; their names are bold.",
    source=Frame,
    build=accuracy_and_cost,
    enough=lambda data: len(data.points) > 1,
    requires="two methods on the same stream",
    example="--methods bn,tent",
)
def draw_accuracy_and_cost(data: AccuracyAndCost) -> Figure:
    """Draw the methods as points with their names, the front as a line."""
    figure = new_figure(COLUMN * 1.35, 3.1)
    axes = figure.add_subplot()
    front = [point for point in data.points if point.label in data.front]
    axes.plot([p.cost for p in front], [p.accuracy for p in front], color=GREY, linewidth=0.8, dashes=(3, 2), zorder=1)
    for point in data.points:
        style = line_style(data.styles[point.label]) | {"linestyle": "none"}
        axes.plot([point.cost], [point.accuracy], zorder=3, **style)
    axes.set_xscale("log")
    set_log_ticks(axes, (point.cost for point in data.points))
    axes.set_xlabel(METRICS[data.metric].title)
    axes.set_ylabel(f"accuracy (%), mean of {data.streams}" if data.streams > 1 else "accuracy (%)")
    axes.margins(x=0.14, y=0.1)
    axes.grid()
    figure.draw_without_rendering()  # fixes the coordinates of the points
    _name_points(axes, data)
    return figure


FAR = (14, -14, 22, -22, 30, -30, 38, -38)
OFFSETS = [(6, 0), (0, 6), (0, -6), (-6, 0), (5, 5), (5, -5), (-5, 5), (-5, -5)]
OFFSETS += [(dx, dy) for dy in FAR for dx in (8, -8, 20, -20)]
"""Where a name can be, in points from its point; earlier ones are preferred."""


def _name_points(axes: Axes, data: AccuracyAndCost) -> None:
    """Write each name beside its point, where it overlaps least with points and names; those of the front first."""
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    def overlap(first: Bbox, second: Bbox) -> float:
        common = Bbox.intersection(first, second)
        return 0.0 if common is None else common.width * common.height

    coordinates = axes.transData.transform([(point.cost, point.accuracy) for point in data.points])
    taken = [Bbox.from_extents(x - 4, y - 4, x + 4, y + 4) for x, y in coordinates]
    front = [xy for xy, point in zip(coordinates, data.points, strict=True) if point.label in data.front]
    for (x0, y0), (x1, y1) in pairwise(front):  # names do not cover the line
        line = [(x0 + step / 100 * (x1 - x0), y0 + step / 100 * (y1 - y0)) for step in range(101)]
        taken += [Bbox.from_extents(x - 2, y - 2, x + 2, y + 2) for x, y in line]
    inside = axes.get_window_extent()
    for point in sorted(data.points, key=lambda point: point.label not in data.front):
        clashes: dict[tuple[int, int], float] = {}
        for offset in OFFSETS:
            name = _name_point(axes, data, point, offset)
            box = Text.get_window_extent(name)  # without the line
            name.remove()
            outside = box.width * box.height - overlap(box, inside)
            clashes[offset] = sum(overlap(box, other) for other in taken) + 5 * outside
            if clashes[offset] == 0:
                break
        box = Text.get_window_extent(_name_point(axes, data, point, min(clashes, key=clashes.__getitem__)))
        taken.append(Bbox.from_extents(box.x0 - 4, box.y0 - 2, box.x1 + 4, box.y1 + 2))


def _name_point(axes: Axes, data: AccuracyAndCost, point: Point, offset: tuple[int, int]) -> Annotation:
    """Write the name of a point at an offset, with a line to it if that is far."""
    dx, dy = offset
    far = abs(dy) > 8
    horizontal = "center" if dx == 0 else "left" if dx > 0 else "right"
    vertical = "center" if far or dy == 0 else "bottom" if dy > 0 else "top"
    weight = "bold" if point.label in data.front else "normal"
    arrow = {"arrowstyle": "-", "color": GREY, "linewidth": 0.4} if far else None
    more = {"ha": horizontal, "va": vertical, "weight": weight, "arrowprops": arrow}
    name = annotate(axes, data.styles[point.label].title, (point.cost, point.accuracy), offset, **more)
    name.get_window_extent()  # updates its position
    return name
