"""Our numbers beside those of the MITA paper, and the table of complexity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from midway.bench import paper
from midway.bench.suites import Line
from midway.cost import Cost
from midway.data import corruption_names
from midway.report.table import CLEAN, OURS, PAPER, Column, Published, Table, Value, beside_paper, pivot
from midway.report.tidy import Frame
from midway.streams import Scenario


def published_in(data: str | None) -> Published:
    """Return a function that looks up the paper's numbers for one of its data sets.

    Args:
        data: ``"cifar10c"``, ``"cifar100c"``, or None for data that the paper did not use.

    Example:
        >>> from midway.report.paper import published_in
        >>> from midway.streams import Scenario
        >>> published_in("cifar10c")("mita", Scenario.parse("mixture:pixelate/shot_noise@0.5"), "all", "accuracy")
        75.56
        >>> published_in("cifar100c")("tea", None, "average", "mce")
        56.07
    """
    ends = {row.method: {"mean_accuracy": row.accuracy, "mce": row.mce} for row in paper.averages() if row.data == data}

    def look_up(label: str, scenario: Scenario | None, group: str, metric: str) -> float | None:
        if data is None:
            return None
        if scenario is None:
            return ends.get(label, {}).get(metric)
        if metric != "accuracy" or scenario.severity != 5:
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
    """Return ours, the paper's and the difference; pure streams end with mean accuracy and mCE.

    Args:
        frame: Our rows.
        data: The data set of the paper that ours compares to, or None.
        title: The title.
        notes: Sentences below the table.
        metrics: Names of the metrics to show; the paper reports the accuracy.

    Example:
        >>> from midway.report import Frame, Row
        >>> from midway.report.paper import paper_table
        >>> from midway.streams import Scenario
        >>> rows = (Row("source", Scenario.parse("pure:fog"), "fog", 0, "accuracy", 70.0),)
        >>> table = paper_table(Frame(rows, "source"), data="cifar10c")
        >>> [str(value) for value in table.rows[0][1]]
        ['70.00', '73.98', '-3.98']
    """
    scenarios = frame.unique("scenario")
    pure = {scenario for scenario in scenarios if scenario.kind == "pure" and scenario.shifts != (CLEAN,)}
    complete = pure == {
        Scenario("pure", (name,)) for name in corruption_names("benchmark")
    }  # the paper's averages are over all fifteen
    known = published_in(data)

    def published(label: str, scenario: Scenario | None, group: str, metric: str) -> float | None:
        return None if scenario is None and not complete else known(label, scenario, group, metric)

    table = pivot(frame, metrics=metrics, title=title, notes=notes, averages=True)
    return beside_paper(table, published)


def complexity_table(title: str, lines: Sequence[Line], *, notes: Iterable[str] = ()) -> Table:
    """Return the table of complexity: the paper's count for our network and for its own, then the true cost.

    Example:
        >>> import torch
        >>> from midway import models
        >>> from midway.bench.suites import measure_complexity
        >>> from midway.report.paper import complexity_table
        >>> lines = measure_complexity(models.create("resnet20"), torch.rand(4, 3, 32, 32), only=["source"])
        >>> table = complexity_table("Cost", lines)
        >>> [str(value) for value in table.rows[0][1][3:8]]
        ['0.04', '5.25', '0.08', '1.00', '0.00']
    """
    of_line: dict[Column, Callable[[Line], float | None]] = {
        _column("weights", "million parameters", OURS): _of_cost(lambda cost: cost.parameters / 1e6),
        _column("weights", "million parameters", PAPER): _of_paper(lambda row: row.million_parameters),
        _column("weights", "thousand trainable", OURS): _of_cost(lambda cost: cost.trainable_parameters / 1e3),
        _column("as published", "GFLOPs an image", OURS): lambda line: line.gflops_as_published,
        _column("as published", "GFLOPs an image", PAPER): _of_paper(lambda row: row.gflops),
        _column("true cost", "GFLOPs an image", OURS): _of_cost(lambda cost: cost.gflops_per_image),
        _column("true cost", "forward passes", OURS): _of_cost(lambda cost: cost.forward_passes),
        _column("true cost", "backward passes", OURS): _of_cost(lambda cost: cost.backward_passes),
        _column("a batch", "seconds", OURS): _of_cost(lambda cost: cost.seconds),
        _column("a batch", "seconds", PAPER): _of_paper(lambda row: row.seconds),
        _column("a batch", "peak MB", OURS): _of_cost(lambda cost: cost.peak_memory_mb),
    }
    rows = []
    for line in lines:
        values = [read(line) for read in of_line.values()]
        rows.append((line.label, tuple(None if value is None else Value(value) for value in values)))
    explained = (
        "as published: forward passes only, a multiply-add is one operation; the paper's are for WRN-28-10",
        "true cost: forward and backward passes, a multiply-add is two operations, as torch counts",
        "the paper's seconds are for 200 images on an A800",
        "the paper counts the weights of MITA's second model in full; ours counts frozen weights of both models once",
    )
    return Table(title, tuple(of_line), tuple(rows), (*explained, *notes))


def _column(group: str, metric: str, origin: str) -> Column:
    return Column(None, group, metric, origin=origin)


def _of_cost(read: Callable[[Cost], float | None]) -> Callable[[Line], float | None]:
    return lambda line: None if line.cost is None else read(line.cost)


def _of_paper(read: Callable[[paper.Complexity], float]) -> Callable[[Line], float | None]:
    return lambda line: None if line.published is None else read(line.published)
