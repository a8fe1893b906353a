"""Bars: accuracy of every method on every stream of a small comparison, such as the demo's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from midway.bench import Comparison
from midway.report.common_seeds import common_seeds
from midway.report.figures.style import FAINT, INK, PAGE, Look, bar_style, legend_below, looks_of, new_figure, styled
from midway.report.labels import stream_title
from midway.significance import summarise

MOST_UPRIGHT = 6  # names of clusters that have room beside each other

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Bars:
    """Accuracy in percent: one cluster a stream, one bar a method.

    Attributes:
        clusters: The streams.
        methods: The bars.
        heights: Methods x clusters: mean over the seeds that all methods of the stream share; None where a method was
            not run.
        spreads: The same, the standard deviation over these seeds; None where there are not several.
        looks: Of the methods.
    """

    clusters: tuple[str, ...]
    methods: tuple[str, ...]
    heights: tuple[tuple[float | None, ...], ...]
    spreads: tuple[tuple[float | None, ...], ...]
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
    results = common_seeds(comparison.results)
    clusters = tuple(dict.fromkeys(result.stream for result in results))
    looks = looks_of(results)
    runs: dict[tuple[str, str], list[float]] = {}
    for result in results:
        runs.setdefault((result.label, result.stream), []).append(result.accuracy)
    means = {place: summarise(accuracies).mean for place, accuracies in runs.items()}
    spreads = {place: summarise(accuracies).spread for place, accuracies in runs.items()}
    heights, scatter = (
        tuple(tuple(found.get((method, cluster)) for cluster in clusters) for method in looks)
        for found in (means, spreads)
    )
    return Bars(clusters, tuple(looks), heights, scatter, looks)


@styled
def draw_bars(bars: Bars) -> Figure:
    """Draw clusters of bars with their values on top, and the spread over seeds where there are several."""
    width = 0.84 / len(bars.methods)
    across = max(3.4, min(PAGE, 0.8 + 0.28 * len(bars.methods) * len(bars.clusters)))
    figure = new_figure(across, 3.0 if len(bars.clusters) <= MOST_UPRIGHT else 4.0)
    axes = figure.add_subplot()
    digits = _digits(bars)
    upright = (across - 0.6) / len(bars.clusters) * width < (0.14 if digits == 0 else 0.21)
    for number, (method, heights, spreads) in enumerate(zip(bars.methods, bars.heights, bars.spreads, strict=True)):
        places = [cluster + (number - (len(bars.methods) - 1) / 2) * width for cluster in range(len(heights))]
        axes.bar(places, [height or 0 for height in heights], width * 0.9, **bar_style(bars.looks[method]))
        for place, height, spread in zip(places, heights, spreads, strict=True):
            if height is None:
                continue
            if spread is not None:
                axes.errorbar(place, height, spread, color=INK, linewidth=0.7, capsize=1.5, capthick=0.7)
            axes.annotate(
                f"{height:.{digits}f}",
                (place, height + (spread or 0)),
                (0, 1.5),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=6.5,
                rotation=90 if upright else 0,
            )
    titles = [stream_title(stream) for stream in bars.clusters]
    if len(titles) > MOST_UPRIGHT:
        axes.set_xticks(range(len(titles)), titles, fontsize=6.5, rotation=35, ha="right", rotation_mode="anchor")
    else:
        broken = [title.replace(": ", "\n").replace(" in ", "\nin ") for title in titles]
        axes.set_xticks(range(len(titles)), broken, fontsize=8 if len(titles) < 5 else 6.5)
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("accuracy (%)")
    axes.margins(y=0.12 if upright else 0.08)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    axes.spines["bottom"].set_color(FAINT)
    legend_below(figure, axes)
    return figure


def _digits(bars: Bars) -> int:
    """Return how many decimals tell the bars of every cluster apart: none, or one."""
    for cluster in zip(*bars.heights, strict=True):
        tenths = {round(height, 1) for height in cluster if height is not None}
        if len(set(map(round, tenths))) < len(tenths):
            return 1
    return 0
