from __future__ import annotations

import io
import math
from dataclasses import replace

import pytest
from rich.console import Console

from midway.bench import paper
from midway.bench.suites import EQUAL_BUDGET, suite
from midway.data import corruption_names
from midway.report.paper_tables import averages, comparison_table, published_in, standing
from midway.report.side_by_side import AVERAGES, Measured, fit_width, side_by_side, split_columns, to_brief_markdown
from midway.report.tables import Table, to_rich
from midway.streams import Scenario

PAIR = "outlier:pixelate/shot_noise@0.005"


def shown(table: Table) -> dict[str, list[str | None]]:
    return {method: [None if cell is None else str(cell) for cell in cells] for method, cells in table.rows}


def as_published(name: str, *, data: str = "cifar10c", shift: float = 0.0) -> list[Measured]:
    """Numbers as if we had measured just what the paper reports, plus a shift."""
    look_up = published_in(data)
    return [
        Measured(entry.label, str(scenario), group, value + shift)
        for entry in suite(name).entries
        for scenario in suite(name).scenarios
        for group in ((*scenario.shifts, "all") if len(scenario.shifts) > 1 else scenario.shifts)
        if (value := look_up(entry.label, str(scenario), group)) is not None
    ]


def test_ours_paper_and_difference_by_hand() -> None:
    numbers = [
        Measured("source", "pure:fog", "fog", 60.0, seed=0, images=200),
        Measured("source", "pure:fog", "fog", 62.0, seed=1, images=200),
        Measured("tent", "pure:fog", "fog", 60.9, seed=0, images=200),
        Measured("tent", "pure:fog", "fog", 60.9, seed=1, images=200),
        Measured("new", "pure:fog", "fog", 70.0, seed=0, images=200),
        Measured("new", "mine", "mine", 1.0),
    ]
    known = {("source", "fog"): 73.98, ("tent", "fog"): 60.0}
    table = side_by_side("t", numbers, lambda method, stream, group: known.get((method, group)), notes=["n"])
    assert [(c.group, c.kind, c.images) for c in table.columns] == [
        ("fog", "ours", 200),
        ("fog", "paper", None),
        ("fog", "diff.", None),
        ("mine", "ours", None),
    ]
    assert shown(table) == {
        "source": ["61.00 ± 1.41", "73.98", "-12.98", None],
        "tent": ["60.90 ± 0.00*", "60.00*", "+0.90", None],
        "new": ["70.00", None, None, "1.00"],
    }
    best = {method: [cell.best for cell in cells if cell] for method, cells in table.rows}
    assert best == {"source": [False, True, False], "tent": [False, False, False], "new": [True, True]}
    with pytest.raises(ValueError, match="tent on pure:fog, fog: seed 1 is there twice"):
        side_by_side("t", [*numbers, numbers[3]], lambda *place: None)


def test_a_lower_mce_is_better() -> None:
    values = {"source": 100.0, "tent": 50.0, "memo": 101.0}
    numbers = [Measured(method, AVERAGES, "mCE", value) for method, value in values.items()]
    cells = {method: cells[0] for method, cells in side_by_side("t", numbers, lambda *place: None).rows}
    marks = {method: (cell.best, cell.below_source) for method, cell in cells.items() if cell}
    assert marks == {"source": (False, False), "tent": (True, False), "memo": (False, True)}


@pytest.mark.parametrize("name", ["outlier", "mixture", "pure", "sweep", "ablation"])
def test_the_papers_numbers_stand_beside_themselves(name: str) -> None:
    numbers = as_published(name)
    table = comparison_table("t", numbers, data="cifar10c")
    places = {"outlier": 18, "mixture": 18, "pure": 17, "sweep": 6 * 18, "ablation": 8}[name]
    assert len(table.columns) == 3 * places
    kinds = {column.kind: number for number, column in enumerate(table.columns[:3])}
    for _, cells in table.rows:
        for place in range(places):
            ours, theirs, difference = (cells[3 * place + kinds[kind]] for kind in ("ours", "paper", "diff."))
            if ours is None:
                assert theirs is None
                assert difference is None
                continue
            assert theirs is not None
            assert difference is not None
            average = table.columns[3 * place].stream == AVERAGES
            assert ours.value == pytest.approx(theirs.value, abs=0.0101 if average else 1e-9)
            assert difference.value == ours.value - theirs.value
            if not average:
                assert (ours.best, ours.below_source) == (theirs.best, theirs.below_source)


