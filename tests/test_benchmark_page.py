"""The page of the benchmark follows from its stored runs."""

from __future__ import annotations

import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import benchmark_text
import pytest
import write_benchmark
from benchmark_orders import compare_orders, difference, errors_by_part, ranking

from midway.bench import Grid, Record, read_records
from midway.bench.benchmark import COLUMNS, BenchmarkColumn, benchmark_cells, benchmark_entries
from midway.report import Column, Frame, Row, Table, Value
from midway.report.benchmark import benchmark_table
from midway.report.table import OURS, PAPER

FOLDER = Path(__file__).parents[1] / "docs" / "results"
RUNS = [run for run in (write_benchmark.RUN, write_benchmark.GROUP_NORM_RUN) if (FOLDER / run).is_dir()]


def test_the_page_is_made_from_the_stored_runs(tmp_path: Path) -> None:
    for run in RUNS:
        shutil.copytree(FOLDER / run, tmp_path / "results" / run)
    write_benchmark.main(tmp_path / "results")
    assert (tmp_path / "benchmark.md").read_text() == (FOLDER.parent / "benchmark.md").read_text()


def test_stored_runs_are_cells_of_the_benchmark_and_did_not_fail() -> None:
    records = read_records(FOLDER / write_benchmark.RUN)
    for images, precision in {(record.cell.images, record.cell.precision) for record in records}:
        grid = Grid(methods=benchmark_entries(), data=("cifar10",), images=images, precision=precision, device="cpu")
        keys = {cell.key for cell in benchmark_cells(grid, COLUMNS)}
        stored = {r.cell.key for r in records if (r.cell.images, r.cell.precision) == (images, precision)}
        assert stored <= keys
    for record in [record for run in RUNS for record in read_records(FOLDER / run)]:
        assert record.failure is None
        assert not any(Path(text).is_absolute() for text in (record.cell.network, record.cell.root or ""))


def write_records(path: Path, records: list[Record]) -> None:
    path.mkdir(parents=True)
    (path / "results.jsonl").write_bytes(b"".join(record.to_line() for record in records))


def with_precision(record: Record, precision: str, *, accuracy: float = 0.0) -> Record:
    """The record of another precision, its accuracies that many points higher."""
    assert record.result is not None
    result = record.result
    metrics = {**result.metrics, "accuracy": result.accuracy + accuracy}
    return replace(record, cell=replace(record.cell, precision=precision), result=replace(result, metrics=metrics))


def test_precisions_never_mix_and_the_larger_run_has_the_table(tmp_path: Path) -> None:
    stored, _ = write_benchmark.by_precision(read_records(FOLDER / write_benchmark.RUN))
    plain = [with_precision(record, "float32") for record in stored if record.cell.images == 600]
    few = [r for r in plain if r.cell.label in ("source", "bn") and r.cell.scenario.kind == "continual"]
    coarse = [with_precision(record, "bf16", accuracy=-1.0) for record in few]
    lone = [with_precision(r, "bf16") for r in plain if r.cell.label == "tent" and r.cell.scenario.kind == "mixed"]
    write_records(tmp_path / "a" / "results" / "benchmark", [*few, *coarse, *lone])
    write_benchmark.main(tmp_path / "a" / "results")
    page = (tmp_path / "a" / "benchmark.md").read_text()
    assert "--images 600 --precision bf16 --out" in page
    assert page.count("## 600 images") == 1
    assert "compute in bf16" in page
    assert "2 of these cells were also run in float32: the errors differ by 1.00 points in the mean" in page
    errors = {r.cell.label: 100 - r.result.accuracy for r in coarse if r.result is not None}
    assert f"| source | {errors['source']:.1f} |" in page
    assert f"| bn | **{errors['bn']:.1f}** |" in page
    write_records(tmp_path / "b" / "results" / "benchmark", [*few, *coarse[:1]])
    write_benchmark.main(tmp_path / "b" / "results")
    page = (tmp_path / "b" / "benchmark.md").read_text()
    assert "--precision" not in page
    assert "1 of these cells were also run in bf16" in page


FOG = BenchmarkColumn("fog", ("continual:fog+snow+frost",))


def rows_by_hand(**accuracies: tuple[float, ...]) -> Frame:
    (scenario,) = FOG.scenarios
    return Frame(
        tuple(
            Row(label, scenario, group, 0, "accuracy", value)
            for label, values in accuracies.items()
            for group, value in zip(("fog", "snow", "frost", "all"), (*values, fmean(values)), strict=True)
        )
    )


def test_differences_are_paired_over_corruptions() -> None:
    """b is 1, 2 and 3 points worse than a: 2 in the mean, with a standard error of 1 / sqrt 3; c is 5, -5 and 3."""
    errors = errors_by_part(rows_by_hand(a=(90, 50, 70), b=(89, 48, 67), c=(85, 55, 67)), FOG)
    found = difference(errors, "a", "b")
    assert found == pytest.approx((2.0, 1 / math.sqrt(3)))
    assert found.is_clear
    assert not difference(errors, "a", "c").is_clear
    assert difference(errors, "b", "a").mean == pytest.approx(-2)
    single = {label: dict(list(parts.items())[:1]) for label, parts in errors.items()}
    assert not difference(single, "a", "b").is_clear


