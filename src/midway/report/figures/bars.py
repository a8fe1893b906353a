"""Bars: accuracy of every method on every stream of a small comparison, such as the demo's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from midway.bench import Comparison
from midway.report.figures.style import FAINT, Look, legend_below, looks_of, new_figure, styled
from midway.report.labels import stream_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Bars:
    """Accuracy in percent: one cluster a stream, one bar a method."""

    clusters: tuple[str, ...]
    methods: tuple[str, ...]
    heights: tuple[tuple[float | None, ...], ...]  # methods x clusters
    looks: dict[str, Look]


def scenario_bars(comparison: Comparison) -> Bars:
    """Collect the accuracy on all images, methods by streams.

    Example:
        >>> from midway.bench import Comparison, Result
        >>> from midway.report.figures import scenario_bars
        >>> result = Result("bn", "bn", {}, "pure:fog", 4, 75.0, {"fog": 75.0}, {"fog": 4}, (75.0,), 0.125)
        >>> scenario_bars(Comparison("Fog", "midway run", {}, (result,))).heights
        ((75.0,),)
    """
    clusters = tuple(dict.fromkeys(result.stream for result in comparison.results))
    looks = looks_of(comparison.results)
    accuracy = {(result.label, result.stream): result.accuracy for result in comparison.results}
    heights = tuple(tuple(accuracy.get((method, cluster)) for cluster in clusters) for method in looks)
    return Bars(clusters, tuple(looks), heights, looks)


@styled
def draw_bars(bars: Bars) -> Figure:
    """Draw clusters of bars with their values on top."""
    width = 0.84 / len(bars.methods)
    figure = new_figure(max(3.4, min(10.0, 0.8 + 0.26 * len(bars.methods) * len(bars.clusters))), 3.2)
    axes = figure.add_subplot()
    for number, (method, heights) in enumerate(zip(bars.methods, bars.heights, strict=True)):
        places = [cluster + (number - (len(bars.methods) - 1) / 2) * width for cluster in range(len(heights))]
        look = bars.looks[method]
        drawn = axes.bar(places, [height or 0 for height in heights], width * 0.9, label=look.title, color=look.colour)
        labels = ["" if height is None else f"{height:.0f}" for height in heights]
        axes.bar_label(drawn, labels, fontsize=6.5, padding=1)
    axes.set_xticks(
        range(len(bars.clusters)),
        [stream_title(stream).replace(": ", "\n").replace(" in ", "\nin ") for stream in bars.clusters],
        fontsize=8,
    )
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("accuracy (%)")
    axes.set_ylim(0, 100)
    axes.grid(axis="y")
    axes.spines["bottom"].set_color(FAINT)
    legend_below(figure, axes)
    return figure
