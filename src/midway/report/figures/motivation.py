"""Gains over Source: batch methods gain less on outliers than on the rest of the stream, and little on mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, NamedTuple

from midway.report.figures.drawing import GREY, INK, PAGE, annotate, bar_style, legend_below, legend_columns, new_figure
from midway.report.figures.registry import figure
from midway.report.ranking import Key, rank
from midway.report.tidy import ALL, Frame, PlotStyle
from midway.streams import Scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLUSTERS = {
    "pure": ("pure", ALL),
    "mixture": ("mixture", ALL),
    "outlier streams: the rest": ("outlier", "B"),
    "outlier streams: the outliers": ("outlier", "A"),
}
"""Title of a cluster -> the kind of scenario, and the part of its images that counts."""


class Gain(NamedTuple):
    """Points of a method above or below Source on the streams of a cluster."""

    scenarios: tuple[float, ...]  # one number per scenario, mean over seeds, sorted
    spread: float | None = None  # standard deviation over seeds of the mean over scenarios; None for one seed


class Gains(NamedTuple):
    """Title of a cluster -> label -> gain over Source, on the scenarios and seeds that all methods of it share."""

    clusters: dict[str, dict[str, Gain]]
    styles: dict[str, PlotStyle]  # without Source


def gains_over_source(frame: Frame) -> Gains:
    """Collect the gains of every method over Source on pure streams, half-and-half mixtures, outliers and the rest."""
    clusters: dict[str, dict[str, Gain]] = {}
    for cluster, (kind, part) in CLUSTERS.items():
        scenarios = [each for each in frame.unique("scenario") if each.kind == kind]
        scenarios = [each for each in scenarios if kind != "mixture" or each.amount == 0.5]
        ranking = rank(frame.where(scenario=scenarios), part=part)
        values = {method.label: method.values for method in ranking.methods}
        source = values.pop(frame.source or "", None)
        if source is not None and values:
            clusters[cluster] = {label: _gain(ranking.keys, mine, source) for label, mine in values.items()}
    return Gains(clusters, {label: style for label, style in frame.styles.items() if label != frame.source})


def _gain(keys: Sequence[Key], values: Sequence[float], source: Sequence[float]) -> Gain:
    by_scenario: dict[Scenario, list[float]] = {}
    by_seed: dict[int, list[float]] = {}
    for (scenario, seed), value, reference in zip(keys, values, source, strict=True):
        by_scenario.setdefault(scenario, []).append(value - reference)
        by_seed.setdefault(seed, []).append(value - reference)
    means = [fmean(gains) for gains in by_seed.values() if len(gains) == len(by_scenario)]  # of complete seeds
    return Gain(tuple(sorted(map(fmean, by_scenario.values()))), stdev(means) if len(means) > 1 else None)


@figure(
    "motivation",
    title="Gains over Source",
    caption="The gain of every method over the unadapted network: bars are means over streams, dots are streams.",
    source=Frame,
    build=gains_over_source,
    enough=lambda gains: len(gains.clusters) > 0,
    requires="Source and another method on the same streams: pure, outlier, or half-and-half mixtures",
    example="--methods source,tent,mita"
    " --scenarios outlier:glass_blur/gaussian_noise@0.005,mixture:glass_blur/gaussian_noise@0.5",
)
def draw_gains(gains: Gains) -> Figure:
    """Draw bars of the mean gains, their spread over seeds, and a dot per stream if there are several; 0 is Source."""
    labels = [label for label in gains.styles if any(label in cluster for cluster in gains.clusters.values())]
    legend_rows = -(-len(labels) // legend_columns(len(labels)))
    figure = new_figure(PAGE, 2.5 + 0.17 * legend_rows)
    axes = figure.add_subplot()
    width = 0.86 / len(labels)
    for number, label in enumerate(labels):
        style = bar_style(gains.styles[label])
        for index, cluster in enumerate(gains.clusters.values()):
            if label not in cluster:
                continue
            values, spread = cluster[label].scenarios, cluster[label].spread
            x, mean = index + (number - (len(labels) - 1) / 2) * width, fmean(values)
            axes.bar(x, mean, width * 0.88, **style)
            style["label"] = ""
            aside = 0.2 * width if spread is not None and len(values) > 1 else 0
            if spread is not None:
                axes.errorbar(x + aside, mean, spread, color=INK, linewidth=0.8, capsize=2, capthick=0.8)
            if len(values) > 1:
                axes.scatter([x - aside] * len(values), values, 7, INK, linewidths=0.4, edgecolors="white", zorder=4)
    for index in range(1, len(gains.clusters)):
        axes.axvline(index - 0.5, color="#d0d0d0", linewidth=0.5)
    axes.axhline(0, color=INK, linewidth=0.9)
    annotate(axes, "Source", (1, 0), (3, 0), xycoords=("axes fraction", "data"), va="center", fontsize=8)
    axes.set_xlim(-0.5, len(gains.clusters) - 0.5)
    counts = {title: len(next(iter(cluster.values())).scenarios) for title, cluster in gains.clusters.items()}
    heads = [f"{title}\n{count} stream{'s' if count > 1 else ''}" for title, count in counts.items()]
    axes.set_xticks(range(len(heads)), heads)
    axes.tick_params(axis="x", length=0)
    axes.spines["bottom"].set_visible(False)
    axes.spines["left"].set_color(GREY)
    axes.set_ylabel("accuracy against Source (points)")
    axes.grid(axis="y")
    legend_below(figure, axes)
    return figure
