"""Methods by corruptions: one number a cell, coloured by what was gained over the unadapted Source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from midway.bench import Result
from midway.data import corruption_names
from midway.report.common_seeds import common_seeds
from midway.report.figures.style import INK, PAGE, Look, looks_of, new_figure, styled
from midway.report.labels import words
from midway.report.standings import scenario_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class HeatMap:
    """Accuracies on pure streams, in percent.

    Attributes:
        methods: The rows.
        shifts: The columns; a severity other than 5 is part of the name.
        accuracies: Methods x shifts; None where a method was not run.
        gains: The same less Source's; None where either is missing.
        looks: Of the methods.
    """

    methods: tuple[str, ...]
    shifts: tuple[str, ...]
    accuracies: tuple[tuple[float | None, ...], ...]
    gains: tuple[tuple[float | None, ...], ...]
    looks: dict[str, Look]

    def mean(self, method: str) -> float | None:
        """Return a method's mean over all shifts, clean images apart; None if it lacks one."""
        row = self.accuracies[self.methods.index(method)]
        shifted = [value for shift, value in zip(self.shifts, row, strict=True) if shift != "clean"]
        known = [value for value in shifted if value is not None]
        return fmean(known) if known and len(known) == len(shifted) else None


def corruption_map(results: Iterable[Result]) -> HeatMap:
    """Collect the pure streams, means over the seeds that all methods share, corruptions in the benchmark's order.

    Example:
        >>> from midway.bench import Result
        >>> from midway.report.figures import corruption_map
        >>> def of(label, accuracy):
        ...     return Result(label, label, {}, "pure:fog", 8, accuracy, {}, {}, (), 0.1)
        >>> corruption_map([of("tent", 70.0), of("source", 55.0)]).gains
        ((0.0,), (15.0,))
    """
    values: dict[tuple[str, str], list[float]] = {}
    kept = []
    for result in common_seeds(results):
        scenario = scenario_of(result.stream)
        if scenario is not None and scenario.kind == "pure":
            shift = scenario.shifts[0] + ("" if scenario.severity == 5 else f" {scenario.severity}")
            values.setdefault((result.label, shift), []).append(result.accuracy)
            kept.append(result)
    looks = looks_of(kept)
    order = {name: place for place, name in enumerate(corruption_names())}
    shifts = sorted({s for _, s in values}, key=lambda s: (order.get(s.partition(" ")[0], len(order)), s))
    sources = {result.label for result in kept if result.is_unadapted}
    means = {place: fmean(runs) for place, runs in values.items()}
    source = {shift: means[label, shift] for label in sources for shift in shifts if (label, shift) in means}
    accuracies = tuple(tuple(means.get((label, shift)) for shift in shifts) for label in looks)
    gains = tuple(
        tuple(
            None if value is None or shift not in source else value - source[shift]
            for shift, value in zip(shifts, row, strict=True)
        )
        for row in accuracies
    )
    return HeatMap(tuple(looks), tuple(shifts), accuracies, gains, looks)


@styled
def draw_corruption_map(found: HeatMap) -> Figure:
    """Draw the map: accuracies as numbers, gains over Source as colours, means at the end of the rows."""
    averaged = len(found.shifts) > 1
    columns = len(found.shifts) + averaged
    width = 2.2 + 0.42 * columns
    figure = new_figure(min(PAGE * 1.2, width) if columns < 20 else width, 1.1 + 0.2 * len(found.methods))
    axes = figure.add_subplot()
    largest = max((abs(gain) for row in found.gains for gain in row if gain is not None), default=0) or 1
    columns_best = [
        max((v for v in values if v is not None), default=None) for values in zip(*found.accuracies, strict=True)
    ]
    for row, method in enumerate(found.methods):
        cells = list(zip(found.accuracies[row], found.gains[row], strict=True))
        for column, (value, gain) in enumerate(cells):
            shade = 0 if gain is None else gain / largest
            _draw_cell(axes, row, column, value, shade, bold=value == columns_best[column])
        mean = found.mean(method)
        if averaged and mean is not None:
            means = [m for each in found.methods if (m := found.mean(each)) is not None]
            _draw_cell(axes, row, columns - 0.75, mean, None, bold=mean == max(means))
    axes.set_xlim(-0.5, columns - 0.5 + 0.25 * averaged)
    axes.set_ylim(len(found.methods) - 0.5, -0.5)
    heads = [*map(words, found.shifts), *(["mean"] if averaged else [])]
    places = [*range(len(found.shifts)), *([columns - 0.75] if averaged else [])]
    axes.set_xticks(places, heads, rotation=40, ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(found.methods)), [found.looks[method].title for method in found.methods])
    axes.tick_params(length=0, pad=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
    _draw_scale(figure, axes, largest)
    return figure


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
