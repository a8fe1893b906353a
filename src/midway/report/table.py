"""The pivot of a frame: labels down, streams and groups across; every table, page and figure is rendered from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from midway.metrics import METRICS
from midway.report.tidy import ALL, IMAGES, Frame
from midway.streams import Scenario

OURS, PAPER, DIFFERENCE = "ours", "paper", "diff."

UNEQUAL = "where some methods have more seeds than others, only the seeds that all have count"

Published = Callable[[str, Scenario, str, str], float | None]
"""The paper's number for a label, a scenario, a group and a metric; None where it reports none."""


@dataclass(frozen=True)
class Value:
    """One number of a table and how it compares with its column.

    Attributes:
        mean: The number; the mean where there are several seeds.
        best: No other method is better.
        below_source: The method is worse than the unadapted source; marked by a star, as in the MITA paper.
        spread: Standard deviation over seeds; None with one seed.
        signed: The number is a difference: its sign is always shown.
        digits: Decimal places.
    """

    mean: float
    best: bool = False
    below_source: bool = False
    spread: float | None = None
    signed: bool = False
    digits: int = 2

    def __str__(self) -> str:
        number = f"{self.mean:{'+' if self.signed else ''}.{self.digits}f}"
        spread = "" if self.spread is None else f" ± {self.spread:.{self.digits}f}"
        return f"{number}{spread}{'*' if self.below_source else ''}"


@dataclass(frozen=True)
class Column:
    """One metric of one group of one scenario.

    Attributes:
        scenario: The scenario.
        group: The group, or ``"all"``.
        metric: Name of the metric.
        images: Number of images; None if it is unknown or differs.
        origin: ``"ours"``, ``"paper"`` or ``"diff."`` where a table compares with the paper; else empty.
    """

    scenario: Scenario
    group: str
    metric: str = "accuracy"
    images: int | None = None
    origin: str = ""


@dataclass(frozen=True)
class Table:
    """Labels by columns; a value is None where a method was not run.

    Example:
        >>> from midway.report import Frame, Row, pivot
        >>> from midway.streams import Scenario
        >>> fog = Scenario.parse("pure:fog")
        >>> rows = [Row("bn", fog, "fog", seed, "accuracy", value) for seed, value in enumerate([70.0, 72.0])]
        >>> table = pivot(Frame(tuple(rows)), title="Fog")
        >>> [(label, str(values[0])) for label, values in table.rows]
        [('bn', '71.00 ± 1.41')]
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Value | None, ...]], ...]
    notes: tuple[str, ...] = ()


def pivot(frame: Frame, *, metrics: Sequence[str] = ("accuracy",), title: str = "", notes: Sequence[str] = ()) -> Table:
    """Arrange the rows of a frame as labels by scenarios, groups and metrics, over the seeds that all methods share.

    A scenario has a column for each of its groups, and one for all images where there are several groups. The best
    value of a column is marked, and so are values worse than Source.

    Args:
        frame: The rows.
        metrics: Names of the metrics to show, for each group of a scenario in this order.
        title: The title of the table.
        notes: Sentences below the table.
    """
    shared = frame.common_seeds()
    seeds: dict[tuple[str, Column], list[float]] = {}
    images: dict[tuple[Scenario, str], set[int]] = {}
    for row in shared.where(metric=IMAGES):
        images.setdefault((row.scenario, row.group), set()).add(int(row.value))
    shown = shared.where(metric=metrics)
    groups: dict[tuple[Scenario, str], set[str]] = {}
    for row in shown:
        groups.setdefault((row.scenario, row.metric), set()).add(row.group)
    for row in shown:
        if row.group == ALL and len(groups[row.scenario, row.metric]) == 2:
            continue  # the only group has all images
        counts = images.get((row.scenario, row.group), set())
        column = Column(row.scenario, row.group, row.metric, min(counts) if len(counts) == 1 else None)
        seeds.setdefault((row.label, column), []).append(row.value)
    columns = _ordered({column for _, column in seeds}, shared, metrics)
    labels = [label for label in shared.unique("label") if any(label == known for known, _ in seeds)]
    marked = [
        _marked({label: seeds[label, column] for label in labels if (label, column) in seeds}, column, frame.source)
        for column in columns
    ]
    rows = tuple((label, tuple(column.get(label) for column in marked)) for label in labels)
    repeats = sorted({len(values) for values in seeds.values()})
    several = bool(repeats) and repeats[-1] > 1
    said = [f"mean ± standard deviation over {' or '.join(map(str, repeats))} seeds"] if several else []
    said += [UNEQUAL] if len(shared) < len(frame) else []
    return Table(title, tuple(columns), rows, (*said, *notes))


def _ordered(columns: set[Column], frame: Frame, metrics: Sequence[str]) -> list[Column]:
    """Sort columns by scenario and group as they appear in the frame, all images last, then by metric."""
    scenarios = {scenario: index for index, scenario in enumerate(frame.unique("scenario"))}
    groups = {group: index for index, group in enumerate(frame.unique("group"))}
    return sorted(
        columns,
        key=lambda column: (
            scenarios[column.scenario],
            column.group == ALL,
            groups[column.group],
            list(metrics).index(column.metric),
        ),
    )


def _marked(values: Mapping[str, Sequence[float]], column: Column, source: str | None) -> dict[str, Value]:
    """Compute means and spreads of one column; compare them at the precision that tables show."""
    metric = METRICS.get(column.metric)
    digits = 2 if metric is None else max(2, metric.digits) if metric.unit == "%" else metric.digits
    sign = {"higher": 1, "lower": -1, None: 0}["higher" if metric is None else metric.better]
    means = {label: fmean(numbers) for label, numbers in values.items()}
    ranked = {label: sign * round(mean, digits) for label, mean in means.items()}
    best, least = max(ranked.values(), default=0.0), ranked.get(source or "", float("-inf"))
    return {
        label: Value(
            mean,
            best=sign != 0 and ranked[label] == best,
            below_source=sign != 0 and ranked[label] < least,
            spread=stdev(values[label]) if len(values[label]) > 1 else None,
            digits=digits,
        )
        for label, mean in means.items()
    }


def beside_paper(table: Table, published: Published) -> Table:
    """Add the paper's numbers and the differences after each column that the paper reports for any method.

    Marks compare the paper's numbers among themselves.
    """
    columns: list[Column] = []
    cells: dict[str, list[Value | None]] = {label: [] for label, _ in table.rows}
    for index, column in enumerate(table.columns):
        ours = {label: values[index] for label, values in table.rows}
        paper = {label: published(label, column.scenario, column.group, column.metric) for label in cells}
        theirs = _marked({label: [value] for label, value in paper.items() if value is not None}, column, "source")
        added: dict[str, Mapping[str, Value | None]] = {OURS: ours}
        if theirs:
            both = [label for label in theirs if ours[label] is not None]
            added[PAPER] = theirs
            added[DIFFERENCE] = {
                label: Value(mine.mean - theirs[label].mean, signed=True)
                for label in both
                if (mine := ours[label]) is not None
            }
        for origin, values in added.items():
            columns.append(replace(column, origin=origin, images=column.images if origin == OURS else None))
            for label, row in cells.items():
                row.append(values.get(label))
    return replace(table, columns=tuple(columns), rows=tuple((label, tuple(row)) for label, row in cells.items()))
