"""Figures: each first builds plain data, then draws it."""

from __future__ import annotations

import io
from dataclasses import dataclass

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from midway.bench import Comparison

# Okabe and Ito's colours: told apart by colour-blind readers and in print.
COLOURS = ("#999999", "#56B4E9", "#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7", "#F0E442", "#000000")


@dataclass(frozen=True)
class Bars:
    """Accuracy in percent: one cluster a stream, one bar a method."""

    clusters: tuple[str, ...]
    methods: tuple[str, ...]
    heights: tuple[tuple[float | None, ...], ...]  # methods x clusters


def scenario_bars(comparison: Comparison) -> Bars:
    """Collect the accuracy on all images, methods by streams."""
    clusters = tuple(dict.fromkeys(result.stream for result in comparison.results))
    methods = tuple(dict.fromkeys(result.label for result in comparison.results))
    accuracy = {(result.label, result.stream): result.accuracy for result in comparison.results}
    return Bars(clusters, methods, tuple(tuple(accuracy.get((m, c)) for c in clusters) for m in methods))


def draw_bars(bars: Bars) -> Figure:
    """Draw clusters of bars with their values on top."""
    width = 0.8 / len(bars.methods)
    figure = Figure(figsize=(1.5 + 2.6 * len(bars.clusters), 3.6), layout="constrained")
    axes = figure.add_subplot()
    for number, (method, heights) in enumerate(zip(bars.methods, bars.heights, strict=True)):
        places = [cluster + (number - (len(bars.methods) - 1) / 2) * width for cluster in range(len(heights))]
        colour = COLOURS[number % len(COLOURS)]
        drawn = axes.bar(places, [height or 0 for height in heights], width * 0.92, label=method, color=colour)
        labels = ["" if height is None else f"{height:.1f}" for height in heights]
        axes.bar_label(drawn, labels, fontsize=7, padding=1)
    names = [
        cluster.replace(":", "\n").replace("_", " ").replace("/", " / ").replace("@", ", ratio ")
        for cluster in bars.clusters
    ]
    axes.set_xticks(range(len(names)), names, fontsize=9)
    axes.set_ylabel("accuracy (%)")
    axes.set_ylim(0, 100)
    axes.grid(axis="y", linewidth=0.4, alpha=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(ncols=min(len(bars.methods), 7), frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.14))
    return figure


def to_svg(figure: Figure) -> str:
    """Return a figure as an SVG element for an HTML page."""
    file = io.StringIO()
    FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None})
    text = file.getvalue()
    return text[text.index("<svg") :]
