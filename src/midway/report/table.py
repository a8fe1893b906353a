"""The pivot of a frame: labels down, scenarios and groups across; every table, page and figure is rendered from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean, stdev

from midway._suggest import unknown
from midway.metrics import METRICS, Heading, average_accuracy, mean_corruption_error
from midway.report.tidy import ALL, IMAGES, Frame
from midway.streams import Scenario

OURS, PAPER, DIFFERENCE = "ours", "paper", "diff."
AVERAGES = "average"
"""The group of columns with means over all corruptions."""

AGGREGATES = {
    "mean_accuracy": Heading(title="mean accuracy", unit="%", better="higher", digits=2),
    "mean_error": Heading(title="mean error", unit="%", better="lower", digits=2),
    "mce": Heading(title="mCE", unit="%", better="lower", digits=2),
}
"""What tables compute from the accuracies of several streams -> how it is shown."""

CLEAN = "clean"
UNEQUAL = "where some methods have more seeds than others, only the seeds that all have count"

Published = Callable[[str, Scenario | None, str, str], float | None]
"""The paper's number for a label, a scenario, a group and a metric; None where it reports none."""


def find_heading(name: str) -> Heading | None:
    """Return how a metric or an aggregate is shown; None for other names."""
    heading: Heading | None = METRICS.get(name, AGGREGATES.get(name))
    return heading


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

    @property
    def number(self) -> str:
        """The mean, rounded."""
        return f"{self.mean:{'+' if self.signed else ''}.{self.digits}f}"

    def __str__(self) -> str:
        spread = "" if self.spread is None else f" ± {self.spread:.{self.digits}f}"
        return f"{self.number}{spread}{'*' if self.below_source else ''}"


@dataclass(frozen=True)
class Column:
    """One metric of one group of one scenario.

    Attributes:
        scenario: The scenario; None for a column that is not about one scenario, such as a mean over all corruptions.
        group: The group of images, ``"all"``, or the heading of a column without a scenario.
        metric: Name of the metric.
        images: Number of images; None if it is unknown or differs.
        origin: ``"ours"``, ``"paper"`` or ``"diff."`` where a table compares with the paper; else empty.
    """

    scenario: Scenario | None
    group: str
    metric: str = "accuracy"
    images: int | None = None
    origin: str = ""

    @property
    def stream(self) -> str:
        """The scenario as text, or the heading of a column without a scenario."""
        return self.group if self.scenario is None else str(self.scenario)

    @property
    def metric_title(self) -> str:
        """The heading of the metric."""
        heading = find_heading(self.metric)
        return self.metric if heading is None else heading.title

    @property
    def lower_is_better(self) -> bool:
        """Whether lower values of the metric are better."""
        heading = find_heading(self.metric)
        return heading is not None and heading.better == "lower"


