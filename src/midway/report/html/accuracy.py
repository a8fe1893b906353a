"""The page's tables of accuracies, as plain data: one for each kind of stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from midway.bench import Result
from midway.report.common_seeds import UNEQUAL, common_seeds
from midway.report.labels import stream_title
from midway.report.paper_tables import CLEAN, averages, measured
from midway.report.side_by_side import side_by_side, split_columns
from midway.report.standings import kind_of
from midway.report.tables import Table

MOST_COLUMNS = 18
"""Of a table in the page; wider ones are cut, so that they can be printed."""

MARKS = "accuracy in percent; the best in bold; * falls below the unadapted Source"


def accuracy_tables(results: Sequence[Result]) -> list[Table]:
    """Arrange results as methods by streams and groups; means are over seeds that all methods of a stream have.

    Three pure streams or more end with mean accuracy and mCE, over the seeds that all of these streams have.

    Example:
        >>> from midway.bench import Result
        >>> from midway.report.html.accuracy import accuracy_tables
        >>> def of(label, seed, accuracy):
        ...     groups, images = {"fog": accuracy}, {"fog": 8}
        ...     return Result(label, label, {}, "pure:fog", 8, accuracy, groups, images, (), 0.5, seed=seed)
        >>> (table,) = accuracy_tables([of("bn", 0, 60.0), of("bn", 1, 70.0), of("tent", 0, 65.0)])
        >>> [(label, str(cell)) for label, (cell,) in table.rows]
        [('bn', '60.00'), ('tent', '65.00')]
    """
    made = []
    for kind in dict.fromkeys(kind_of(result.stream) for result in results):
        here = [result for result in results if kind_of(result.stream) == kind]
        equal = common_seeds(here)
        numbers = [number for result in equal for number in measured(result)]
        seeds: dict[str, set[int]] = {}
        for number in numbers:
            seeds.setdefault(number.stream, set()).add(number.seed)
        groups = {number.group for number in numbers}
        source = next((result.label for result in results if result.is_unadapted), "source")
        ends = []
        if kind == "pure" and len(groups - {CLEAN}) > 2:
            whole = set.intersection(*seeds.values())
            ends = averages([number for number in numbers if number.seed in whole], source=source)
        counts = sorted({len(each) for each in seeds.values()})
        spread = [f"mean ± standard deviation over {' or '.join(map(str, counts))} seeds"] if max(counts) > 1 else []
        title = stream_title(next(iter(seeds))) if len(seeds) == 1 and len(groups) > 1 else kind
        notes = [MARKS, *spread, *([UNEQUAL] if len(equal) < len(here) else [])]
        title = title[:1].upper() + title[1:]
        made.append(side_by_side(title, [*numbers, *ends], lambda *_: None, notes=notes, source=source))
    return made


def cut(table: Table) -> list[Table]:
    """Cut a table into parts that can be printed, numbered if there are several."""
    parts = split_columns(table, at_most=MOST_COLUMNS)
    if len(parts) == 1:
        return [table]
    return [
        replace(part, title=f"{table.title}, part {number} of {len(parts)}")
        for number, part in enumerate(parts, start=1)
    ]
