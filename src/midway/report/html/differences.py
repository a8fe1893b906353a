"""Two runs side by side: what changed in the settings, and what it did to the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from midway.bench import Comparison, Result
from midway.report.common_seeds import UNEQUAL, common_seeds
from midway.report.paper_tables import measured
from midway.report.tables import Cell, Column, Table
from midway.significance import PairedComparison, compare_paired, summarise


@dataclass(frozen=True)
class Difference:
    """A second run against a first one.

    Attributes:
        first: Name of the first run.
        second: Name of the second.
        overall: All methods, streams and seeds that both have, on all images; None if there are none.
        by_method: The same for each method.
        table: Second less first, methods by groups, mean over the seeds that all methods of a stream have in both.
        settings: What differs -> its value in the first run and in the second; None where a run has no such setting.
        only: What just one run has: its name -> labels of methods.
    """

    first: str
    second: str
    overall: PairedComparison | None
    by_method: dict[str, PairedComparison]
    table: Table
    settings: dict[str, tuple[Any, Any]]
    only: dict[str, tuple[str, ...]]


def difference(first: Comparison, second: Comparison, *, names: tuple[str, str]) -> Difference:
    """Compare what two runs have in common: the same method, stream and seed.

    Example:
        >>> from midway.bench import Comparison, Result
        >>> from midway.report.html.differences import difference
        >>> def of(accuracy):
        ...     result = Result("bn", "bn", {}, "pure:fog", 8, accuracy, {"fog": accuracy}, {"fog": 8}, (), 0.5)
        ...     return Comparison("Fog", "", {"batch size": int(accuracy)}, (result,))
        >>> found = difference(of(60.0), of(62.5), names=("a", "b"))
        >>> found.overall.difference, found.settings
        (2.5, {'batch size': (60, 62)})
    """
    ours, theirs = _by_place(second.results), _by_place(first.results)
    common = [place for place in theirs if place in ours]
    pairs = {label: [place for place in common if place[0] == label] for label in dict.fromkeys(p[0] for p in common)}

    def compare(places: Sequence[tuple[str, str, int]]) -> PairedComparison:
        return compare_paired([ours[p].accuracy for p in places], [theirs[p].accuracy for p in places], rival=names[0])

    labels = [{label for label, _, _ in rows} for rows in (theirs, ours)]
    only = {
        name: tuple(sorted(mine - other)) for name, mine, other in zip(names, labels, reversed(labels), strict=True)
    }
    keys = dict.fromkeys([*first.settings, *second.settings])
    before, after = first.settings, second.settings
    return Difference(
        first=names[0],
        second=names[1],
        overall=compare(common) if common else None,
        by_method={label: compare(places) for label, places in pairs.items()},
        table=_table([ours[p] for p in common], theirs, names),
        settings={key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)},
        only={name: rest for name, rest in only.items() if rest},
    )


def _by_place(results: Sequence[Result]) -> dict[tuple[str, str, int], Result]:
    return {_place(result): result for result in results}


def _place(result: Result) -> tuple[str, str, int]:
    return result.label, result.stream, result.seed or 0


def _table(ours: Sequence[Result], theirs: Mapping[tuple[str, str, int], Result], names: tuple[str, str]) -> Table:
    """Build the table of differences; seeds become a mean with its spread."""
    gains: dict[str, dict[Column, list[float]]] = {}
    equal = common_seeds(ours)
    for result in equal:
        values = {number.group: number for number in measured(theirs[_place(result)])}
        for number in measured(result):
            if number.group in values:
                column = Column(number.stream, number.group, number.images)
                row = gains.setdefault(result.label, {})
                row.setdefault(column, []).append(number.value - values[number.group].value)
    columns = tuple(dict.fromkeys(column for row in gains.values() for column in row))
    rows = []
    for label, row in gains.items():
        found = {column: summarise(values) for column, values in row.items()}
        cells = [
            Cell(found[column].mean, spread=found[column].spread, signed=True) if column in found else None
            for column in columns
        ]
        rows.append((label, tuple(cells)))
    notes = (UNEQUAL,) if len(equal) < len(ours) else ()
    return Table(f"{names[1]} less {names[0]}, in points", columns, tuple(rows), notes)
