"""The table of the benchmark: mean errors by kind of stream, cost, and published errors beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean, median

from midway.bench.benchmark import BenchmarkColumn, published_errors
from midway.report.table import OURS, PAPER, Column, Table, Value, mark_column
from midway.report.tidy import ALL, Frame
from midway.streams import Scenario

ERROR = "mean_error"


def benchmark_table(
    frame: Frame,
    benchmark: Mapping[str, BenchmarkColumn],
    *,
    data: str = "cifar10",
    title: str = "",
    notes: Iterable[str] = (),
) -> Table:
    """Return the errors of each label, averaged over the streams of each column, and what a batch costs.

    A label has a value where it has results for all streams of a column; its spread is over the seeds that all streams
    of the column share. Published errors of other networks on the same data follow the columns that have
    some. A backward pass counts as one pass; the time is relative to Source's.
    """
    columns: list[Column] = []
    values: list[dict[str, Value]] = []
    for name, column in benchmark.items():
        errors = _errors(frame, column)
        if not errors:
            continue
        columns.append(Column(None, column.title, ERROR, origin=OURS))
        values.append(mark_column(errors, columns[-1], frame.source))
        for network, published in published_errors(data).get(name, {}).items():
            known = {label: [error] for label, error in published.items() if label in errors}
            if known:
                columns.append(Column(None, f"{column.title}, {network}", ERROR, origin=PAPER))
                values.append(mark_column(known, columns[-1], "source"))
    for metric, costs in (("passes", _passes(frame)), ("time", _times(frame))):
        columns.append(Column(None, "cost", metric, origin=OURS))
        values.append({label: Value(cost, digits=1) for label, cost in costs.items()})
    rows = tuple((label, tuple(column.get(label) for column in values)) for label in frame.unique("label"))
    explained = (
        "error in percent, averaged over the streams of a column; the best in bold; * is worse than Source",
        *(["outliers: the error on the outliers alone"] if any(c.first_shift_only for c in benchmark.values()) else []),
        "passes: forward and backward passes over the batch; time: that of a batch relative to Source's",
        *(
            ["paper: published errors of other networks on all images of the -C data set, for the order alone"]
            if published_errors(data)
            else []
        ),
    )
    return Table(title, tuple(columns), rows, (*explained, *notes), frame.source)


def _errors(frame: Frame, column: BenchmarkColumn) -> dict[str, list[float]]:
    """Return label -> error of each seed, averaged over the streams."""
    scenarios = column.scenarios
    found: dict[str, dict[int, list[float]]] = {}
    for row in frame.where(metric="accuracy", scenario=scenarios):
        wanted = row.scenario.shifts[0] if column.first_shift_only else ALL
        if row.group == wanted:
            found.setdefault(row.label, {}).setdefault(row.seed, []).append(100 - row.value)
    complete = {
        label: [fmean(errors) for _, errors in sorted(by_seed.items()) if len(errors) == len(scenarios)]
        for label, by_seed in found.items()
    }
    return {label: errors for label, errors in complete.items() if errors}


def _passes(frame: Frame) -> dict[str, float]:
    """Return label -> forward and backward passes over the batch, averaged over the streams."""
    passes: dict[str, dict[str, list[float]]] = {}
    for row in frame.where(group=ALL, metric=("forward_passes", "backward_passes")):
        passes.setdefault(row.label, {}).setdefault(row.metric, []).append(row.value)
    return {label: sum(map(fmean, by_metric.values())) for label, by_metric in passes.items()}


def _times(frame: Frame) -> dict[str, float]:
    """Return label -> seconds relative to Source's, the median over streams: other processes disturb some of them."""
    seconds: dict[str, dict[tuple[Scenario, int], float]] = {}
    for row in frame.where(group=ALL, metric="seconds_per_batch"):
        seconds.setdefault(row.label, {})[row.scenario, row.seed] = row.value
    source = seconds.get(frame.source or "", {})
    ratios = {
        label: [value / source[key] for key, value in of_label.items() if key in source]
        for label, of_label in seconds.items()
    }
    return {label: median(each) for label, each in ratios.items() if each}