def test_the_stars_are_the_papers() -> None:
    """The paper marks 23 falls below Source among outliers and 6 in mixtures."""
    counts = {}
    for name in ("outlier", "mixture"):
        table = comparison_table("t", as_published(name), data="cifar10c")
        columns = [number for number, column in enumerate(table.columns) if column.kind == "paper"]
        counts[name] = sum(cell.below_source for _, cells in table.rows for c in columns if (cell := cells[c]))
    assert counts == {"outlier": 23, "mixture": 6}


def test_averages_need_every_corruption() -> None:
    numbers = as_published("pure")
    ends = {(n.method, n.group): n.value for n in averages(numbers)}
    assert ends["mita", "mCE"] == pytest.approx(42.37, abs=0.005)
    assert ends["mita", "mean accuracy"] == pytest.approx(83.87, abs=0.01)
    assert ends["source", "mCE"] == pytest.approx(100)
    partly = [n for n in numbers if (n.method, n.group) != ("mita", "fog")]
    assert not any(n.method == "mita" for n in averages(partly))
    few = [n for n in numbers if n.group in corruption_names("benchmark")[:4]]
    table = comparison_table("t", few, data="cifar10c")
    assert [c.kind for c in table.columns if c.stream == AVERAGES] == ["ours", "ours"]  # the paper's are of fifteen


def test_averages_are_over_severities_and_never_over_clean_images() -> None:
    def rows(method: str, *values: float) -> list[Measured]:
        streams = ("pure:fog", "pure:fog#3", "pure:snow", "pure:snow#3", "pure:clean")
        groups = ("fog", "fog", "snow", "snow", "clean")
        return [Measured(method, *place, value) for *place, value in zip(streams, groups, values, strict=True)]

    numbers = [*rows("plain", 40, 70, 50, 60, 99), *rows("tent", 60, 80, 50, 60, 9)]
    ends = {(n.method, n.group): n.value for n in averages(numbers, source="plain")}
    assert ends["plain", "mean accuracy"] == 55
    assert ends["tent", "mean accuracy"] == 62.5
    assert ends["tent", "mCE"] == pytest.approx(100 * (60 / 90 + 1) / 2)
    assert averages(numbers) == []  # there is no source
    perfect = [replace(n, value=100.0) if n.method == "plain" and n.group == "fog" else n for n in numbers]
    assert {n.group for n in averages(perfect, source="plain")} == {"mean accuracy"}


def test_source_may_have_another_name() -> None:
    numbers = [Measured("plain", "pure:fog", "fog", 90.0), Measured("tent", "pure:fog", "fog", 80.0)]
    table = side_by_side("t", numbers, lambda *place: None, source="plain")
    assert [str(cells[0]) for _, cells in table.rows] == ["90.00", "80.00*"]


def test_seeds_of_one_stream_are_no_independent_pairs() -> None:
    values = {("pure:fog", 0): 1.0, ("pure:fog", 1): 2.0, ("pure:snow", 0): 3.0, ("pure:snow", 1): 4.0}
    numbers = [Measured("tent", stream, stream[5:], 50.0, seed) for stream, seed in values]
    numbers += [Measured("mita", stream, stream[5:], 50 + gain, seed) for (stream, seed), gain in values.items()]
    found = standing(numbers)["all"]
    assert (found.pairs, found.difference) == (2, 2.5)
    assert standing([number for number in numbers if number.stream == "pure:fog"])["all"].pairs == 2


def test_streams_of_nearly_the_same_images_are_one_pair() -> None:
    streams = ("pure:snow", "outlier:fog/snow@0.005", "mixture:fog/snow@0.1", "mixture:fog/snow@0.5", "pure:snow#3")
    numbers = [Measured("tent", stream, "all", 50.0) for stream in streams]
    numbers += [Measured("mita", stream, "all", 50.0 + place) for place, stream in enumerate(streams)]
    found = standing(numbers)["all"]
    assert (found.pairs, found.difference) == (3, (1 + 3 + 4) / 3)
    outliers = [replace(number, group="fog") for number in numbers if "fog" in number.stream]
    assert standing(outliers)["A"].pairs == 3


def test_what_the_paper_did_not_use_has_no_paper_columns() -> None:
    for data, stream in ((None, "pure:fog"), ("cifar10c", "pure:fog#3"), ("cifar10c", "pure:clean")):
        group = Scenario.parse(stream).shifts[0]
        table = comparison_table("t", [Measured("tent", stream, group, 1.0)], data=data)
        assert [column.kind for column in table.columns] == ["ours"]


