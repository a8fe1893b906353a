"""Means over seeds are compared only where all methods have the same seeds."""

from __future__ import annotations

from collections.abc import Iterable

from midway.bench import Result
from midway.report.standings import stand

UNEQUAL = "where some methods have more seeds than others, only the seeds that all have count"


def common_seeds(results: Iterable[Result]) -> list[Result]:
    """Keep on each stream the seeds that all methods which have that stream share.

    A method that shares none with the others is left out of that stream.

    Example:
        >>> from midway.bench import Result
        >>> from midway.report.common_seeds import common_seeds
        >>> def of(label, seed):
        ...     return Result(label, label, {}, "pure:fog", 100, 70.0, {}, {}, (), 0.5, seed=seed)
        >>> [(kept.label, kept.seed) for kept in common_seeds([of("bn", 0), of("bn", 1), of("mita", 1)])]
        [('bn', 1), ('mita', 1)]
    """
    results = list(results)
    by_stream: dict[str, list[Result]] = {}
    for result in results:
        by_stream.setdefault(result.stream, []).append(result)
    kept = set()
    for found in map(stand, by_stream.values()):
        kept |= {(method.label, *place) for method in found.methods for place in found.places}
    return [result for result in results if (result.label, result.stream, result.seed or 0) in kept]
