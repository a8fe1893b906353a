"""Our numbers beside those of the MITA paper, and the table of complexity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from midway.bench import paper
from midway.bench.suites import ComplexityRow
from midway.data import corruption_names
from midway.report.table import CLEAN, OURS, PAPER, Column, Published, Table, Value, beside_paper, pivot
from midway.report.tidy import Frame
from midway.streams import Scenario


def published_in(data: str | None, *, averages: bool = True) -> Published:
    """Return a function that looks up the paper's numbers for ``"cifar10c"``, ``"cifar100c"``, or None of its data."""
    ends = {row.method: {"mean_accuracy": row.accuracy, "mce": row.mce} for row in paper.averages() if row.data == data}

    def look_up(label: str, scenario: Scenario | None, group: str, metric: str) -> float | None:
        if scenario is None:
            return ends.get(label, {}).get(metric) if averages else None
        if data is None or metric != "accuracy" or scenario.severity != 5:
            return None
        return paper.accuracy(shifts=scenario.shifts, ratio=scenario.amount, method=label, group=group, data=data)

    return look_up


def paper_table(
    frame: Frame,
    *,
    data: str | None,
    title: str = "",
    notes: Iterable[str] = (),
    metrics: Sequence[str] = ("accuracy",),
) -> Table:
    """Return ours, the paper's for one of its data sets or None, and the difference; pure streams end with averages."""
    scenarios = frame.unique("scenario")
    pure = {scenario for scenario in scenarios if scenario.kind == "pure" and scenario.shifts != (CLEAN,)}
    complete = pure == {Scenario("pure", (name,)) for name in corruption_names("benchmark")}
    table = pivot(frame, metrics=metrics, title=title, notes=notes, averages=True)
    return beside_paper(table, published_in(data, averages=complete))  # the paper's averages are over all fifteen


COMPLEXITY = (
    ("weights", "million parameters", OURS),
    ("weights", "million parameters", PAPER),
    ("weights", "thousand trainable", OURS),
    ("as published", "GFLOPs per image", OURS),
    ("as published", "GFLOPs per image", PAPER),
    ("true cost", "GFLOPs per image", OURS),
    ("true cost", "forward passes", OURS),
    ("true cost", "backward passes", OURS),
    ("a batch", "seconds", OURS),
    ("a batch", "seconds", PAPER),
    ("a batch", "peak MB", OURS),
)
"""Columns of the table of complexity."""


def complexity_table(title: str, lines: Sequence[ComplexityRow]) -> Table:
    """Return the table of complexity: the paper's count for our network and for its own, then the true cost."""
    rows = []
    for line in lines:
        ours: list[float | None] = [None] * 7
        theirs: list[float | None] = [None] * 3
        if (cost := line.cost) is not None:
            ours = [cost.parameters / 1e6, cost.trainable_parameters / 1e3, cost.gflops_per_image]
            ours += [cost.forward_passes, cost.backward_passes, cost.seconds, cost.peak_memory_mb]
        if (published := line.published) is not None:
            theirs = [published.million_parameters, published.gflops, published.seconds]
        values = [ours[0], theirs[0], ours[1], line.gflops_as_published, theirs[1], *ours[2:6], theirs[2], ours[6]]
        rows.append((line.label, tuple(None if value is None else Value(value) for value in values)))
    columns = tuple(Column(None, group, metric, origin=origin) for group, metric, origin in COMPLEXITY)
    explained = (
        "as published: forward passes only, a multiply-add is one operation; the paper's are for WRN-28-10",
        "true cost: forward and backward passes, a multiply-add is two operations, as torch counts",
        "the paper's seconds are for 200 images on an A800",
        "the paper counts the weights of MITA's second model in full; ours counts frozen weights of both models once",
    )
    return Table(title, columns, tuple(rows), explained)
