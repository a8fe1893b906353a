"""Bars: the accuracy of every method on every stream of a small comparison, such as that of the demo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from midway.report.figures.drawing import GREY, INK, PAGE, annotate, bar_style, legend_below, new_figure
from midway.report.figures.registry import figure
from midway.report.table import Table, pivot
from midway.report.tidy import ALL, Frame, PlotStyle, scenario_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_BARS = 60
MOST_HORIZONTAL = 6  # titles of streams that fit side by side


@dataclass(frozen=True)
class Bars:
    """Accuracy in percent, methods by streams: one cluster of bars per stream, one bar per method."""

    table: Table
    styles: dict[str, PlotStyle]


def scenario_bars(frame: Frame) -> Bars:
    """Collect the accuracy on all images, means over the seeds that all methods of a stream share."""
    table = pivot(frame.where(group=ALL))
    rows = dict(table.rows)
    return Bars(table, {label: style for label, style in frame.styles.items() if label in rows})


@figure(
    "scenarios",
    title="Accuracy by stream",
    caption="Accuracy of every method on every stream; error bars are standard deviations over seeds.",
    source=Frame,
    build=scenario_bars,
    enough=lambda bars: 0 < len(bars.table.columns) * len(bars.table.rows) <= MOST_BARS,
    requires=f"1 to {MOST_BARS} bars, methods times streams",
    example="--scenarios pure:fog",
)
def draw_bars(bars: Bars) -> Figure:
    """Draw clusters of bars with their values on top, and the spread over seeds if there are several."""
    rows = dict(bars.table.rows)
    titles = [scenario_title(column.scenario) for column in bars.table.columns if column.scenario is not None]
    bar = 0.84 / len(rows)
    width = max(3.4, min(PAGE, 0.8 + 0.28 * len(rows) * len(titles)))
    figure = new_figure(width, 3.0 if len(titles) <= MOST_HORIZONTAL else 4.0)
    axes = figure.add_subplot()
    digits = _digits(bars.table)
    rotated = (width - 0.6) / len(titles) * bar < (0.14 if digits == 0 else 0.21)
    for number, (label, style) in enumerate(bars.styles.items()):
        shift = (number - (len(rows) - 1) / 2) * bar
        values = {cluster + shift: value for cluster, value in enumerate(rows[label]) if value is not None}
        axes.bar(list(values), [value.mean for value in values.values()], bar * 0.9, **bar_style(style))
        for x, value in values.items():
            top = (x, value.mean + (value.spread or 0))
            if value.spread is not None:
                axes.errorbar(x, value.mean, value.spread, color=INK, linewidth=0.7, capsize=1.5, capthick=0.7)
            more = {"ha": "center", "va": "bottom", "fontsize": 6.5, "rotation": 90 if rotated else 0}
            annotate(axes, f"{value.mean:.{digits}f}", top, (0, 1.5), **more)
    if len(titles) > MOST_HORIZONTAL:
        axes.set_xticks(range(len(titles)), titles, fontsize=6.5, rotation=35, ha="right", rotation_mode="anchor")
    else:
        broken = [title.replace(": ", "\n").replace(" in ", "\nin ") for title in titles]
        axes.set_xticks(range(len(titles)), broken, fontsize=8 if len(titles) < 5 else 6.5)
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("accuracy (%)")
    axes.margins(y=0.12 if rotated else 0.08)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    axes.spines["bottom"].set_color(GREY)
    legend_below(figure, axes)
    return figure


def _digits(table: Table) -> int:
    """Return how many decimals distinguish the bars of every cluster: none, or one."""
    for cluster in zip(*(values for _, values in table.rows), strict=True):
        tenths = {round(value.mean, 1) for value in cluster if value is not None}
        if len(set(map(round, tenths))) < len(tenths):
            return 1
    return 0
