from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from midway.bench import Comparison, Result
from midway.report.common_seeds import UNEQUAL
from midway.report.tables import Cell, Column, Table, accuracy_table, to_markdown, to_rich


def result(method: str, label: str, stream: str, by_group: dict[str, float], accuracy: float, seed: int) -> Result:
    images = dict.fromkeys(by_group, 100)
    count = 100 * len(by_group)
    return Result(method, label, {}, stream, count, accuracy, by_group, images, (accuracy,), 0.1, seed=seed)


def seeds(method: str, label: str, *accuracies: float) -> list[Result]:
    return [result(method, label, "pure:fog", {"fog": value}, value, seed) for seed, value in enumerate(accuracies)]


def test_several_seeds_become_mean_and_spread() -> None:
    results = (*seeds("source", "No adaptation", 60, 62), *seeds("tent", "tent", 61, 58), *seeds("bn", "bn", 70, 70))
    table = accuracy_table(Comparison("Seeds", "", {}, results))
    cells = {label: row[0] for label, row in table.rows}
    source, tent, bn = cells["No adaptation"], cells["tent"], cells["bn"]
    assert source is not None
    assert tent is not None
    assert bn is not None
    assert (source.value, source.spread, source.below_source) == (61, 2**0.5, False)
    assert (tent.value, tent.spread) == (59.5, 4.5**0.5)
    assert tent.below_source  # Source by its method, whatever the row is called
    assert (bn.value, bn.spread, bn.best) == (70, 0, True)
    assert str(tent) == "59.50 ± 2.12*"
    assert "mean ± standard deviation over 2 seeds" in table.notes


def test_only_seeds_that_all_have_are_compared() -> None:
    results = (*seeds("bn", "bn", 60, 40), *seeds("tent", "tent", 55))  # bn is ahead where both were run
    table = accuracy_table(Comparison("", "", {}, results))
    assert [str(row[0]) for _, row in table.rows] == ["60.00", "55.00"]
    assert UNEQUAL in table.notes


def test_brackets_are_no_markup() -> None:
    table = Table(
        "[/usr/lib]", (Column("pure:fog", "fog", 8),), (("bn", (Cell(1.0),)),), ("[enforce fail at x.cpp:1]",)
    )
    out = io.StringIO()
    Console(file=out, width=100).print(to_rich(table))
    assert "[/usr/lib]" in out.getvalue()
    assert "[enforce fail" in out.getvalue()


def test_source_with_other_statistics_is_not_what_others_are_measured_by() -> None:
    kindred = [replace(each, hyperparameters={"statistics": "clustered"}) for each in seeds("source", "kin", 80)]
    table = accuracy_table(Comparison("", "", {}, (*kindred, *seeds("source", "source", 60), *seeds("bn", "bn", 70))))
    assert not any(cell.below_source for _, row in table.rows for cell in row if cell is not None)


def test_headings_are_as_short_as_they_can_be_told_apart() -> None:
    pairs = {"mixture:fog/snow@0.5": ("fog", "snow"), "mixture:fog/frost@0.5#3": ("fog", "frost")}
    results = [result("bn", "bn", stream, dict.fromkeys(groups, 50.0), 50, 0) for stream, groups in pairs.items()]
    results += seeds("bn", "bn", 40)
    table = accuracy_table(Comparison("Pairs", "", {}, tuple(results)))
    assert to_markdown(table).splitlines()[0] == (
        "| method | mixture:fog/snow@0.5: fog (100) | mixture: snow (100) | mixture:fog/snow@0.5: all (200) "
        "| mixture:fog/frost@0.5#3: fog (100) | mixture: frost (100) | mixture:fog/frost@0.5#3: all (200) "
        "| pure: fog (100) |"
    )
    out = io.StringIO()
    Console(file=out, width=80).print(to_rich(table))
    assert "…" not in out.getvalue()
