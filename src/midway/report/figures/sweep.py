"""Accuracy on outliers against their share, per method, with run times (the MITA paper's sweep)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from midway.bench import Result
from midway.report.common_seeds import common_seeds
from midway.report.figures.style import (
    FAINT,
    PAGE,
    Look,
    line_style,
    looks_of,
    new_figure,
    styled,
    tick_by_decades,
)
from midway.report.labels import words
from midway.report.standings import parts_of, scenario_of
from midway.significance import summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEWEST_RATIOS = 3
"""Two points are no sweep."""


@dataclass(frozen=True)
class Point:
    """Accuracy on the images of A at one ratio: mean over the seeds all methods share; spread if there are several."""

    ratio: float
    accuracy: float
    spread: float | None


@dataclass(frozen=True)
class Sweep:
    """One pair of distributions: how well each method knows the images of A, the rarer they are.

    Attributes:
        shift_a: The outliers.
        shift_b: The rest.
        severity: Of both.
        lines: Method -> points by ratio.
    """

    shift_a: str
    shift_b: str
    severity: int
    lines: dict[str, tuple[Point, ...]]


@dataclass(frozen=True)
class Sweeps:
    """The sweeps of a comparison, and the mean seconds a batch of each method over them."""

    sweeps: tuple[Sweep, ...]
    seconds: dict[str, float]
    looks: dict[str, Look]


def ratio_sweeps(results: Iterable[Result]) -> Sweeps:
    """Collect the pairs that were run at three ratios or more.

    Where an outlier stream and a mixture have the same ratio, the mixture counts, as in the paper's sweep.

    Example:
        >>> from midway.bench import Result
        >>> from midway.report.figures import ratio_sweeps
        >>> def of(ratio, accuracy):
        ...     groups, images = {"fog": accuracy, "snow": 80.0}, {"fog": 5, "snow": 5}
        ...     return Result("bn", "bn", {}, f"mixture:fog/snow@{ratio}", 10, 77.0, groups, images, (), 0.5)
        >>> found = ratio_sweeps([of(0.5, 70.0), of(0.1, 60.0), of(0.2, 65.0)])
        >>> [(point.ratio, point.accuracy) for point in found.sweeps[0].lines["bn"]], found.seconds
        ([(0.1, 60.0), (0.2, 65.0), (0.5, 70.0)], {'bn': 0.5})
    """
    results = common_seeds(results)
    found: dict[tuple[str, str, int], dict[float, dict[str, dict[str, list[Result]]]]] = {}
    for result in results:
        scenario = scenario_of(result.stream)
        if scenario is not None and scenario.kind in ("outlier", "mixture") and "A" in parts_of(result):
            assert scenario.amount is not None
            pair = (scenario.shifts[0], scenario.shifts[1], scenario.severity)
            kinds = found.setdefault(pair, {}).setdefault(scenario.amount, {})
            kinds.setdefault(scenario.kind, {}).setdefault(result.label, []).append(result)
    looks = looks_of(results)
    sweeps: list[Sweep] = []
    seconds: dict[str, list[float]] = {}
    for pair, ratios in found.items():
        if len(ratios) < FEWEST_RATIOS:
            continue
        chosen = {ratio: kinds.get("mixture") or kinds["outlier"] for ratio, kinds in sorted(ratios.items())}
        lines = {
            label: tuple(_point(ratio, by_label[label]) for ratio, by_label in chosen.items() if label in by_label)
            for label in looks
        }
        sweeps.append(Sweep(*pair, {label: points for label, points in lines.items() if points}))
        for by_label in chosen.values():
            for label, runs in by_label.items():
                seconds.setdefault(label, []).extend(run.seconds_per_batch for run in runs)
    shown = {label: look for label, look in looks.items() if label in seconds}
    return Sweeps(tuple(sweeps), {label: fmean(seconds[label]) for label in shown}, shown)


def _point(ratio: float, runs: Sequence[Result]) -> Point:
    summary = summarise([parts_of(run)["A"] for run in runs])
    return Point(ratio, summary.mean, summary.spread)


@styled
def draw_sweeps(found: Sweeps) -> Figure:
    """Draw one panel a pair, and the run times of the methods, which are also the legend."""
    across = min(len(found.sweeps), 3)
    down = -(-len(found.sweeps) // across)
    figure = new_figure(PAGE if across > 1 else PAGE * 0.75, max(2.4 * down, 0.9 + 0.17 * len(found.seconds)))
    grid = figure.add_gridspec(down, across + 1, width_ratios=[1.0] * across + [0.62 if across > 1 else 0.45])
    for number, sweep in enumerate(found.sweeps):
        axes = figure.add_subplot(grid[number // across, number % across])
        _draw_sweep(axes, sweep, found.looks)
        if number % across == 0:
            axes.set_ylabel("accuracy on the outliers (%)")
        if number >= len(found.sweeps) - across:
            axes.set_xlabel("share of outliers (%)")
    _draw_seconds(figure.add_subplot(grid[:, across]), found)
    return figure


def _draw_sweep(axes: Axes, sweep: Sweep, looks: dict[str, Look]) -> None:
    from matplotlib.ticker import NullLocator

    for number, (label, points) in enumerate(sweep.lines.items()):
        ratios, accuracies = [p.ratio for p in points], [p.accuracy for p in points]
        axes.plot(ratios, accuracies, zorder=3 + number, **line_style(looks[label]))
        if any(p.spread is not None for p in points):
            low = [p.accuracy - (p.spread or 0) for p in points]
            high = [p.accuracy + (p.spread or 0) for p in points]
            axes.fill_between(ratios, low, high, color=looks[label].colour, alpha=0.12, linewidth=0)
    axes.set_xscale("log")
    ticks = sorted({point.ratio for points in sweep.lines.values() for point in points})
    apart = ticks[:1]
    for tick in ticks:
        if tick / apart[-1] > 2.4:  # nearer ones would overlap
            apart.append(tick)
    axes.set_xticks(apart, [f"{100 * tick:g}" for tick in apart])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y")
    strength = "" if sweep.severity == 5 else f", severity {sweep.severity}"
    axes.set_title(f"{words(sweep.shift_a)}\namong {words(sweep.shift_b)}{strength}", loc="left")


def _draw_seconds(axes: Axes, found: Sweeps) -> None:
    """Draw times from cheap to dear, named and marked as the lines are."""
    ordered = sorted(found.seconds, key=lambda label: found.seconds[label])
    least, most = min(found.seconds.values()), max(found.seconds.values())
    for place, label in enumerate(ordered):
        look, seconds = found.looks[label], found.seconds[label]
        axes.plot([least / 2, seconds], [place, place], **line_style(look) | {"markevery": [1]})
        axes.annotate(
            f"{seconds:.2g} s", (seconds, place), (6, 0), textcoords="offset points", va="center", fontsize=6.5
        )
    axes.set_xscale("log")
    axes.set_xlim(least / 2, most * (2 * most / least) ** 0.45)  # room for the last number
    tick_by_decades(axes, (least / 2, most))
    axes.set_xlabel("seconds")
    axes.set_yticks(range(len(ordered)), [found.looks[label].title for label in ordered])
    axes.tick_params(axis="y", length=0, pad=5)
    axes.invert_yaxis()
    axes.spines["left"].set_color(FAINT)
    axes.set_title("time of a batch", loc="left")