def test_parts_are_corruptions_streams_or_outliers() -> None:
    pair = BenchmarkColumn("pairs", ("outlier:fog/snow@0.5", "outlier:snow/fog@0.5"), first_shift_only=True)
    rows = [
        Row("a", scenario, group, 0, "accuracy", value)
        for scenario in pair.scenarios
        for group, value in (("fog", 10.0), ("snow", 20.0), ("all", 15.0))
    ]
    assert sorted(errors_by_part(Frame(tuple(rows)), pair)["a"].values()) == [80.0, 90.0]
    assert errors_by_part(Frame(tuple(rows[:3])), pair) == {}  # a stream is missing
    both = pair._replace(first_shift_only=False)
    assert sorted(errors_by_part(Frame(tuple(rows)), both)["a"].values()) == [85.0, 85.0]


def test_orders_by_hand() -> None:
    rows = rows_by_hand(a=(90, 50, 70), b=(89, 48, 67), c=(85, 55, 67), d=(60, 20, 41))
    errors = errors_by_part(rows, FOG)
    orders = compare_orders(errors, {"a": 3.0, "b": 2.0, "c": 1.0, "d": 9.0, "other": 0.0})
    assert orders.turned == [("a", "b")]
    assert orders.close == [("a", "c"), ("b", "c")] or orders.close == [("a", "c"), ("c", "b")]
    assert orders.same == [("a", "d"), ("b", "d"), ("c", "d")]
    assert sum(map(len, compare_orders(errors, {"a": 2.0, "b": 2.0}))) == 0  # published as equal
    assert ranking({"x": 3.0, "y": 1.0}) == "y, x"


def test_tables_by_hand() -> None:
    columns = (
        Column(None, "mixed", "mean_error", origin=OURS),
        Column(None, "mixed, R-18", "mean_error", origin=PAPER),
        Column(None, "cost", "passes", origin=OURS),
        Column(None, "cost", "time", origin=OURS),
    )
    rows = (
        ("source", (Value(50.0), Value(40.0), Value(1.0), Value(1.0))),
        ("bn", (Value(55.0, below_source=True), Value(30.0, best=True), None, None)),
        ("own", (Value(45.0, best=True), None, Value(2.0), Value(9.0))),
    )
    table = Table("", columns, rows)
    assert write_benchmark.errors_table(table).splitlines()[2:] == [
        "| source | 50.0 | 1.0 |",
        "| bn | 55.0* | - |",
        "| own | **45.0** | 2.0 |",
    ]
    assert write_benchmark.order_table(table).splitlines() == [
        "| | mixed, here | mixed, R-18 |",
        "| --- | ---: | ---: |",
        "| source | 50.0 | 40.0 |",
        "| bn | 55.0* | **30.0** |",
    ]
    assert "correlated, outliers, mixtures, pl, " in write_benchmark.missing(table)


def test_the_passage_on_the_order_is_computed() -> None:
    errors = {"source": 52.0, "bn": 20.7, "tent": 20.2, "roid": 20.2, "cmf": 20.2, "rotta": 44.6}
    scenarios = [COLUMNS[key].scenarios[0] for key in ("continual", "mixed")]
    rows = Frame(
        tuple(
            Row(label, scenario, group, 0, "accuracy", 100 - error - (number % 2) * (label == "bn"))
            for scenario in scenarios
            for label, error in errors.items()
            for number, group in enumerate(("all", *scenario.shifts))
        ),
        source="source",
    )
    continual, mixed = write_benchmark.orders(benchmark_table(rows, COLUMNS), rows)
    assert continual.startswith(
        "- continual, WRN-28-10, published: roid, rotta, tent, bn, source. Here: tent, roid, bn,"
    )
    assert "Pairs in the published order: 7 of 10; too close to tell: 1; " in continual  # tent and roid are equal
    assert "the other way round: 2 (bn before rotta, tent before rotta)." in continual
    assert "tent before source" in mixed
    assert "here it has seen 45" in write_benchmark.reasons(rows, 600)
    assert "CMF has the error of ROID" in write_benchmark.reasons(rows, 600)
    without = rows.filter(lambda row: row.label not in ("rotta", "tent", "cmf"))
    assert write_benchmark.reasons(without, 600) == ""
    assert "- continual: tent, too close to it to tell: roid, cmf." in write_benchmark.leaders(rows)
    close = rows.filter(lambda row: row.label in ("tent", "roid", "cmf"))
    assert "- continual: too few images to tell any method from the best." in write_benchmark.leaders(close)


def test_text_leaves_numbers_of_results_to_the_tables() -> None:
    for reason in (*benchmark_text.REASONS, benchmark_text.EQUAL):
        assert not re.search(r"\d\.\d", reason.text), "what is written by hand does not follow the runs"
        assert reason.column in COLUMNS
        labels = {entry.label for entry in benchmark_entries()}
        assert {reason.better, reason.worse} <= labels
