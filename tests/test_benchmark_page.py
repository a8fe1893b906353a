"""The page of the benchmark follows from its stored runs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import benchmark_text
import write_benchmark

from midway.bench import Grid, read_records
from midway.bench.benchmark import STREAMS, benchmark_cells, benchmark_entries
from midway.report import Column, Table, Value
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
    for images in {record.cell.images for record in records}:
        grid = Grid(methods=benchmark_entries(), data=("cifar10",), batch_sizes=(200,), images=images)
        keys = {cell.key for cell in benchmark_cells(grid, STREAMS)}
        assert {record.cell.key for record in records if record.cell.images == images} <= keys
    for record in [record for run in RUNS for record in read_records(FOLDER / run)]:
        assert record.failure is None
        assert not any(Path(text).is_absolute() for text in (record.cell.network, record.cell.root or ""))


def test_orders_by_hand() -> None:
    same, turned = write_benchmark.compare_orders([("a", 1.0, 1.0), ("b", 2.0, 3.0), ("c", 3.0, 2.0), ("d", 3.0, 9.0)])
    assert (same, turned) == (5, ["b before c"])
    assert write_benchmark.compare_orders([("a", 1.0, 2.0), ("b", 3.0, 2.0)]) == (0, [])  # published as equal


def test_tables_by_hand() -> None:
    columns = (
        Column(None, "mixed", "mean_error", origin=OURS),
        Column(None, "mixed, R-18", "mean_error", origin=PAPER),
        Column(None, "cost", "time", origin=OURS),
    )
    rows = (
        ("source", (Value(50.0), Value(40.0), Value(1.0))),
        ("bn", (Value(55.0, below_source=True), Value(30.0, best=True), None)),
        ("own", (Value(45.0, best=True), None, Value(2.0))),
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
    (sentence,) = write_benchmark.orders(table)
    assert "0 of 1 pairs" in sentence
    assert "source before bn" in sentence


def test_verdicts_leave_numbers_to_the_tables() -> None:
    for verdict in (*benchmark_text.VERDICTS.values(), benchmark_text.GROUP_NORM.verdict):
        assert not re.search(r"\d\.\d", verdict), "what is written by hand does not follow the runs"
