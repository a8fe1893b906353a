"""Accuracy batch by batch over a stream: who learns, who forgets, who collapses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from midway.bench import Result
from midway.report.common_seeds import common_seeds
from midway.report.figures.style import FAINT, PAGE, Look, line_style, looks_of, new_figure, styled
from midway.report.labels import stream_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_STREAMS = 6
FAR = 1.5
"""Lines are left to a note if the gap above them is so many times as wide as all that is above it."""
LINE_HEIGHT = 0.12
"""Inches that a name beside a line takes."""


@dataclass(frozen=True)
class OverTime:
    """Accuracies over one stream, in percent.

    Attributes:
        stream: Its name.
        window: Each value is the mean of this many batches.
        lines: Method -> one value a batch from batch ``window`` on; the mean over the seeds that all methods share.
    """

    stream: str
    window: int
    lines: dict[str, tuple[float, ...]]


def accuracy_over_time(results: Iterable[Result], *, window: int | None = None) -> tuple[OverTime, ...]:
    """Collect the accuracies of the batches, stream by stream, smoothed by a running mean.

    Args:
        results: Of one comparison.
        window: Batches a mean is over; a tenth of the stream, but at least one, if left out.

    Example:
        >>> from midway.bench import Result
        >>> from midway.report.figures import accuracy_over_time
        >>> result = Result("bn", "bn", {}, "pure:fog", 8, 60.0, {}, {}, (40.0, 60.0, 80.0), 0.1)
        >>> accuracy_over_time([result], window=2)[0].lines
        {'bn': (50.0, 70.0)}
    """
    results = common_seeds(result for result in results if len(result.batch_accuracies) > 1)
    made = []
    for stream in dict.fromkeys(result.stream for result in results):
        here = [result for result in results if result.stream == stream]
        batches = min(len(result.batch_accuracies) for result in here)
        width = min(batches, window or max(1, batches // 10))
        lines = {}
        for label in looks_of(results):
            runs = [result.batch_accuracies[:batches] for result in here if result.label == label]
            if runs:
                lines[label] = running_mean([fmean(batch) for batch in zip(*runs, strict=True)], width)
        made.append(OverTime(stream, width, lines))
    return tuple(made)


def running_mean(values: Sequence[float], window: int) -> tuple[float, ...]:
    """Return the mean of every ``window`` neighbours.

    Example:
        >>> from midway.report.figures.over_time import running_mean
        >>> running_mean([1.0, 2.0, 6.0], 2)
        (1.5, 4.0)
    """
    return tuple(fmean(values[end - window : end]) for end in range(window, len(values) + 1))


def far_below(lines: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """Return the lines that lie so far below the others that, drawn with them, they would leave them no room.

    Example:
        >>> from midway.report.figures.over_time import far_below
        >>> far_below({"source": (20.0, 22.0), "bn": (60.0, 61.0), "tent": (61.0, 66.0)})
        ('source',)
        >>> far_below({"source": (58.0, 57.0), "bn": (60.0, 61.0), "tent": (61.0, 66.0)})
        ()
    """
    ordered = sorted(lines, key=lambda label: -max(lines[label]))
    highest, lowest = max(lines[ordered[0]]), min(lines[ordered[0]])
    for place, label in enumerate(ordered[1:], start=1):
        if place > 1 and lowest - max(lines[label]) > FAR * (highest - lowest):
            return tuple(ordered[place:])
        lowest = min(lowest, *lines[label])
    return ()


def spread_out(places: Sequence[float], apart: float, within: tuple[float, float]) -> tuple[float, ...]:
    """Move places, given in rising order, as little as it takes until each is so far above the one before.

    Args:
        places: Where they would be by themselves.
        apart: The least distance.
        within: The lowest and the highest place there is.

    Example:
        >>> from midway.report.figures.over_time import spread_out
        >>> spread_out([5.0, 5.0, 9.0], 2.0, (0.0, 10.0)), spread_out([1.0, 1.0, 1.0], 2.0, (0.0, 10.0))
        ((4.0, 6.0, 9.0), (0.0, 2.0, 4.0))
    """
    blocks: list[list[float]] = []  # places less the room below them: where these fall, they are pooled
    for rank, place in enumerate(places):
        blocks.append([place - rank * apart])
        while len(blocks) > 1 and fmean(blocks[-2]) > fmean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    low, high = within[0], within[1] - (len(places) - 1) * apart
    pooled = [max(low, min(high, fmean(block))) for block in blocks for _ in block]
    return tuple(place + rank * apart for rank, place in enumerate(pooled))


@styled
def draw_over_time(streams: Sequence[OverTime], looks: dict[str, Look]) -> Figure:
    """Draw a panel a stream, at most six; lines have their names at their ends, those far below are only noted."""
    streams = streams[:MOST_STREAMS]
    across = 1 if len(streams) <= 3 else 2
    down = -(-len(streams) // across)
    height = max(1.3, LINE_HEIGHT * (1 + max(len(stream.lines) for stream in streams)))
    figure = new_figure(PAGE, (height + 0.45) * down + 0.25)
    for number, stream in enumerate(streams):
        axes = figure.add_subplot(down, across, number + 1)
        _draw_lines(axes, stream, looks)
        axes.grid(axis="y")
        if number % across == 0:
            axes.set_ylabel("accuracy (%)")
        if number >= len(streams) - across:
            axes.set_xlabel("batch" if stream.window == 1 else f"batch (mean of the last {stream.window})")
    figure.draw_without_rendering()  # so that the heights of panels are known
    for axes, stream in zip(figure.axes, streams, strict=True):
        _name_lines(axes, stream, looks)
    return figure


def _draw_lines(axes: Axes, stream: OverTime, looks: dict[str, Look]) -> None:
    from matplotlib.ticker import MaxNLocator

    below = far_below(stream.lines)
    shown = [label for label in looks if label in stream.lines and label not in below]
    batches = range(stream.window, stream.window + len(stream.lines[shown[0]]))
    every = max(1, len(batches) // 4)
    for number, label in enumerate(shown):
        start = number * every // len(shown)  # so that the marks of one line do not cover those of another
        style = line_style(looks[label]) | {"linewidth": 1.0, "markevery": (start, every)}
        axes.plot(batches, stream.lines[label], zorder=3 + number, **style)
    axes.margins(x=0.01)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(stream_title(stream.stream), loc="left", pad=14 if below else None)
    if below:
        note = "far below: " + ", ".join(f"{looks[label].title} {fmean(stream.lines[label]):.1f}" for label in below)
        axes.annotate(
            note, (0, 1), (0, 4), xycoords="axes fraction", textcoords="offset points", fontsize=7, color=FAINT
        )


def _name_lines(axes: Axes, stream: OverTime, looks: dict[str, Look]) -> None:
    """Write the names of the lines beside their ends, one below the other."""
    below = far_below(stream.lines)
    ends = sorted(set(stream.lines) - set(below), key=lambda label: (stream.lines[label][-1], label))
    last = stream.window + len(stream.lines[ends[0]]) - 1
    low, high = axes.get_ylim()
    apart = (high - low) * LINE_HEIGHT / (axes.get_window_extent().height / axes.figure.dpi)
    places = spread_out([stream.lines[label][-1] for label in ends], apart, (low, high))
    leader = {"arrowstyle": "-", "linewidth": 0.7, "shrinkA": 0, "shrinkB": 1, "relpos": (0, 0.5)}
    for label, place in zip(ends, places, strict=True):
        axes.annotate(
            looks[label].title,
            (last, stream.lines[label][-1]),
            (1.03, place),
            textcoords=("axes fraction", "data"),
            va="center",
            fontsize=7,
            arrowprops=leader | {"color": looks[label].colour},
        )
