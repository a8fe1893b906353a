"""The order of methods in the benchmark: paired differences with their errors, compared with published errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from statistics import fmean, stdev
from typing import NamedTuple

from midway.bench.benchmark import BenchmarkColumn
from midway.report import Frame
from midway.report.tidy import ALL
from midway.streams import Scenario

Part = tuple[Scenario, str, int]
"""A corruption of a stream, or a stream, and its seed: all methods see the same images in it."""

Errors = dict[str, dict[Part, float]]
"""Label -> part -> error in percent."""


class Difference(NamedTuple):
    """How much larger the error of one method is than that of another, over the same parts.

    Attributes:
        mean: The mean difference in points.
        error: Its standard error; infinite for a single part.
    """

    mean: float
    error: float

    @property
    def is_clear(self) -> bool:
        """Whether the difference is more than two standard errors."""
        return abs(self.mean) > 2 * self.error


class Orders(NamedTuple):
    """Pairs of labels, the better one here first: as published, too close to tell, and the other way round."""

    same: list[tuple[str, str]]
    close: list[tuple[str, str]]
    turned: list[tuple[str, str]]


def errors_by_part(rows: Frame, column: BenchmarkColumn) -> Errors:
    """Return the errors of a column by corruption, or by stream if it has several; incomplete labels are left out."""
    scenarios = column.scenarios
    errors: Errors = {}
    for row in rows.where(metric="accuracy", scenario=scenarios):
        if column.first_shift_only:
            counts = row.group == row.scenario.shifts[0]
        else:
            counts = (row.group == ALL) == (len(scenarios) > 1)
        if counts:
            errors.setdefault(row.label, {})[row.scenario, row.group, row.seed] = 100 - row.value
    return {label: parts for label, parts in errors.items() if {scenario for scenario, _, _ in parts} == set(scenarios)}


def difference(errors: Errors, better: str, worse: str) -> Difference:
    """Return the error of one label less that of another, over the parts that both have."""
    parts = [part for part in errors[better] if part in errors[worse]]
    values = [errors[worse][part] - errors[better][part] for part in parts]
    if len(values) < 2:
        return Difference(fmean(values) if values else math.nan, math.inf)
    return Difference(fmean(values), stdev(values) / math.sqrt(len(values)))


def compare_orders(errors: Errors, published: Mapping[str, float]) -> Orders:
    """Compare every pair of labels with different published errors."""
    orders = Orders([], [], [])
    for a, b in combinations([label for label in errors if label in published], 2):
        if published[a] == published[b]:
            continue
        found = difference(errors, a, b)
        pair = (a, b) if found.mean > 0 else (b, a)
        if not found.is_clear:
            orders.close.append(pair)
        elif published[pair[0]] < published[pair[1]]:
            orders.same.append(pair)
        else:
            orders.turned.append(pair)
    return orders


def ranking(errors: Mapping[str, float]) -> str:
    """Return labels from the smallest error to the largest."""
    return ", ".join(sorted(errors, key=errors.__getitem__))