@dataclass(frozen=True)
class Table:
    """Labels by columns; a value is None where a method was not run.

    Attributes:
        title: The title.
        columns: The columns.
        rows: Label and values, one for each column.
        notes: Sentences below the table.
        source: The label of the unadapted network; None if it was not run.

    Example:
        >>> from midway.report import Column, Table, Value
        >>> table = Table("Mean", (Column(None, "mean"),), (("bn", (Value(71.0, spread=1.414),)),))
        >>> [(label, str(values[0])) for label, values in table.rows]
        [('bn', '71.00 ± 1.41')]
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Value | None, ...]], ...]
    notes: tuple[str, ...] = ()
    source: str | None = None

    def part(self, indices: Sequence[int]) -> Table:
        """Return the table with some of its columns."""
        rows = [(label, tuple([values[index] for index in indices])) for label, values in self.rows]
        return replace(self, columns=tuple([self.columns[index] for index in indices]), rows=tuple(rows))


def pivot(
    frame: Frame,
    *,
    metrics: Sequence[str] = ("accuracy",),
    title: str = "",
    notes: Iterable[str] = (),
    averages: bool = False,
    signed: bool = False,
) -> Table:
    """Arrange the rows of a frame as labels by scenarios, groups and metrics, over the seeds that all methods share.

    A scenario has a column for each of its groups, and one for all images where there are several groups. The best
    value of a column is marked, and so are values worse than Source.

    Args:
        frame: The rows.
        metrics: Names of the metrics to show, for each group of a scenario in this order.
        title: The title of the table.
        notes: Sentences below the table.
        averages: End with mean accuracy and mCE where three corruptions or more are pure streams.
        signed: The values are differences: they have a sign and no marks.

    Raises:
        ValueError: A metric is neither registered nor in the frame.

    Example:
        >>> from midway.report import frame, pivot, to_markdown
        >>> from midway.bench import Grid, LocalEngine
        >>> cells = Grid.from_dict({"methods": "source", "images": 100, "batch_sizes": 50}).cells()
        >>> table = pivot(frame(LocalEngine().run(cells)), metrics=["accuracy", "nll"])
        >>> [(column.group, column.metric) for column in table.columns]
        [('gaussian_noise', 'accuracy'), ('gaussian_noise', 'nll')]
    """
    for name in metrics:
        if name not in METRICS and name not in frame.unique("metric"):
            raise ValueError(unknown("metric", name, METRICS))
    shared = frame.common_seeds()
    images: dict[tuple[Scenario, str], set[int]] = {}
    groups: dict[tuple[Scenario, str], set[str]] = {}
    shown = []
    for row in shared.rows:
        if row.metric == IMAGES:
            images.setdefault((row.scenario, row.group), set()).add(int(row.value))
        if row.metric in metrics:
            groups.setdefault((row.scenario, row.metric), set()).add(row.group)
            shown.append(row)
    values: dict[Column, dict[str, list[float]]] = {}
    scenarios: dict[Scenario, int] = {}
    order: dict[tuple[Scenario, str], int] = {}
    positions: dict[Column, tuple[int, bool, int, int]] = {}  # all images after the groups, then by metric
    for row in shown:
        first = scenarios.setdefault(row.scenario, len(scenarios))
        second = order.setdefault((row.scenario, row.group), len(order))
        if row.group == ALL and len(groups[row.scenario, row.metric]) == 2:
            continue  # the only group has all images
        counts = images.get((row.scenario, row.group), set())
        column = Column(row.scenario, row.group, row.metric, min(counts) if len(counts) == 1 else None)
        positions[column] = (first, row.group == ALL, second, metrics.index(row.metric))
        values.setdefault(column, {}).setdefault(row.label, []).append(row.value)
    repeats = sorted({len(numbers) for by_label in values.values() for numbers in by_label.values()})
    columns = sorted(values, key=positions.__getitem__)
    if averages:
        means = _averages(shared)
        values |= means
        columns += means
    marked = [mark_column(values[column], column, frame.source, signed=signed) for column in columns]
    labels = dict.fromkeys([row.label for row in shown])
    rows = tuple([(label, tuple([column.get(label) for column in marked])) for label in labels])
    only = "accuracy in percent; " if list(metrics) == ["accuracy"] else ""
    explained = f"{only}the best in bold; * {'falls below' if only else 'is worse than'} the unadapted Source"
    said = [] if signed else [explained]
    if repeats and repeats[-1] > 1:
        said.append(f"mean ± standard deviation over {' or '.join(map(str, repeats))} seeds")
    said += [UNEQUAL] if len(shared.rows) < len(frame.rows) else []
    return Table(title, tuple(columns), rows, (*said, *notes), frame.source)


def mark_column(
    values: Mapping[str, Sequence[float]], column: Column, source: str | None, *, signed: bool = False
) -> dict[str, Value]:
    """Compute means and spreads of one column; compare them at the precision that tables show."""
    metric = find_heading(column.metric)
    digits = 2 if metric is None else max(2, metric.digits) if metric.unit == "%" else metric.digits
    better = None if signed else "higher" if metric is None else metric.better
    sign = {"higher": 1, "lower": -1, None: 0}[better]
    means = {label: fmean(numbers) for label, numbers in values.items()}
    ranked = {label: sign * round(mean, digits) for label, mean in means.items()}
    best = max([rank for rank in ranked.values() if not math.isnan(rank)], default=0.0)
    least = ranked.get(source or "", float("-inf"))
    return {
        label: Value(
            mean,
            best=sign != 0 and ranked[label] == best,
            below_source=sign != 0 and ranked[label] < least,
            spread=stdev(values[label]) if len(values[label]) > 1 else None,
            signed=signed,
            digits=digits,
        )
        for label, mean in means.items()
    }


def _averages(frame: Frame) -> dict[Column, dict[str, list[float]]]:
    """Compute mean accuracy and mCE over pure streams, for each label and seed with all corruptions that Source has.

    Clean images are not a corruption. mCE is not defined where Source makes no mistake under some corruption. Seeds
    that some stream lacks do not count.
    """
    by_scenario: dict[Scenario, set[int]] = {}
    accuracies: dict[tuple[str, int], dict[str, dict[Scenario, float]]] = {}
    corruptions = set()
    for row in frame.rows:
        if row.metric == "accuracy" and row.scenario.kind == "pure" and row.group not in (ALL, CLEAN):
            corruptions.add(row.group)
            by_scenario.setdefault(row.scenario, set()).add(row.seed)
            accuracies.setdefault((row.label, row.seed), {}).setdefault(row.group, {})[row.scenario] = row.value
    if len(corruptions) < 3:
        return {}
    seeds = set.intersection(*by_scenario.values())
    mean, mce = Column(None, AVERAGES, "mean_accuracy"), Column(None, AVERAGES, "mce")
    values: dict[Column, dict[str, list[float]]] = {}
    for (label, seed), ours in accuracies.items():
        theirs = accuracies.get((frame.source or "", seed), {})
        complete = {group: set(each) for group, each in ours.items()} == {g: set(each) for g, each in theirs.items()}
        if seed not in seeds or not complete or len({len(each) for each in ours.values()}) > 1:
            continue
        mine, source = ({group: list(each.values()) for group, each in rows.items()} for rows in (ours, theirs))
        values.setdefault(mean, {}).setdefault(label, []).append(average_accuracy(mine))
        if all(min(each) < 100 for each in source.values()):
            values.setdefault(mce, {}).setdefault(label, []).append(mean_corruption_error(mine, source))
    return values


def beside_paper(table: Table, published: Published) -> Table:
    """Add the paper's numbers and the differences after each column that the paper reports for any method.

    Marks compare the paper's numbers among themselves.

    Example:
        >>> from midway.report import Frame, Row, beside_paper, pivot
        >>> from midway.streams import Scenario
        >>> table = pivot(Frame((Row("bn", Scenario.parse("pure:fog"), "fog", 0, "accuracy", 70.0),)))
        >>> [str(value) for value in beside_paper(table, lambda *key: 71.5).rows[0][1]]
        ['70.00', '71.50', '-1.50']
    """
    columns: list[Column] = []
    cells: dict[str, list[Value | None]] = {label: [] for label, _ in table.rows}
    for index, column in enumerate(table.columns):
        ours = {label: values[index] for label, values in table.rows}
        paper = {label: published(label, column.scenario, column.group, column.metric) for label in cells}
        theirs = mark_column({label: [value] for label, value in paper.items() if value is not None}, column, "source")
        added: dict[str, Mapping[str, Value | None]] = {OURS: ours}
        if theirs:
            both = {label: mine for label in theirs if (mine := ours[label]) is not None}
            added[PAPER] = theirs
            added[DIFFERENCE] = {
                label: Value(mine.mean - theirs[label].mean, signed=True) for label, mine in both.items()
            }
        for origin, values in added.items():
            columns.append(replace(column, origin=origin, images=column.images if origin == OURS else None))
            for label, row in cells.items():
                row.append(values.get(label))
    return replace(table, columns=tuple(columns), rows=tuple((label, tuple(row)) for label, row in cells.items()))


def split_columns(table: Table, *, at_most: int = 9) -> list[Table]:
    """Split a wide table into tables of a few columns, never within a group; a table of one scenario is named after it.

    The columns of a scenario stay together if they fit.

    Example:
        >>> from midway.report import Column, Table, Value, split_columns
        >>> columns = tuple(Column(None, f"column_{number}") for number in range(3))
        >>> wide = Table("Wide", columns, (("tent", (Value(1.0), Value(2.0), Value(3.0))),))
        >>> [len(part.columns) for part in split_columns(wide, at_most=2)]
        [2, 1]
    """
    return split_by_size(table, [1.0] * len(table.columns), at_most)


def split_by_size(table: Table, sizes: Sequence[float], limit: float) -> list[Table]:
    """Join neighbouring scenarios, or groups of a scenario that is too large, until they would exceed a limit."""
    parts: list[list[int]] = []
    used = 0.0
    for _, stream in groupby(range(len(table.columns)), [column.stream for column in table.columns].__getitem__):
        block = list(stream)
        blocks = [block]
        if sum([sizes[index] for index in block]) > limit:
            by_group = groupby(block, key=lambda index: replace(table.columns[index], images=None, origin=""))
            blocks = [list(indices) for _, indices in by_group]
        for block in blocks:
            size = sum([sizes[index] for index in block])
            if parts and used + size <= limit:
                parts[-1] += block
                used += size
            else:
                parts.append(block)
                used = size
    tables = []
    for number, indices in enumerate(parts, start=1):
        part = table.part(indices)
        streams = {column.stream for column in part.columns}
        title = f"{table.title}, {streams.pop()}" if len(streams) == 1 else table.title
        rows = tuple([row for row in part.rows if any(row[1])])
        tables.append(replace(part, title=title, rows=rows, notes=table.notes if number == len(parts) else ()))
    return tables
