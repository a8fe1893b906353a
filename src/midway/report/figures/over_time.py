"""Accuracy batch by batch over a stream: which methods learn, forget or collapse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from midway.report.figures.drawing import GREY, PAGE, annotate, line_style, new_figure
from midway.report.figures.registry import figure
from midway.report.series import OverTime, accuracy_over_time
from midway.report.tidy import Frame, scenario_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_STREAMS = 6
LARGEST_GAP = 1.5
"""Lines are only noted if the gap above them is this many times as large as the range of all lines above it."""
LINE_HEIGHT = 0.12
"""Height in inches of a name beside a line."""


def one_of_each_kind(streams: Sequence[OverTime]) -> tuple[OverTime, ...]:
    """Choose a few streams: the first of each kind of scenario, then the second of each, and so on."""
    kinds = [stream.scenario.kind for stream in streams]
    turns = sorted(range(len(streams)), key=lambda index: kinds[:index].count(kinds[index]))
    return tuple(streams[index] for index in turns[:MOST_STREAMS])


def far_below(lines: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """Return the labels of lines so far below the others that drawing them would flatten the others."""
    ordered = sorted(lines, key=lambda label: -max(lines[label]))
    highest, lowest = max(lines[ordered[0]]), min(lines[ordered[0]])
    for index, label in enumerate(ordered[1:], start=1):
        if index > 1 and lowest - max(lines[label]) > LARGEST_GAP * (highest - lowest):
            return tuple(ordered[index:])
        lowest = min(lowest, *lines[label])
    return ()


def spread_out(positions: Sequence[float], distance: float, limits: tuple[float, float]) -> tuple[float, ...]:
    """Shift positions, given in rising order, as little as possible until neighbours have a minimum distance."""
    # Isotonic regression of position - rank * distance: where this falls, neighbours are pooled.
    blocks: list[list[float]] = []
    for rank, position in enumerate(positions):
        blocks.append([position - rank * distance])
        while len(blocks) > 1 and fmean(blocks[-2]) > fmean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    low, high = limits[0], limits[1] - (len(positions) - 1) * distance
    pooled = [max(low, min(high, fmean(block))) for block in blocks for _ in block]
    return tuple(position + rank * distance for rank, position in enumerate(pooled))


@figure(
    "over_time",
    title="Accuracy over a stream",
    caption="Accuracy batch by batch, smoothed by a running mean; methods far below the others are only noted.",
    source=Frame,
    build=lambda frame: one_of_each_kind(accuracy_over_time(frame)),
    requires="a stream of several batches",
    example="--scenarios pure:fog --batch-sizes 200",
)
def draw_over_time(streams: Sequence[OverTime]) -> Figure:
    """Draw a panel per stream, at most six; lines have their names at their ends, those far below are only noted."""
    streams = streams[:MOST_STREAMS]
    across = 1 if len(streams) <= 3 else 2
    down = -(-len(streams) // across)
    height = max(1.3, LINE_HEIGHT * (1 + max(len(stream.lines) for stream in streams)))
    figure = new_figure(PAGE, (height + 0.45) * down + 0.25)
    for number, stream in enumerate(streams):
        axes = figure.add_subplot(down, across, number + 1)
        _draw_lines(axes, stream)
        axes.grid(axis="y")
        if number % across == 0:
            axes.set_ylabel("accuracy (%)")
        if number >= len(streams) - across:
            axes.set_xlabel("batch" if stream.window == 1 else f"batch (mean of the last {stream.window})")
    figure.draw_without_rendering()  # fixes the heights of the panels
    for axes, stream in zip(figure.axes, streams, strict=True):
        _name_lines(axes, stream)
    return figure


def _draw_lines(axes: Axes, stream: OverTime) -> None:
    from matplotlib.ticker import MaxNLocator

    below = far_below(stream.lines)
    shown = [label for label in stream.lines if label not in below]
    batches = range(stream.window, stream.window + len(stream.lines[shown[0]]))
    every = max(1, len(batches) // 4)
    for number, label in enumerate(shown):
        start = number * every // len(shown)  # the markers of one line do not cover those of another
        style = line_style(stream.styles[label]) | {"linewidth": 1.0, "markevery": (start, every)}
        axes.plot(batches, stream.lines[label], zorder=3 + number, **style)
    axes.margins(x=0.01)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(scenario_title(stream.scenario), loc="left", pad=14 if below else None)
    if below:
        means = ", ".join(f"{stream.styles[label].title} {fmean(stream.lines[label]):.1f}" for label in below)
        annotate(axes, f"far below: {means}", (0, 1), (0, 4), xycoords="axes fraction", color=GREY)


def _name_lines(axes: Axes, stream: OverTime) -> None:
    """Write the names of the lines beside their ends, one below the other."""
    ends = {label: values[-1] for label, values in stream.lines.items() if label not in far_below(stream.lines)}
    labels = sorted(ends, key=lambda label: (ends[label], label))
    last = stream.window + len(stream.lines[labels[0]]) - 1
    low, high = axes.get_ylim()
    distance = (high - low) * LINE_HEIGHT / (axes.get_window_extent().height / axes.figure.dpi)
    positions = spread_out([ends[label] for label in labels], distance, (low, high))
    leader = {"arrowstyle": "-", "linewidth": 0.7, "shrinkA": 0, "shrinkB": 1, "relpos": (0, 0.5)}
    for label, position in zip(labels, positions, strict=True):
        style, xy, beside = stream.styles[label], (last, ends[label]), (1.03, position)
        more: dict[str, Any] = {"va": "center", "fontsize": 7, "arrowprops": leader | {"color": style.colour}}
        axes.annotate(style.title, xy, beside, textcoords=("axes fraction", "data"), **more)
