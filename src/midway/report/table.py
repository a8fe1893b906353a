"""The pivot of a frame: labels down, scenarios and groups across; every table, page and figure is rendered from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from midway.metrics import METRICS, average_accuracy, mean_corruption_error
from midway.report.tidy import ALL, IMAGES, Frame
from midway.streams import Scenario
from midway.suggest import unknown

OURS, PAPER, DIFFERENCE = "ours", "paper", "diff."
AVERAGES = "average"
"""The group of columns with means over all corruptions."""

CLEAN = "clean"
FEW_IMAGES = 100
UNEQUAL = "where some methods have more seeds than others, only the seeds that all have count"

Published = Callable[[str, Scenario | None, str, str], float | None]
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
        metric = METRICS.get(self.metric)
        return self.metric if metric is None else metric.title

    @property
    def lower_is_better(self) -> bool:
        """Whether lower values of the metric are better."""
        metric = METRICS.get(self.metric)
        return metric is not None and metric.better == "lower"


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
    source: str | None = None

    def part(self, indices: Sequence[int]) -> Table:
        """Return the table with some of its columns."""
        rows = tuple((label, tuple(values[index] for index in indices)) for label, values in self.rows)
        return replace(self, columns=tuple(self.columns[index] for index in indices), rows=rows)


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
    """
    for name in metrics:
        if name not in METRICS and name not in frame.unique("metric"):
            raise ValueError(unknown("metric", name, METRICS))
    shared = frame.common_seeds()
    images: dict[tuple[Scenario, str], set[int]] = {}
    for row in shared.where(metric=IMAGES):
        images.setdefault((row.scenario, row.group), set()).add(int(row.value))
    shown = shared.where(metric=metrics)
    groups: dict[tuple[Scenario, str], set[str]] = {}
    for row in shown:
        groups.setdefault((row.scenario, row.metric), set()).add(row.group)
    values: dict[tuple[str, Column], list[float]] = {}
    for row in shown:
        if row.group == ALL and len(groups[row.scenario, row.metric]) == 2:
            continue  # the only group has all images
        counts = images.get((row.scenario, row.group), set())
        column = Column(row.scenario, row.group, row.metric, min(counts) if len(counts) == 1 else None)
        values.setdefault((row.label, column), []).append(row.value)
    columns = _ordered({column for _, column in values}, shown, metrics)
    labels = shown.unique("label")
    repeats = sorted({len(numbers) for numbers in values.values()})
    if averages:
        ends = _averages(shared)
        values |= ends
        columns += list(dict.fromkeys(column for _, column in ends))
    marked = [
        _marked(
            {label: values[label, column] for label in labels if (label, column) in values},
            column,
            frame.source,
            signed=signed,
        )
        for column in columns
    ]
    rows = tuple((label, tuple(column.get(label) for column in marked)) for label in labels)
    said = [] if signed else [_marks(metrics)]
    if repeats and repeats[-1] > 1:
        said.append(f"mean ± standard deviation over {' or '.join(map(str, repeats))} seeds")
    said += [UNEQUAL] if len(shared) < len(frame) else []
    return Table(title, tuple(columns), rows, (*said, *notes), frame.source)


def _ordered(columns: set[Column], frame: Frame, metrics: Sequence[str]) -> list[Column]:
    """Sort columns by scenario and group as they appear in the frame, all images last, then by metric."""
    scenarios = {scenario: index for index, scenario in enumerate(frame.unique("scenario"))}
    groups = dict.fromkeys((row.scenario, row.group) for row in frame)
    positions = {key: index for index, key in enumerate(groups)}

    def position(column: Column) -> tuple[int, bool, int, int]:
        assert column.scenario is not None
        group = positions[column.scenario, column.group]
        return scenarios[column.scenario], column.group == ALL, group, list(metrics).index(column.metric)

    return sorted(columns, key=position)


def _marks(metrics: Sequence[str]) -> str:
    first = "accuracy in percent; " if list(metrics) == ["accuracy"] else ""
    return f"{first}the best in bold; * {'falls below' if first else 'is worse than'} the unadapted Source"


def _marked(
    values: Mapping[str, Sequence[float]], column: Column, source: str | None, *, signed: bool = False
) -> dict[str, Value]:
    """Compute means and spreads of one column; compare them at the precision that tables show."""
    metric = METRICS.get(column.metric)
    digits = 2 if metric is None else max(2, metric.digits) if metric.unit == "%" else metric.digits
    better = None if signed else "higher" if metric is None else metric.better
    sign = {"higher": 1, "lower": -1, None: 0}[better]
    means = {label: fmean(numbers) for label, numbers in values.items()}
    ranked = {label: sign * round(mean, digits) for label, mean in means.items()}
    best = max((rank for rank in ranked.values() if not math.isnan(rank)), default=0.0)
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


def _averages(frame: Frame) -> dict[tuple[str, Column], list[float]]:
    """Compute mean accuracy and mCE over pure streams, for each label and seed with all corruptions that Source has.

    Clean images are not a corruption. mCE is not defined where Source makes no mistake under some corruption. Seeds
    that some stream lacks do not count.
    """
    pure = [row for row in frame.where(metric="accuracy") if row.scenario.kind == "pure" and row.group != ALL]
    pure = [row for row in pure if row.group != CLEAN]
    by_scenario: dict[Scenario, set[int]] = {}
    accuracies: dict[tuple[str, int], dict[str, dict[Scenario, float]]] = {}
    for row in pure:
        by_scenario.setdefault(row.scenario, set()).add(row.seed)
        accuracies.setdefault((row.label, row.seed), {}).setdefault(row.group, {})[row.scenario] = row.value
    if len({row.group for row in pure}) < 3:
        return {}
    seeds = set.intersection(*by_scenario.values())
    values: dict[tuple[str, Column], list[float]] = {}
    for (label, seed), ours in accuracies.items():
        theirs = accuracies.get((frame.source or "", seed), {})
        complete = {group: set(each) for group, each in ours.items()} == {g: set(each) for g, each in theirs.items()}
        if seed not in seeds or not complete or len({len(each) for each in ours.values()}) > 1:
            continue
        mine, source = ({group: list(each.values()) for group, each in rows.items()} for rows in (ours, theirs))
        mean = Column(None, AVERAGES, "mean_accuracy")
        values.setdefault((label, mean), []).append(average_accuracy(mine))
        if all(min(each) < 100 for each in source.values()):
            mce = Column(None, AVERAGES, "mce")
            values.setdefault((label, mce), []).append(mean_corruption_error(mine, source))
    return values


def few_images(table: Table) -> list[str]:
    """Return a note on columns with so few images that one of them counts several points."""
    few = sorted({column.images for column in table.columns if column.images and column.images < FEW_IMAGES})
    if not few:
        return []
    return [f"columns with only {', '.join(map(str, few))} images change in steps of {100 / few[0]:.0f} points"]


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
