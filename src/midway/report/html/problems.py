"""What a reader must know before believing a page: failures, gaps, few images, odd diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from midway.bench import Comparison, Record, Result
from midway.report.standings import stand

FEW_IMAGES = 100
TROUBLES = {
    "skipped_steps": "steps were skipped because they were not finite",
    "stalled_steps": "steps of images were not finite and left out",
    "recoveries": "resets to the source happened on the way",
    "rollbacks": "updates were taken back by the guard",
}
"""Diagnostics that count something a reader should hear of."""


@dataclass(frozen=True)
class Failed:
    """A cell that has no result: which, why, and where in the code."""

    cell: str
    error: str
    traceback: str


def failures(records: Iterable[Record]) -> list[Failed]:
    """List the cells that failed."""
    return [Failed(str(r.cell), r.failure.error, r.failure.traceback) for r in records if r.failure is not None]


def warnings_of(comparison: Comparison) -> list[str]:
    """Say what limits the numbers of a comparison, one sentence each.

    Example:
        >>> from midway.bench import Comparison, Result
        >>> from midway.report.html.problems import warnings_of
        >>> def of(label, stream):
        ...     return Result(label, label, {}, stream, 400, 70.0, {"fog": 70.0}, {"fog": 400}, (), 0.1)
        >>> rows = (of("bn", "pure:fog"), of("bn", "pure:snow"), of("tent", "pure:fog"))
        >>> warnings_of(Comparison("Weather", "", {}, rows))
        ['Not finished: 1 of 4 combinations of method, stream and seed have no result (tent).',
         'One seed: differences between methods include the luck of that seed.']
    """
    results = comparison.results
    found = [f"{entry} was left out: {reason}." for entry, reason in comparison.left_out.items()]
    return [*found, *_gaps(results), *_few(results), *_diagnosed(results)]


def _gaps(results: Sequence[Result]) -> list[str]:
    places = {(result.stream, result.seed) for result in results}
    labels = list(dict.fromkeys(result.label for result in results))
    have = {(result.label, result.stream, result.seed) for result in results}
    missing = [label for label in labels for place in places if (label, *place) not in have]
    found = []
    if missing:
        counted = f"{len(missing)} of {len(labels) * len(places)}"
        who = ", ".join(dict.fromkeys(missing))
        found.append(f"Not finished: {counted} combinations of method, stream and seed have no result ({who}).")
    if left_out := stand(results).left_out:
        found.append(f"Left out of the ranking, nothing in common with the others: {', '.join(left_out)}.")
    return found


def _few(results: Sequence[Result]) -> list[str]:
    found = []
    if len({result.seed for result in results}) == 1:
        found.append("One seed: differences between methods include the luck of that seed.")
    counts = [n for result in results for n in (*result.images_by_group.values(), result.images) if 0 < n < FEW_IMAGES]
    if counts:
        least = min(counts)
        found.append(
            f"Some numbers are over few images: the fewest are {least}, where one image is {100 / least:.1f} points."
        )
    return found


def _diagnosed(results: Sequence[Result]) -> list[str]:
    found = []
    for name, meaning in TROUBLES.items():
        counts: dict[str, float] = {}
        for result in results:
            if isinstance(count := result.diagnostics.get(name), int | float) and count:
                counts[result.label] = counts.get(result.label, 0) + count
        found += [f"{label}: {count:g} {meaning}." for label, count in counts.items()]
    return found


def environments(records: Sequence[Record]) -> list[str]:
    """Say in what the surroundings of a run's results differ: last digits may, times will."""
    found = []
    for part in ("torch", "cpu"):
        values = sorted({str(record.environment.get(part)) for record in records if record.environment.get(part)})
        if len(values) > 1:
            found.append(f"Results were measured with different {part}: {', '.join(values)}.")
    return found
