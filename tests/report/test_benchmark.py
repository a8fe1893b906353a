from __future__ import annotations

from dataclasses import replace

import pytest

from midway.bench import Grid
from midway.bench.benchmark import (
    COLUMNS,
    LEFT_OUT,
    benchmark_cells,
    benchmark_entries,
    published_errors,
    select_columns,
)
from midway.bench.entries import parse_entries
from midway.methods import names
from midway.report import Frame, Row
from midway.report.benchmark import benchmark_table


def rows(label: str, column: str, accuracies: dict[int, float], outliers: float = 0.0) -> list[Row]:
    """Return one accuracy a seed for all images, another one for the images with the first shift, in all streams."""
    found = []
    for scenario in COLUMNS[column].scenarios:
        for seed, accuracy in accuracies.items():
            found.append(Row(label, scenario, "all", seed, "accuracy", accuracy))
            found.append(Row(label, scenario, scenario.shifts[0], seed, "accuracy", outliers))
    return found


def test_errors_are_means_over_streams_and_seeds() -> None:
    frame = Frame(
        (
            *rows("source", "reset", {0: 50.0, 1: 52.0}),
            *rows("bn", "reset", {0: 80.0, 1: 70.0}),
            *rows("source", "continual", {0: 50.0, 1: 50.0}),
            *rows("bn", "continual", {0: 40.0, 1: 40.0}),
            Row("bn", COLUMNS["reset"].scenarios[0], "all", 0, "forward_passes", 1.0),
            Row("bn", COLUMNS["reset"].scenarios[0], "all", 0, "backward_passes", 1.0),
            *(
                Row(label, scenario, "all", 0, "seconds_per_batch", seconds)
                for label, of_label in (("source", (0.5, 2.0, 1.0)), ("bn", (1.0, 2.0, 9.0)))
                for scenario, seconds in zip(COLUMNS["reset"].scenarios, of_label, strict=False)
            ),
        ),
        source="source",
    )
    table = benchmark_table(frame, COLUMNS)
    heads = [(column.group, column.origin) for column in table.columns]
    assert heads == [
        ("reset each", "ours"),
        ("reset each, ResNet-18", "paper"),
        ("continual", "ours"),
        ("continual, WRN-28-10", "paper"),
        ("cost", "ours"),
        ("cost", "ours"),
    ]
    source, bn = dict(table.rows)["source"], dict(table.rows)["bn"]
    assert str(bn[0]) == "25.00 ± 7.07"
    assert bn[0] is not None
    assert bn[0].best
    assert str(bn[2]) == "60.00 ± 0.00*"
    assert source[3] is not None
    assert source[3].mean == published_errors()["continual"]["WRN-28-10"]["source"]
    assert [str(value) for value in bn[4:]] == ["2.0", "2.0"]  # 2, 1 and 9 times Source's time
    assert source[4] is None
    assert str(source[5]) == "1.0"


def test_published_errors_are_those_of_the_same_data() -> None:
    frame = Frame((*rows("source", "mixed", {0: 40.0}), *rows("roid", "mixed", {0: 40.0})), source="source")
    heads = {
        data: [
            column.group for column in benchmark_table(frame, COLUMNS, data=data).columns if column.origin == "paper"
        ]
        for data in ("cifar10-mini", "cifar100", "imagenet", "pacs")
    }
    networks = {
        "cifar10-mini": ["WRN-28-10"],
        "cifar100": ["ResNeXt-29"],
        "imagenet": ["ResNet-50", "ViT-B/16"],
        "pacs": [],
    }
    assert heads == {data: [f"mixed domains, {name}" for name in each] for data, each in networks.items()}


def test_outliers_are_counted_alone_and_missing_streams_leave_a_gap() -> None:
    part = rows("tent", "outlier", {0: 70.0}, outliers=30.0)[2:]  # the first pair was not run
    frame = Frame((*rows("source", "outlier", {0: 50.0}, outliers=45.0), *part), source="source")
    table = benchmark_table(frame, COLUMNS)
    by_label = dict(table.rows)
    assert str(by_label["source"][0]) == "55.00"
    assert by_label["tent"][0] is None


def test_rows_are_all_methods_but_the_dear_ones() -> None:
    entries = benchmark_entries()
    assert {entry.name for entry in entries} == set(names()) - set(LEFT_OUT)
    assert len({entry.label for entry in entries}) == len(entries)
    assert set(select_columns(["mixed"])) == {"mixed"}
    with pytest.raises(ValueError, match="column of the benchmark"):
        select_columns(["mxed"])


def test_published_errors_have_a_column_and_a_method() -> None:
    labels = {entry.label for entry in benchmark_entries()}
    every = [item for data in ("cifar10", "cifar100-c", "imagenet-c") for item in published_errors(data).items()]
    assert len(every) == 4 + 4 + 3
    for stream, by_network in every:
        assert stream in COLUMNS
        for errors in by_network.values():
            assert errors.keys() <= labels
            assert all(0 < error < 100 for error in errors.values())


def test_correlated_streams_have_small_batches() -> None:
    grid = Grid(methods=parse_entries("source"), images=20, batch_sizes=(200,))
    cells = benchmark_cells(grid, select_columns(["mixed", "correlated"]))
    assert [(cell.scenario.kind, cell.batch_size) for cell in cells] == [("mixed", 200), ("correlated", 64)]
    smaller = benchmark_cells(replace(grid, batch_sizes=(16,)), select_columns(["correlated"]))
    assert [cell.batch_size for cell in smaller] == [16]
