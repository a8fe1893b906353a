"""Why move the images too: batch methods fall below the unadapted Source on outliers and gain little on mixtures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import sub
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from midway.bench import Result
from midway.report.figures.style import (
    FAINT,
    INK,
    PAGE,
    Look,
    bar_style,
    legend_below,
    legend_columns,
    looks_of,
    new_figure,
    styled,
)
from midway.report.standings import Place, scenario_of, stand
from midway.significance import summarise

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
        gains: Methods x scenarios: one number a stream, mean over seeds, sorted; empty where there is none. The streams
            and seeds of a scenario are those that all its methods have.
        spreads: Methods x scenarios: standard deviation over seeds of the mean over streams; None for one seed.
        looks: Of the methods.
    """

    scenarios: tuple[str, ...]
    methods: tuple[str, ...]
    gains: tuple[tuple[tuple[float, ...], ...], ...]
    spreads: tuple[tuple[float | None, ...], ...]
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
    sources = {result.label for result in results if result.is_unadapted}
    looks = {label: look for label, look in looks_of(results).items() if label not in sources}
    found: dict[str, dict[str, dict[Place, float]]] = {}  # scenario -> label -> stream and seed -> gain
    for scenario, (kind, part) in SCENARIOS.items():
        standings = stand((result for result in results if _counts(result.stream, kind)), part=part)
        source = next((each.accuracies for each in standings.methods if each.label in sources), None)
        rivals = [each for each in standings.methods if each.label not in sources]
        if source is not None and rivals:
            found[scenario] = {
                each.label: dict(zip(standings.places, map(sub, each.accuracies, source), strict=True))
                for each in rivals
            }
    gains = tuple(tuple(_by_stream(found[s].get(label, {})) for s in found) for label in looks)
    spreads = tuple(tuple(_spread(found[s].get(label, {})) for s in found) for label in looks)
    return Gains(tuple(found), tuple(looks), gains, spreads, looks)


def _by_stream(gains: Mapping[Place, float]) -> tuple[float, ...]:
    """Return the means over seeds, sorted."""
    return tuple(sorted(map(fmean, _groups(gains, 0))))


def _spread(gains: Mapping[Place, float]) -> float | None:
    """Return how far the means over streams scatter from seed to seed, of those seeds that all streams have."""
    streams = len(_groups(gains, 0))
    means = [fmean(group) for group in _groups(gains, 1) if len(group) == streams]
    return summarise(means).spread if means else None


def _groups(gains: Mapping[Place, float], by: Literal[0, 1]) -> list[list[float]]:
    """Put gains together that are of one stream (0) or of one seed (1)."""
    groups: dict[str | int, list[float]] = {}
    for place, gain in gains.items():
        groups.setdefault(place[by], []).append(gain)
    return list(groups.values())


def _counts(stream: str, kind: str) -> bool:
    """Tell whether a stream is of this kind; a mixture must be half and half."""
    scenario = scenario_of(stream)
    return scenario is not None and scenario.kind == kind and (kind != "mixture" or scenario.amount == 0.5)


@styled
def draw_gains(found: Gains) -> Figure:
    """Draw bars of the mean gains, their spread over seeds, and a dot a stream if there are several; zero is Source."""
    methods = [method for method, row in zip(found.methods, found.gains, strict=True) if any(row)]
    rows = -(-len(methods) // legend_columns(len(methods)))
    figure = new_figure(PAGE, 2.5 + 0.17 * rows)
    axes = figure.add_subplot()
    width = 0.86 / len(methods)
    for number, method in enumerate(methods):
        row = found.methods.index(method)
        style = bar_style(found.looks[method])
        for cluster, (gains, spread) in enumerate(zip(found.gains[row], found.spreads[row], strict=True)):
            if not gains:
                continue
            place, mean = cluster + (number - (len(methods) - 1) / 2) * width, fmean(gains)
            axes.bar(place, mean, width * 0.88, **style)
            style["label"] = ""
            aside = 0.2 * width if spread is not None and len(gains) > 1 else 0
            if spread is not None:
                axes.errorbar(place + aside, mean, spread, color=INK, linewidth=0.8, capsize=2, capthick=0.8)
            if len(gains) > 1:
                axes.scatter([place - aside] * len(gains), gains, 7, INK, linewidths=0.4, edgecolors="white", zorder=4)
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
