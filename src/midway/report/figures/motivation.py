"""Why move the images too: batch methods fall below the unadapted Source on outliers and gain little on mixtures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from midway.bench import Result
from midway.report.figures.style import (
    FAINT,
    INK,
    PAGE,
    Look,
    legend_below,
    legend_columns,
    looks_of,
    new_figure,
    styled,
)
from midway.report.standings import parts_of, scenario_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCENARIOS = {
    "pure": ("pure", "all"),
    "mixture": ("mixture", "all"),
    "outlier streams: the rest": ("outlier", "B"),
    "outlier streams: the outliers": ("outlier", "A"),
}
"""What a cluster is called -> the kind of stream, and which of its images count."""


@dataclass(frozen=True)
class Gains:
    """Points above or below Source.

    Attributes:
        scenarios: The clusters that there are results for.
        methods: The bars, Source left out.
        gains: Methods x scenarios: one number a stream, mean over seeds, sorted; empty where there is none.
        looks: Of the methods.
    """

    scenarios: tuple[str, ...]
    methods: tuple[str, ...]
    gains: tuple[tuple[tuple[float, ...], ...], ...]
    looks: dict[str, Look]


def gains_over_source(results: Iterable[Result]) -> Gains:
    """Collect what every method gains over Source on pure streams, half-and-half mixtures, outliers and the rest.

    Example:
        >>> from midway.bench import Result
        >>> from midway.report.figures import gains_over_source
        >>> def of(label, outliers, rest):
        ...     groups, images = {"fog": outliers, "snow": rest}, {"fog": 1, "snow": 9}
        ...     return Result(label, label, {}, "outlier:fog/snow@0.1", 10, 50.0, groups, images, (), 0.5)
        >>> found = gains_over_source([of("source", 50.0, 20.0), of("bn", 30.0, 60.0)])
        >>> found.scenarios, found.gains
        (('outlier streams: the rest', 'outlier streams: the outliers'), (((40.0,), (-20.0,)),))
    """
    results = list(results)
    sources = {result.label for result in results if result.method == "source"}
    looks = {label: look for label, look in looks_of(results).items() if label not in sources}
    found: dict[str, dict[str, dict[str, list[float]]]] = {}  # scenario -> label -> stream -> one gain a seed
    for scenario, (kind, part) in SCENARIOS.items():
        here = [result for result in results if _counts(result.stream, kind) and part in parts_of(result)]
        source = {(r.stream, r.seed): parts_of(r)[part] for r in here if r.label in sources}
        for result in here:
            if result.label not in sources and (result.stream, result.seed) in source:
                gain = parts_of(result)[part] - source[result.stream, result.seed]
                found.setdefault(scenario, {}).setdefault(result.label, {}).setdefault(result.stream, []).append(gain)
    gains = tuple(tuple(tuple(sorted(map(fmean, found[s].get(label, {}).values()))) for s in found) for label in looks)
    return Gains(tuple(found), tuple(looks), gains, looks)


def _counts(stream: str, kind: str) -> bool:
    """Tell whether a stream is of this kind; a mixture must be half and half."""
    scenario = scenario_of(stream)
    return scenario is not None and scenario.kind == kind and (kind != "mixture" or scenario.amount == 0.5)


@styled
def draw_gains(found: Gains) -> Figure:
    """Draw bars of the mean gains with a dot a stream; zero is Source, and what is below it is hatched."""
    many = len(found.methods)
    rows = -(-many // legend_columns(many))
    figure = new_figure(PAGE, 2.5 + 0.17 * rows)
    axes = figure.add_subplot()
    width = 0.86 / many
    for number, (method, row) in enumerate(zip(found.methods, found.gains, strict=True)):
        look = found.looks[method]
        for cluster, gains in enumerate(row):
            if not gains:
                continue
            place, mean = cluster + (number - (many - 1) / 2) * width, fmean(gains)
            hatch = "//////" if mean < 0 else None
            face = "white" if mean < 0 else look.colour
            axes.bar(place, mean, width * 0.86, color=face, edgecolor=look.colour, hatch=hatch, linewidth=0.8)
            if len(gains) > 1:
                axes.plot([place] * len(gains), gains, ".", color=INK, markersize=2, alpha=0.55, zorder=4)
        axes.bar(0, 0, 0, color=look.colour, label=look.title)
    for cluster in range(1, len(found.scenarios)):
        axes.axvline(cluster - 0.5, color="#d0d0d0", linewidth=0.5)
    axes.axhline(0, color=INK, linewidth=0.9)
    axes.annotate("Source", (1, 0), (3, 0), xycoords=("axes fraction", "data"), textcoords="offset points", va="center")
    axes.set_xlim(-0.5, len(found.scenarios) - 0.5)
    streams = [max((len(row[cluster]) for row in found.gains), default=0) for cluster in range(len(found.scenarios))]
    heads = [
        f"{scenario}\n{count} stream{'s' if count > 1 else ''}"
        for scenario, count in zip(found.scenarios, streams, strict=True)
    ]
    axes.set_xticks(range(len(heads)), heads)
    axes.tick_params(axis="x", length=0)
    axes.spines["bottom"].set_visible(False)
    axes.spines["left"].set_color(FAINT)
    axes.set_ylabel("accuracy against Source (points)")
    axes.grid(axis="y")
    legend_below(figure, axes)
    return figure
