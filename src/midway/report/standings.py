"""Where the methods stand: what they share, what they reach there, and at what cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from midway.bench import Result
from midway.streams import Scenario

CostKind = Literal["seconds", "gflops"]
Place = tuple[str, int]
"""A stream and a seed."""

FEW = 0.1
"""Streams with at most this share of something else are nearly pure ones."""


def scenario_of(stream: str) -> Scenario | None:
    """Read the name of a stream; None for one that is no scenario, such as a stream of the user's own.

    Example:
        >>> from midway.report.standings import scenario_of
        >>> scenario_of("pure:fog").kind, scenario_of("Tuesday") is None
        ('pure', True)
    """
    try:
        return Scenario.parse(stream)
    except ValueError:
        return None


def kind_of(stream: str) -> str:
    """Return the kind of a stream: that of its scenario, or its own name.

    Example:
        >>> from midway.report.standings import kind_of
        >>> kind_of("outlier:fog/snow@0.005"), kind_of("Tuesday")
        ('outlier', 'Tuesday')
    """
    scenario = scenario_of(stream)
    return stream if scenario is None else scenario.kind


def parts_of(result: Result) -> dict[str, float]:
    """Return a result's accuracies by what its images are: A (the outliers, or the first half), B, and all.

    Example:
        >>> from midway.bench import Result
        >>> from midway.report.standings import parts_of
        >>> groups = {"fog": 50.0, "snow": 80.0}
        >>> parts_of(Result("bn", "bn", {}, "outlier:fog/snow@0.1", 10, 77.0, groups, {"fog": 1, "snow": 9}, (), 0.1))
        {'A': 50.0, 'B': 80.0, 'all': 77.0}
    """
    scenario = scenario_of(result.stream)
    pair = scenario.shifts if scenario is not None and scenario.kind in ("outlier", "mixture") else ()
    parts = {part: result.by_group.get(shift, math.nan) for part, shift in zip("AB", pair, strict=False)}
    known = {part: accuracy for part, accuracy in parts.items() if not math.isnan(accuracy)}
    return known | {"all": result.accuracy}


def scopes(results: Sequence[Result]) -> list[tuple[str, str, str]]:
    """List what methods can be ranked on: kinds of streams, and the parts of those that have parts.

    Returns:
        The kind, the part as ``parts_of`` names it, and what to call both.

    Example:
        >>> from midway.bench import Result
        >>> from midway.report.standings import scopes
        >>> groups, images = {"fog": 50.0, "snow": 80.0}, {"fog": 1, "snow": 9}
        >>> outlier = Result("bn", "bn", {}, "outlier:fog/snow@0.1", 10, 77.0, groups, images, (), 0.1)
        >>> [name for _, _, name in scopes([outlier])]
        ['outlier: all images', 'outlier: the outliers', 'outlier: the rest']
    """
    found = []
    for kind in dict.fromkeys(kind_of(result.stream) for result in results):
        parts = {part for result in results if kind_of(result.stream) == kind for part in parts_of(result)}
        named = {"A": "the outliers", "B": "the rest"} if kind == "outlier" else {"A": "first part", "B": "second part"}
        for part in ("all", *sorted(parts - {"all"})):
            name = f"{kind}: {named.get(part, 'all images')}" if len(parts) > 1 else kind
            found.append((kind, part, name))
    return found


@dataclass(frozen=True)
class Standing:
    """How a method does where all compared methods were run.

    Attributes:
        label: What tables call it.
        accuracy: Mean over streams and seeds, in percent, on all images.
        accuracies: Of each stream and seed, in the order of ``Standings.places``.
        seconds: Mean time of a batch.
        gflops: Billions of floating-point operations an image, forward and backward; None where it was not counted.
    """

    label: str
    accuracy: float
    accuracies: tuple[float, ...]
    seconds: float
    gflops: float | None

    def cost(self, kind: CostKind) -> float | None:
        """Return the cost of one kind."""
        return self.seconds if kind == "seconds" else self.gflops


@dataclass(frozen=True)
class Standings:
    """Methods from best to worst, on the streams and seeds that all of them have.

    Attributes:
        places: These streams and seeds.
        methods: The standings, best first.
        left_out: Labels of methods that share nothing with the others.
    """

    places: tuple[Place, ...]
    methods: tuple[Standing, ...]
    left_out: tuple[str, ...] = ()


def stand(results: Iterable[Result], *, part: str = "all") -> Standings:
    """Rank methods by their mean accuracy on what all of them were run on.

    In a run that is not finished, or where methods failed, only streams and seeds that all have count. Methods with
    the fewest of them are left out where nothing is common to all.

    Args:
        results: Of one comparison.
        part: Which images count, see ``parts_of``; results without them are left out.

    Example:
        >>> from midway.bench import Result
        >>> from midway.report.standings import stand
        >>> def of(label, stream, accuracy):
        ...     return Result(label, label, {}, stream, 100, accuracy, {}, {}, (), 0.5)
        >>> found = stand([of("bn", "pure:fog", 70.0), of("bn", "pure:snow", 60.0), of("tent", "pure:fog", 71.0)])
        >>> [(method.label, method.accuracy) for method in found.methods]
        [('tent', 71.0), ('bn', 70.0)]
    """
    rows: dict[str, dict[Place, Result]] = {}
    for result in results:
        if part in parts_of(result):
            rows.setdefault(result.label, {})[result.stream, result.seed or 0] = result
    left_out: list[str] = []
    places: list[Place] = []
    while rows and not (places := _common(rows)):
        fewest = min(rows, key=lambda label: len(rows[label]))
        left_out.append(fewest)
        del rows[fewest]
    standings = [_standing(label, [row[place] for place in places], part) for label, row in rows.items()]
    standings.sort(key=lambda standing: -standing.accuracy)
    return Standings(tuple(places), tuple(standings), tuple(left_out))


def by_stream(accuracies: Mapping[Place, float], *, part: str = "all") -> list[float]:
    """Return what can be paired between methods: one value a stream, the mean over its seeds; of one stream, its seeds.

    Streams that show nearly the same images count as one, such as a pure stream and one with a few outliers in it.

    Example:
        >>> from midway.report.standings import by_stream
        >>> by_stream({("pure:fog", 0): 60.0, ("pure:fog", 1): 62.0, ("pure:snow", 0): 70.0})
        [61.0, 70.0]
        >>> by_stream({("pure:fog", 0): 60.0, ("pure:fog", 1): 62.0})
        [60.0, 62.0]
        >>> by_stream({("pure:fog", 0): 60.0, ("outlier:frost/fog@0.005", 0): 62.0, ("pure:snow", 0): 70.0})
        [61.0, 70.0]
    """
    alike: dict[str, dict[int, list[float]]] = {}
    for (stream, seed), accuracy in accuracies.items():
        kind = stream if part == "A" else _mostly(stream)
        alike.setdefault(kind, {}).setdefault(seed, []).append(accuracy)
    if len(alike) == 1:
        return [fmean(values) for seeds in alike.values() for values in seeds.values()]
    return [fmean(value for values in seeds.values() for value in values) for seeds in alike.values()]


def _mostly(stream: str) -> str:
    """Return the pure stream that shows nearly all the images of a stream, or the stream itself."""
    scenario = scenario_of(stream)
    if scenario is None or scenario.kind not in ("outlier", "mixture") or (scenario.amount or 1) > FEW:
        return stream
    return str(Scenario("pure", scenario.shifts[1:], severity=scenario.severity))


def _common(rows: dict[str, dict[Place, Result]]) -> list[Place]:
    return [place for place in next(iter(rows.values())) if all(place in row for row in rows.values())]


def _standing(label: str, results: Sequence[Result], part: str) -> Standing:
    accuracies = tuple(parts_of(result)[part] for result in results)
    flops = [total / each for r in results if (total := r.cost.get("flops_total")) and (each := r.cost.get("images"))]
    return Standing(
        label=label,
        accuracy=fmean(accuracies),
        accuracies=accuracies,
        seconds=fmean(result.seconds_per_batch for result in results),
        gflops=fmean(flops) / 1e9 if len(flops) == len(results) else None,
    )


def pareto_front(standings: Sequence[Standing], kind: CostKind) -> tuple[str, ...]:
    """Return the methods that no other method beats in both accuracy and cost, cheapest first.

    Example:
        >>> from midway.report.standings import Standing, pareto_front
        >>> made = [Standing(*row, None) for row in (("a", 60.0, (), 1.0), ("b", 59.0, (), 2.0), ("c", 70.0, (), 3.0))]
        >>> pareto_front(made, "seconds")
        ('a', 'c')
    """
    priced = [(cost, standing) for standing in standings if (cost := standing.cost(kind)) is not None]
    front: list[str] = []
    best = float("-inf")
    for _, standing in sorted(priced, key=lambda pair: (pair[0], -pair[1].accuracy)):
        if standing.accuracy > best:
            best = standing.accuracy
            front.append(standing.label)
    return tuple(front)
