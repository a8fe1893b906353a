"""Accuracy batch by batch over a stream: who learns, who forgets, who collapses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from midway.bench import Result
from midway.report.figures.style import (
    PAGE,
    Look,
    legend_below,
    legend_columns,
    line_style,
    looks_of,
    new_figure,
    styled,
)
from midway.report.labels import stream_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_STREAMS = 6


@dataclass(frozen=True)
class OverTime:
    """Accuracies over one stream, in percent.

    Attributes:
        stream: Its name.
        window: Each value is the mean of this many batches.
        lines: Method -> one value a batch from batch ``window`` on; the mean over seeds.
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
    results = [result for result in results if len(result.batch_accuracies) > 1]
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


@styled
def draw_over_time(streams: Sequence[OverTime], looks: dict[str, Look]) -> Figure:
    """Draw a panel a stream, at most six, with one legend."""
    streams = streams[:MOST_STREAMS]
    across = min(len(streams), 3)
    down = -(-len(streams) // across)
    shown = [label for label in looks if any(label in each.lines for each in streams)]
    rows = -(-len(shown) // legend_columns(len(shown)))
    figure = new_figure(PAGE if across > 1 else 4.6, 2.1 * down + 0.2 * rows + 0.3)
    for number, stream in enumerate(streams):
        axes = figure.add_subplot(down, across, number + 1)
        for order, label in enumerate(shown):
            values = stream.lines.get(label, ())
            batches = range(stream.window, stream.window + len(values))
            style = line_style(looks[label]) | {"markevery": max(1, len(values) // 5)}
            axes.plot(batches[: len(values)], values, zorder=3 + order, **style)
        axes.set_title(_wrapped(stream_title(stream.stream)), loc="left", fontsize=7.5)
        axes.grid(axis="y")
        if number % across == 0:
            axes.set_ylabel("accuracy (%)")
        if number >= len(streams) - across:
            axes.set_xlabel("batch" if stream.window == 1 else f"batch (mean of the last {stream.window})")
    legend_below(figure, figure.axes[0])
    return figure


def _wrapped(title: str) -> str:
    """Break a long title after its kind."""
    return title.replace(": ", ":\n", 1) if len(title) > 34 else title
