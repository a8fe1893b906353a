"""Accuracy on outliers against their share, and the time of a batch (the sweep of the MITA paper)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midway.data.corruptions.registry import shift_title
from midway.report.figures.drawing import GREY, PAGE, annotate, line_style, new_figure, set_log_ticks
from midway.report.figures.registry import figure
from midway.report.series import FEWEST_RATIOS, Sweep, Sweeps, ratio_sweeps
from midway.report.tidy import Frame, PlotStyle
from midway.streams import SEVERITY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@figure(
    "outlier_ratio",
    title="From rare outliers to half and half",
    caption="Accuracy on the images of the first shift against their share of the stream, and the time of a batch.",
    source=Frame,
    build=ratio_sweeps,
    enough=lambda data: len(data.sweeps) > 0,
    requires=f"a pair of shifts at {FEWEST_RATIOS} ratios or more",
    example="--scenarios sweep:glass_blur/gaussian_noise@0.005+0.1+0.5",
)
def draw_sweeps(data: Sweeps) -> Figure:
    """Draw one panel per pair, and the times of the methods, which are also the legend."""
    across = min(len(data.sweeps), 3)
    down = -(-len(data.sweeps) // across)
    figure = new_figure(PAGE if across > 1 else PAGE * 0.75, max(2.4 * down, 0.9 + 0.17 * len(data.seconds)))
    grid = figure.add_gridspec(down, across + 1, width_ratios=[1.0] * across + [0.62 if across > 1 else 0.45])
    for number, sweep in enumerate(data.sweeps):
        axes = figure.add_subplot(grid[number // across, number % across])
        _draw_sweep(axes, sweep, data.styles)
        if number % across == 0:
            axes.set_ylabel("accuracy on the outliers (%)")
        if number >= len(data.sweeps) - across:
            axes.set_xlabel("share of outliers (%)")
    _draw_seconds(figure.add_subplot(grid[:, across]), data)
    return figure


def _draw_sweep(axes: Axes, sweep: Sweep, styles: dict[str, PlotStyle]) -> None:
    from matplotlib.ticker import NullLocator

    for number, (label, line) in enumerate(sweep.lines.items()):
        axes.plot(list(line), [value.mean for value in line.values()], zorder=3 + number, **line_style(styles[label]))
        if any(value.spread is not None for value in line.values()):
            low, high = ([v.mean + sign * (v.spread or 0) for v in line.values()] for sign in (-1, 1))
            axes.fill_between(list(line), low, high, color=styles[label].colour, alpha=0.12, linewidth=0)
    axes.set_xscale("log")
    ratios = sorted({ratio for line in sweep.lines.values() for ratio in line})
    ticks = ratios[:1]
    for ratio in ratios:
        if ratio / ticks[-1] > 2.4:  # labels of closer ticks would overlap
            ticks.append(ratio)
    axes.set_xticks(ticks, [f"{100 * tick:g}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y")
    first, second = map(shift_title, sweep.shifts)
    severity = "" if sweep.severity == SEVERITY else f", severity {sweep.severity}"
    axes.set_title(f"{first}\namong {second}{severity}", loc="left")


def _draw_seconds(axes: Axes, data: Sweeps) -> None:
    """Draw times in rising order, with the names and markers of the lines."""
    labels = sorted(data.seconds, key=data.seconds.__getitem__)
    least, most = min(data.seconds.values()), max(data.seconds.values())
    for row, label in enumerate(labels):
        seconds = data.seconds[label]
        axes.plot([least / 2, seconds], [row, row], **line_style(data.styles[label]) | {"markevery": [1]})
        annotate(axes, f"{seconds:.2g} s", (seconds, row), (6, 0), va="center", fontsize=6.5)
    axes.set_xscale("log")
    axes.set_xlim(least / 2, most * (2 * most / least) ** 0.45)  # leaves space for the last number
    set_log_ticks(axes, (least / 2, most))
    axes.set_xlabel("seconds")
    axes.set_yticks(range(len(labels)), [data.styles[label].title for label in labels])
    axes.tick_params(axis="y", length=0, pad=5)
    axes.invert_yaxis()
    axes.spines["left"].set_color(GREY)
    axes.set_title("time of a batch", loc="left")
