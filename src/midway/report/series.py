"""Data that figures and the charts of a page share: accuracy over time, by the share of outliers, and against cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from midway.report.ranking import pareto_front, part_of, rank
from midway.report.table import Value, pivot
from midway.report.tidy import ALL, Frame, PlotStyle
from midway.streams import Scenario

FEWEST_RATIOS = 3


class OverTime(NamedTuple):
    """Accuracies over one stream, in percent."""

    scenario: Scenario
    window: int  # each value is the mean of this many batches
    lines: dict[str, tuple[float, ...]]  # label -> a value per batch from batch `window` on, mean over shared seeds
    styles: dict[str, PlotStyle]


def accuracy_over_time(frame: Frame, *, window: int | None = None) -> tuple[OverTime, ...]:
    """Collect the accuracies of the batches of every stream, smoothed by a running mean over a tenth of the stream."""
    batches = {key: values for key, values in frame.batch_accuracies.items() if len(values) > 1}
    shared = frame.filter(lambda row: (row.label, row.scenario, row.seed) in batches).common_seeds()
    runs: dict[Scenario, dict[str, list[tuple[float, ...]]]] = {}
    for key in dict.fromkeys((row.label, row.scenario, row.seed) for row in shared):
        runs.setdefault(key[1], {}).setdefault(key[0], []).append(batches[key])
    streams = []
    for scenario, by_label in runs.items():
        length = min(len(run) for each in by_label.values() for run in each)
        width = min(length, window or max(1, length // 10))
        lines = {}
        for label in [label for label in frame.styles if label in by_label]:
            means = [fmean(run[batch] for run in by_label[label]) for batch in range(length)]
            lines[label] = running_mean(means, width)
        streams.append(OverTime(scenario, width, lines, frame.styles))
    return tuple(streams)


def running_mean(values: Sequence[float], window: int) -> tuple[float, ...]:
    """Return the mean of every ``window`` neighbours."""
    return tuple(fmean(values[end - window : end]) for end in range(window, len(values) + 1))


class Sweep(NamedTuple):
    """A shift of outliers and that of the rest: label -> share of outliers -> accuracy on them, over shared seeds."""

    shifts: tuple[str, ...]
    severity: int
    lines: dict[str, dict[float, Value]]


class Sweeps(NamedTuple):
    """The sweeps of a comparison, and the mean seconds per batch of each label over all of them."""

    sweeps: tuple[Sweep, ...]
    seconds: dict[str, float]
    styles: dict[str, PlotStyle]


def ratio_sweeps(frame: Frame) -> Sweeps:
    """Collect the pairs of shifts with three ratios or more.

    Where an outlier stream and a mixture have the same ratio, the mixture counts, as in the paper.
    """
    shared = frame.common_seeds()
    accuracies = shared.where(metric="accuracy")
    outliers = accuracies.filter(lambda row: part_of(row) == "A" and not math.isnan(row.value))
    ratios: dict[tuple[tuple[str, ...], int], dict[float, Scenario]] = {}
    for scenario in outliers.unique("scenario"):
        known = ratios.setdefault((scenario.shifts, scenario.severity), {})
        if scenario.kind == "mixture" or scenario.amount not in known:
            known[scenario.amount] = scenario
    chosen = {pair: known for pair, known in ratios.items() if len(known) >= FEWEST_RATIOS}
    sweeps = []
    for pair, known in chosen.items():
        table = pivot(outliers.where(scenario=known.values()))
        amounts = [0 if column.scenario is None else column.scenario.amount or 0 for column in table.columns]
        rising = sorted(range(len(amounts)), key=amounts.__getitem__)
        rows = dict(table.rows)
        lines: dict[str, dict[float, Value]] = {
            label: {amounts[index]: value for index in rising if (value := rows[label][index]) is not None}
            for label in frame.styles
            if label in rows
        }
        sweeps.append(Sweep(*pair, lines))
    scenarios = {scenario for known in chosen.values() for scenario in known.values()}
    times = shared.where(scenario=scenarios, metric="seconds_per_batch", group=ALL)
    seconds = {label: fmean(row.value for row in times.where(label=label)) for label in times.unique("label")}
    return Sweeps(tuple(sweeps), seconds, frame.styles)


class Point(NamedTuple):
    """The mean cost of a method, and its mean accuracy in percent."""

    label: str
    cost: float
    accuracy: float


class AccuracyAndCost(NamedTuple):
    """Methods by cost, cheapest first, and those that no other beats in both."""

    metric: str
    streams: int  # number of scenarios and seeds that the means are over
    points: tuple[Point, ...]
    front: tuple[str, ...]
    styles: dict[str, PlotStyle]


def accuracy_and_cost(frame: Frame, *, metric: str = "seconds_per_batch") -> AccuracyAndCost:
    """Collect mean accuracy and mean cost on the streams that all methods share; methods need the cost."""
    ranking = rank(frame)
    methods = sorted((m for m in ranking.methods if m.costs.get(metric, 0) > 0), key=lambda m: m.costs[metric])
    points = tuple(Point(method.label, method.costs[metric], method.mean) for method in methods)
    return AccuracyAndCost(metric, len(ranking.keys), points, pareto_front(methods, metric), frame.styles)
