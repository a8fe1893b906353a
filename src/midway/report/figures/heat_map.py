"""Methods by corruptions: one number per cell, coloured by the gain over the unadapted Source."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from midway.data import corruption_names
from midway.data.corruptions.registry import shift_title
from midway.report.figures.drawing import INK, PAGE, new_figure
from midway.report.figures.registry import figure
from midway.report.table import pivot
from midway.report.tidy import ALL, Frame, PlotStyle
from midway.streams import SEVERITY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Numbers = tuple[float | None, ...]


class HeatMap(NamedTuple):
    """Accuracies on pure streams, in percent; all rows are in the order of the styles."""

    shifts: tuple[str, ...]  # a severity other than 5 is part of the name
    accuracies: dict[str, Numbers]  # label -> accuracy on each shift; None where a method was not run
    gains: dict[str, Numbers]  # the same minus the accuracy of Source
    styles: dict[str, PlotStyle]

    def mean(self, label: str) -> float | None:
        """Return the mean accuracy over all shifts but clean images; None if one is missing."""
        shifted = [value for shift, value in zip(self.shifts, self.accuracies[label], strict=True) if shift != "clean"]
        known = [value for value in shifted if value is not None]
        return fmean(known) if known and len(known) == len(shifted) else None


def corruption_map(frame: Frame) -> HeatMap:
    """Collect the pure streams, means over the seeds that all methods share, in the order of the benchmark."""
    table = pivot(frame.where(group=ALL).filter(lambda row: row.scenario.kind == "pure"))
    names = list(corruption_names())
    columns: list[tuple[int, str, int]] = []  # rank of the corruption, title, index in the table
    for index, column in enumerate(table.columns):
        assert column.scenario is not None
        shift, severity = column.scenario.shifts[0], column.scenario.severity
        rank = names.index(shift) if shift in names else len(names)
        columns.append((rank, shift if severity == SEVERITY else f"{shift} {severity}", index))
    columns.sort()
    rows = dict(table.rows)
    styles = {label: style for label, style in frame.styles.items() if label in rows}
    means: dict[str, Numbers] = {
        label: tuple(None if (value := rows[label][index]) is None else value.mean for *_, index in columns)
        for label in styles
    }
    source = means.get(frame.source or "", (None,) * len(columns))
    gains = {
        label: tuple(None if a is None or b is None else a - b for a, b in zip(values, source, strict=True))
        for label, values in means.items()
    }
    return HeatMap(tuple(title for _, title, _ in columns), means, gains, styles)


@figure(
    "corruptions",
    title="Accuracy by corruption",
    caption="Methods by corruptions, one corruption at a time; colours show the gain over the unadapted Source.",
    source=Frame,
    build=corruption_map,
    enough=lambda heat_map: len(heat_map.shifts) > 1,
    requires="two pure streams or more",
    example="--scenarios pure:fog,pure:snow",
)
def draw_corruption_map(heat_map: HeatMap) -> Figure:
    """Draw accuracies as numbers, gains over Source as colours, and means at the end of the rows."""
    labels, mean_column = list(heat_map.styles), len(heat_map.shifts) + 0.25
    has_means = len(heat_map.shifts) > 1
    columns = len(heat_map.shifts) + has_means
    width = 2.2 + 0.42 * columns
    figure = new_figure(min(PAGE * 1.2, width) if columns < 20 else width, 1.1 + 0.2 * len(labels))
    axes = figure.add_subplot()
    largest = max((abs(gain) for row in heat_map.gains.values() for gain in row if gain is not None), default=0) or 1
    best = [_largest(values) for values in zip(*heat_map.accuracies.values(), strict=True)]
    best_mean = _largest(map(heat_map.mean, labels))
    for row, label in enumerate(labels):
        cells = zip(heat_map.accuracies[label], heat_map.gains[label], strict=True)
        for column, (value, gain) in enumerate(cells):
            shade = 0 if gain is None else gain / largest
            _draw_cell(axes, row, column, value, shade, bold=value == best[column])
        mean = heat_map.mean(label)
        if has_means and mean is not None:
            _draw_cell(axes, row, mean_column, mean, None, bold=mean == best_mean)
    axes.set_xlim(-0.5, columns - 0.5 + 0.25 * has_means)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    heads = dict(enumerate(map(shift_title, heat_map.shifts))) | ({mean_column: "mean"} if has_means else {})
    axes.set_xticks(list(heads), list(heads.values()), rotation=40, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(labels)), [style.title for style in heat_map.styles.values()])
    axes.tick_params(length=0, pad=2)
    axes.spines[:].set_visible(False)
    _draw_scale(figure, axes, largest)
    return figure


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _draw_cell(axes: Axes, row: int, column: float, value: float | None, gain: float | None, *, bold: bool) -> None:
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    shade = "none" if gain is None or value is None else colormaps["RdBu"](0.5 + 0.42 * gain)
    axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=shade, edgecolor="white", linewidth=0.8))
    dark = gain is not None and abs(gain) > 0.72
    text = "-" if value is None else f"{value:.1f}"
    weight = "bold" if bold else "normal"
    axes.text(column, row, text, ha="center", va="center", fontsize=6.5, color="white" if dark else INK, weight=weight)


def _draw_scale(figure: Figure, axes: Axes, largest: float) -> None:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    shades = ListedColormap(colormaps["RdBu"]([0.5 + 0.42 * (step / 100 - 1) for step in range(201)]))
    scale = ScalarMappable(Normalize(-largest, largest), shades)
    bar = figure.colorbar(scale, ax=axes, orientation="horizontal", fraction=0.04, pad=0.04, aspect=45, shrink=0.6)
    bar.set_label("points above or below Source", fontsize=7)
    bar.outline.set_visible(False)
