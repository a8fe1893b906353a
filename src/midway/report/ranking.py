"""Which method is best: ranks over shared streams, paired tests, the Pareto front, and differences between two runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import NamedTuple

from midway.metrics import METRICS
from midway.report.tidy import ALL, IMAGES, Frame, Row, find_common
from midway.significance import PairedComparison, compare_paired, compare_with_best, show_p_value
from midway.streams import Scenario

Key = tuple[Scenario, int]
"""A scenario and a seed."""

FEW = 0.1
"""Streams with at most this share of another distribution count as nearly pure."""

LEVEL = 0.05
FEWEST_FOR_RANKS = 6
"""The signed-rank test cannot reach 0.05 with fewer pairs."""


def part_of(row: Row) -> str:
    """Return which images of a stream a row is about: ``"A"`` or ``"B"`` of a pair, ``"all"``, or ``""`` for others."""
    if row.group == ALL:
        return ALL
    pair = row.scenario.shifts if row.scenario.kind in ("outlier", "mixture") else ()
    return "AB"[pair.index(row.group)] if row.group in pair else ""


@dataclass(frozen=True)
class Ranked:
    """A method and its numbers on the streams that all compared methods have."""

    label: str
    mean: float  # over streams and seeds
    values: tuple[float, ...]  # in the order of Ranking.keys
    costs: dict[str, float] = field(default_factory=dict)  # means of the other metrics of whole streams


@dataclass(frozen=True)
class Ranking:
    """Methods, best first, on the scenarios and seeds that all of them have."""

    keys: tuple[Key, ...]
    methods: tuple[Ranked, ...]
    left_out: tuple[str, ...] = ()  # labels that share no stream with the others


def rank(frame: Frame, *, part: str = ALL, metric: str = "accuracy") -> Ranking:
    """Rank methods by their mean on the streams and seeds that all of them have.

    Where nothing is common to all, the methods with the fewest streams are left out.

    Args:
        frame: The rows of one comparison.
        part: Which images count, see ``part_of``.
        metric: The metric; lower is better if the metric says so.

    Example:
        >>> from midway.report import Frame, Row
        >>> from midway.report.ranking import rank
        >>> from midway.streams import Scenario
        >>> fog, snow = map(Scenario.parse, ("pure:fog", "pure:snow"))
        >>> rows = [("bn", fog, 70.0), ("bn", snow, 60.0), ("tent", fog, 71.0)]
        >>> ranking = rank(Frame(tuple(Row(*row[:2], "all", 0, "accuracy", row[2]) for row in rows)))
        >>> [(method.label, method.mean) for method in ranking.methods]
        [('tent', 71.0), ('bn', 70.0)]
    """
    values: dict[str, dict[Key, float]] = {}
    others: dict[str, dict[str, dict[Key, float]]] = {}
    for row in frame.rows:
        if row.metric == metric and not math.isnan(row.value) and part_of(row) == part:
            values.setdefault(row.label, {})[row.scenario, row.seed] = row.value
        if row.metric != metric and row.group == ALL:
            others.setdefault(row.label, {}).setdefault(row.metric, {})[row.scenario, row.seed] = row.value
    labels, common = find_common({label: set(row) for label, row in values.items()})
    keys = [key for key in values[labels[0]] if key in common] if labels else []
    ranked = []
    for label in labels:
        complete = {name: each for name, each in others.get(label, {}).items() if each.keys() >= common}
        costs = {name: fmean(map(each.__getitem__, keys)) for name, each in complete.items()}
        mine = tuple(map(values[label].__getitem__, keys))
        ranked.append(Ranked(label, fmean(mine), mine, costs))
    lower = metric in METRICS and METRICS[metric].better == "lower"
    ranked.sort(key=lambda method: method.mean if lower else -method.mean)
    return Ranking(tuple(keys), tuple(ranked), tuple([label for label in values if label not in labels]))


def pareto_front(methods: Iterable[Ranked], cost: str = "seconds_per_batch") -> tuple[str, ...]:
    """Return the labels that no other method beats in both accuracy and cost, cheapest first.

    Args:
        methods: The methods.
        cost: Name of the metric that is the cost; methods without it are left out.

    Example:
        >>> from midway.report.ranking import Ranked, pareto_front
        >>> rows = (("a", 60.0, 1.0), ("b", 59.0, 2.0), ("c", 70.0, 3.0))
        >>> pareto_front([Ranked(label, mean, (), {"gflops": cost}) for label, mean, cost in rows], "gflops")
        ('a', 'c')
    """
    front: list[str] = []
    best = float("-inf")
    with_cost = [method for method in methods if cost in method.costs]
    for method in sorted(with_cost, key=lambda each: (each.costs[cost], -each.mean)):
        if method.mean > best:
            best = method.mean
            front.append(method.label)
    return tuple(front)


def independent_pairs(values: Mapping[Key, float], *, part: str = ALL) -> list[float]:
    """Return values that can be paired between methods: the mean of each stream, or the seeds if there is one stream.

    Seeds of one stream see the same corruption and are not independent. Streams with nearly the same images count as
    one, such as a pure stream and the same stream with a few outliers.
    """
    alike: dict[Scenario, dict[int, list[float]]] = {}
    for (scenario, seed), value in values.items():
        stream = scenario if part == "A" else _nearly(scenario)
        alike.setdefault(stream, {}).setdefault(seed, []).append(value)
    if len(alike) == 1:
        return [fmean(each) for seeds in alike.values() for each in seeds.values()]
    return [fmean(value for each in seeds.values() for value in each) for seeds in alike.values()]


def _nearly(scenario: Scenario) -> Scenario:
    """Return the pure scenario with nearly all images of a scenario, or the scenario itself."""
    if scenario.kind not in ("outlier", "mixture") or (scenario.amount or 1) > FEW:
        return scenario
    return Scenario("pure", scenario.shifts[1:], severity=scenario.severity)


@dataclass(frozen=True)
class Winner:
    """The best method on some streams, the second best and the unadapted network, if they are others."""

    scope: str
    best: Ranked
    next: Ranked | None
    source: Ranked | None
    lead: PairedComparison | None  # over the second best, stream by stream
    count: int  # of streams and seeds


def find_winner(
    frame: Frame, *, scope: str = "all streams", part: str = ALL, ranking: Ranking | None = None
) -> Winner | None:
    """Return the method with the highest mean accuracy on what all were run on; None if there is none."""
    ranking = rank(frame, part=part) if ranking is None else ranking
    if not ranking.methods:
        return None
    best, *others = ranking.methods
    second = others[0] if others else None
    lead = None
    if second is not None:
        ours, theirs = (
            independent_pairs(dict(zip(ranking.keys, method.values, strict=True)), part=part)
            for method in (best, second)
        )
        lead = compare_paired(ours, theirs, rival=second.label)
        lead = replace(lead, difference=best.mean - second.mean)  # the difference of the means that are shown
    source = [method for method in others if method.label == frame.source]
    return Winner(scope, best, second, source[0] if source else None, lead, len(ranking.keys))


def scopes(frame: Frame) -> dict[tuple[str, str], tuple[str, Frame]]:
    """Return what methods can be ranked on: kind of scenario and part of its images -> title and rows of the kind."""
    titles = {"outlier": {"A": "the outliers", "B": "the rest"}}
    parts: dict[str, set[str]] = {}
    rows: dict[str, list[Row]] = {}
    for row in frame.rows:
        kind = row.scenario.kind
        rows.setdefault(kind, []).append(row)
        if row.metric == "accuracy" and not math.isnan(row.value) and (part := part_of(row)):
            parts.setdefault(kind, set()).add(part)
    listed = {}
    for kind, known in parts.items():
        names = titles.get(kind, {"A": "first part", "B": "second part"})
        of_kind = replace(frame, rows=tuple(rows[kind]))
        for part in (ALL, *sorted(known - {ALL})):
            title = f"{kind}: {names.get(part, 'all images')}" if len(known) > 1 else kind
            listed[kind, part] = title, of_kind
    return listed


def winners(frame: Frame) -> list[Winner]:
    """Return the winner of every kind of scenario, and of the parts of pairs."""
    every = [find_winner(of_kind, scope=title, part=part) for (_, part), (title, of_kind) in scopes(frame).items()]
    return [winner for winner in every if winner is not None]


def versus_best(frame: Frame, method: str = "mita") -> dict[str, PairedComparison]:
    """Compare a method with the best of the others, stream by stream: on A and B of pairs, and on all images.

    Streams that a method lacks are left out for all methods.
    """
    values: dict[str, dict[str, dict[Key, float]]] = {}
    for row in frame.where(metric="accuracy"):
        if part := part_of(row):
            values.setdefault(part, {}).setdefault(row.label, {})[row.scenario, row.seed] = row.value
    compared = {}
    for part in sorted(values):  # A, B, all
        rows = values[part]
        common = [key for key in next(iter(rows.values())) if all(key in row for row in rows.values())]
        if method in rows and len(rows) > 1 and common:
            pairs = {
                label: independent_pairs({key: row[key] for key in common}, part=part) for label, row in rows.items()
            }
            compared[part] = compare_with_best(pairs, method)
    return compared


class Verdict(NamedTuple):
    """Whether a lead is significant: yes, no, or why that is unknown, and the tests with their p-values."""

    word: str
    detail: str

    def __str__(self) -> str:
        return f"{self.word} ({self.detail})"


def verdict(lead: PairedComparison | None) -> Verdict:
    """Return whether a lead is significant."""
    if lead is None:
        return Verdict("unknown", "nothing to compare with")
    if lead.pairs == 1:
        return Verdict("unknown", "a single pair")
    by_t = lead.t_test is not None and lead.t_test < LEVEL
    by_rank = lead.signed_rank is not None and lead.signed_rank < LEVEL
    t_test = "all differences are equal" if lead.t_test is None else f"paired t-test {show_p_value(lead.t_test)}"
    if lead.pairs < FEWEST_FOR_RANKS:
        return Verdict("only by the t-test" if by_t else "no", f"{t_test}; too few pairs for a rank test")
    word = "yes" if by_t and by_rank else "no" if not (by_t or by_rank) else "the tests disagree"
    return Verdict(word, f"{t_test}; signed-rank test {show_p_value(lead.signed_rank or 0)}")


class Difference(NamedTuple):
    """A second run minus a first one, for each label, scenario, group, seed and metric of both."""

    frame: Frame
    overall: PairedComparison | None  # on all images of all streams and seeds that both have
    by_label: dict[str, PairedComparison]
    only_first: tuple[str, ...]  # labels
    only_second: tuple[str, ...]


def difference(first: Frame, second: Frame, *, rival: str = "the first run") -> Difference:
    """Compare what two runs have in common: the same label, scenario and seed; ``rival`` names the first run."""
    before = {row[:5]: row.value for row in first}
    both = [row for row in second if row[:5] in before]
    order = {label: index for index, label in enumerate(first.unique("label"))}
    both.sort(key=lambda row: order[row.label])
    changed = tuple(row if row.metric == IMAGES else row._replace(value=row.value - before[row[:5]]) for row in both)
    compared = [row for row in both if row.group == ALL and row.metric == "accuracy"]

    def compare(rows: Sequence[Row]) -> PairedComparison:
        return compare_paired([row.value for row in rows], [before[row[:5]] for row in rows], rival=rival)

    by_label: dict[str, list[Row]] = {}
    for row in compared:
        by_label.setdefault(row.label, []).append(row)
    labels = [set(run.unique("label")) for run in (first, second)]
    return Difference(
        Frame(changed),
        compare(compared) if compared else None,
        {label: compare(rows) for label, rows in by_label.items()},
        tuple(sorted(labels[0] - labels[1])),
        tuple(sorted(labels[1] - labels[0])),
    )
