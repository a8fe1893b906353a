"""The table of the benchmark: mean errors by kind of stream, cost, and published errors beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean

from midway.bench.benchmark import Streams, published_errors
from midway.report.table import OURS, PAPER, Column, Table, Value, mark_column
from midway.report.tidy import ALL, Frame

ERROR = "mean_error"


def benchmark_table(
    frame: Frame, streams: Mapping[str, Streams], *, title: str = "", notes: Iterable[str] = ()
) -> Table:
    """Return the errors of each label, averaged over the streams of each column, and what a batch costs.

    A label has a value where it has results for all streams of a column; its spread is over the seeds that all streams
    of the column share. Passes are relative to those of Source, a backward pass counts as one.
    """
    columns: list[Column] = []
    values: list[dict[str, Value]] = []
    networks: dict[str, str] = {}
    for name, column in streams.items():
        errors = _errors(frame, column)
        if not errors:
            continue
        columns.append(Column(None, column.title, ERROR, origin=OURS))
        values.append(mark_column(errors, columns[-1], frame.source))
        published = {label: published_errors()[name, label] for label in errors if (name, label) in published_errors()}
        if published:
            networks[column.title] = next(network for network, _ in published.values())
            columns.append(Column(None, column.title, ERROR, origin=PAPER))
            values.append(
                mark_column({label: [error] for label, (_, error) in published.items()}, columns[-1], "source")
            )
    columns.append(Column(None, "cost", "passes", origin=OURS))
    values.append({label: Value(passes, digits=1) for label, passes in _passes(frame).items()})
    rows = tuple((label, tuple(column.get(label) for column in values)) for label in frame.unique("label"))
    explained = (
        "error in percent, averaged over the streams of a column; the best in bold; * is worse than Source",
        "outliers: the error on the outliers alone",
        "passes: forward and backward passes over the batch",
        "paper: published errors of other networks, for the order of the methods alone: "
        + ", ".join([f"{network} ({column})" for column, network in networks.items()]),
    )
    return Table(title, tuple(columns), rows, (*explained, *notes), frame.source)


def _errors(frame: Frame, column: Streams) -> dict[str, list[float]]:
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