def test_wide_tables_are_cut_between_streams_and_fit_the_terminal() -> None:
    outlier = split_columns(comparison_table("Outliers", as_published("outlier"), data="cifar10c"))
    assert [len(part.columns) for part in outlier] == [9] * 6
    assert outlier[1].title == f"Outliers, {PAIR}"
    assert [bool(part.notes) for part in outlier] == [False] * 5 + [True]
    pure = split_columns(comparison_table("Pure", as_published("pure"), data="cifar10c"))
    assert [len(part.columns) for part in pure] == [9] * 5 + [6]
    assert [column.group for column in pure[-1].columns[::3]] == ["mean accuracy", "mCE"]
    narrow = split_columns(comparison_table("Outliers", as_published("outlier"), data="cifar10c"), at_most=3)
    assert [len(part.columns) for part in narrow] == [3] * 18


@pytest.mark.parametrize(("width", "parts"), [(60, 17), (80, 17), (120, 8), (170, 5)])
def test_tables_fit_the_terminal(width: int, parts: int) -> None:
    fitting = fit_width(comparison_table("Pure", as_published("pure"), data="cifar10c"), width)
    assert len(fitting) <= parts
    assert sum(len(part.columns) for part in fitting) == 3 * 17
    for part in fitting:
        out = io.StringIO()
        Console(file=out, width=width).print(to_rich(part))
        assert "…" not in out.getvalue()
        assert max(map(len, out.getvalue().splitlines())) <= width


def test_mitas_standing_in_the_paper() -> None:
    found = standing(as_published("outlier"))
    assert found["all"].rival == "tea"
    assert (found["all"].pairs, found["all"].wins) == (5, 5)  # of the six pairs two are gaussian noise with outliers
    assert found["all"].signed_rank == pytest.approx(2 / 2**5)
    assert found["A"].rival == "memo"
    differences = [4, -10, -6, 2, 8, 8]
    assert found["A"].difference == pytest.approx(sum(differences) / 6)
    assert (found["A"].wins, found["A"].losses) == (4, 2)
    pure = standing(as_published("pure"))
    assert list(pure) == ["all"]
    assert (pure["all"].rival, pure["all"].wins) == ("tea", 15)
    assert pure["all"].t_test is not None
    assert math.isclose(pure["all"].signed_rank or 0, 2 / 2**15)


def test_streams_that_one_method_lacks_are_left_out_for_all() -> None:
    numbers = [
        Measured("tent", "pure:fog", "fog", 70.0),
        Measured("tent", "pure:snow", "snow", 0.0),
        Measured("mita", "pure:fog", "fog", 71.0),
    ]
    assert standing(numbers)["all"].difference == 1
    assert standing(numbers[1:]) == {}
    assert standing(numbers[:2]) == {}


def test_equal_budget_rows_have_no_paper_numbers() -> None:
    assert published_in("cifar10c")(EQUAL_BUDGET, PAIR, "all") is None
    assert all(EQUAL_BUDGET in [entry.label for entry in suite(name).entries] for name in paper.TABLES)


def test_the_brief_table_has_streams_down_and_the_papers_numbers_in_brackets() -> None:
    numbers = [
        Measured("source", "pure:fog", "fog", 60.0, seed=0),
        Measured("source", "pure:fog", "fog", 62.0, seed=1),
        Measured("a|b", "pure:fog", "fog", 60.0, seed=0),
        Measured("a|b", "pure:fog", "fog", 60.0, seed=1),
        Measured("source", PAIR, "all", 10.0),
        Measured("source", PAIR, "shot_noise", 10.04),
    ]
    known = {("source", "fog"): 73.98, ("a|b", "fog"): 70.0}
    table = side_by_side("Title", numbers, lambda method, stream, group: known.get((method, group)), notes=["a note"])
    assert to_brief_markdown(table).splitlines() == [
        "| | source | a&#124;b |",
        "| --- | ---: | ---: |",
        "| pure: fog | **61.0 ± 1.4** (74.0) | 60.0 ± 0.0* (70.0*) |",
        "| *outlier: 0.5% pixelate in shot noise* | | |",
        "| all | **10.0** | - |",
        "| shot noise | **10.0** | - |",
        "",
        "A note.",
    ]
