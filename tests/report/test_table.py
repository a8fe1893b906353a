"""Frames, the pivot, averages, and the paper's numbers beside ours."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from midway.bench import Record
from midway.bench.suites import EQUAL_BUDGET, SUITES, suite
from midway.data import corruption_names
from midway.report import Frame, Row, Table, frame, group_records, pivot, split_columns, to_brief_markdown
from midway.report.paper import paper_table, published_in
from midway.report.ranking import versus_best
from midway.report.table import UNEQUAL, beside_paper
from midway.streams import Scenario

Made = Callable[..., Record]
PAIR = Scenario.parse("outlier:pixelate/shot_noise@0.005")
FOG = Scenario.parse("pure:fog")


def shown(table: Table) -> dict[str, list[str | None]]:
    return {label: [None if value is None else str(value) for value in values] for label, values in table.rows}


def row(label: str, scenario: Scenario, value: float, *, group: str = "", seed: int = 0) -> Row:
    return Row(label, scenario, group or scenario.shifts[0], seed, "accuracy", value)


def as_published(name: str, *, data: str = "cifar10c") -> Frame:
    """Rows as if we had measured exactly what the paper reports."""
    look_up = published_in(data)
    rows = [
        row(entry.label, scenario, value, group=group)
        for entry in suite(name).entries
        for scenario in suite(name).scenarios
        for group in (*scenario.shifts, "all")
        if (value := look_up(entry.label, scenario, scenario.shifts[0] if len(scenario.shifts) == 1 else group,
                             "accuracy")) is not None
    ]  # fmt: skip
    return Frame(tuple(rows), "source")


def test_the_pivot_marks_the_best_and_what_is_worse_than_source(made: Made) -> None:
    pair = "outlier:glass_blur/gaussian_noise@0.005"
    records = [
        made("source", "pure:fog", 60.0),
        made("source", pair, 50.0, 20.0, 20.15),
        made("tent", "pure:fog", 75.5),
        made("tent", pair, 0.0, 70.0, 69.65),
        made("other", "pure:fog", 75.5, method="tent", settings={"lr": 1.0}),
    ]
    table = pivot(frame(records))
    assert [(c.group, c.images) for c in table.columns] == [
        ("fog", 500), ("glass_blur", 500), ("gaussian_noise", 500), ("all", 1000),
    ]  # fmt: skip
    rows = {
        label: [None if v is None else (v.mean, v.best, v.below_source) for v in values] for label, values in table.rows
    }
    assert rows["source"] == [(60, False, False), (50, True, False), (20, False, False), (20.15, False, False)]
    assert rows["tent"] == [(75.5, True, False), (0, False, True), (70, True, False), (69.65, True, False)]
    assert rows["other"] == [(75.5, True, False), None, None, None]


def test_notes_on_few_images_and_on_what_was_left_out(made: Made) -> None:
    left_out = {"memo": "would take about 500 s of the 120 s there are"}
    (comparison,) = group_records([made("bn", "pure:fog", 50.0, images=4)], left_out=left_out)
    assert comparison.table().notes == (
        "accuracy in percent; the best in bold; * falls below the unadapted Source",
        "columns with few images change in steps: 25.0 points with 4 images",
        "memo was left out: would take about 500 s of the 120 s there are",
    )


def test_several_seeds_become_mean_and_spread(made: Made) -> None:
    values = {"No adaptation": (60, 62), "tent": (61, 58), "bn": (70, 70)}
    methods = {"No adaptation": "source"}
    records = [
        made(label, "pure:fog", value, seed=seed, method=methods.get(label, ""))
        for label, seeds in values.items()
        for seed, value in enumerate(seeds)
    ]
    table = pivot(frame(records))
    source, tent, bn = (values[0] for _, values in table.rows)
    assert source is not None
    assert tent is not None
    assert bn is not None
    assert (source.mean, source.spread, source.below_source) == (61, 2**0.5, False)
    assert (tent.mean, tent.spread) == (59.5, 4.5**0.5)
    assert tent.below_source  # Source by its method, whatever its label
    assert (bn.mean, bn.spread, bn.best) == (70, 0, True)
    assert str(tent) == "59.50 ± 2.12*"
    assert "mean ± standard deviation over 2 seeds" in table.notes


def test_only_seeds_that_all_have_are_compared(made: Made) -> None:
    records = [made("bn", "pure:fog", 60), made("bn", "pure:fog", 40, seed=1), made("tent", "pure:fog", 55)]
    table = pivot(frame(records))
    assert [str(values[0]) for _, values in table.rows] == ["60.00", "55.00"]
    assert UNEQUAL in table.notes
    assert UNEQUAL not in pivot(frame(records[:2])).notes


def test_source_with_other_statistics_is_not_the_reference(made: Made) -> None:
    clustered = made("clustered", "pure:fog", 80, method="source", settings={"statistics": "clustered"})
    table = pivot(frame([clustered, made("source", "pure:fog", 60), made("bn", "pure:fog", 70)]))
    assert not any(value.below_source for _, values in table.rows for value in values if value is not None)


def test_one_label_with_several_settings_is_several_rows(made: Made) -> None:
    records = [
        made("tent", "pure:fog", 60.0, settings={"lr": 1, "steps": 2, "seed": 0}),
        made("tent", "pure:fog", 60.0, settings={"lr": 3, "steps": 2, "seed": 1}, seed=1),
        made("other", "pure:fog", 60.0, method="tent", settings={"lr": 5}),
    ]
    assert frame(records).unique("label") == ["tent (lr=1)", "tent (lr=3)", "other"]
    wrapped = [made("T", "pure:fog", 60.0, method=name) for name in ("tent", "episodic(tent)")]
    assert frame(wrapped).unique("label") == ["T (tent)", "T (episodic(tent))"]
    seeds = [made("tent", "pure:fog", 60.0, settings={"lr": 1, "seed": seed}, seed=seed) for seed in (0, 1)]
    assert frame(seeds).unique("label") == ["tent"]


def test_groups_of_a_scenario_have_its_order(made: Made) -> None:
    pairs = ("mixture:fog/snow@0.5", "mixture:frost/fog@0.5")
    table = pivot(frame([made("bn", pair, 1.0, 2.0, 1.5) for pair in pairs]))
    assert [column.group for column in table.columns] == ["fog", "snow", "all", "frost", "fog", "all"]


def test_other_metrics_are_marked_by_their_direction(made: Made) -> None:
    records = [made("source", "pure:fog", 60.0, nll=1.0), made("tent", "pure:fog", 70.0, nll=2.0)]
    table = pivot(frame(records), metrics=["accuracy", "nll", "parameters"])
    assert [(column.metric, column.group) for column in table.columns] == [("accuracy", "fog"), ("nll", "all")]
    assert shown(table) == {"source": ["60.00", "1.00"], "tent": ["70.00", "2.00*"]}
    with pytest.raises(ValueError, match="unknown metric 'nl': did you mean 'nll'"):
        pivot(frame(records), metrics=["nl"])


def test_not_a_number_is_never_the_best() -> None:
    rows = (row("bn", FOG, float("nan")), row("tent", FOG, 50.0))
    assert [value.best for _, values in pivot(Frame(rows)).rows for value in values if value] == [False, True]


def test_ours_paper_and_difference_by_hand() -> None:
    mine = Scenario.parse("pure:frost")
    rows = [
        row("source", FOG, 60.0),
        row("source", FOG, 62.0, seed=1),
        row("tent", FOG, 60.9),
        row("tent", FOG, 60.9, seed=1),
        row("new", FOG, 70.0),
        row("new", FOG, 70.0, seed=1),
        row("new", mine, 1.0),
    ]
    known = {("source", "fog"): 73.98, ("tent", "fog"): 60.0}
    table = beside_paper(
        pivot(Frame(tuple(rows), "source")), lambda label, scenario, group, metric: known.get((label, group))
    )
    assert [(c.group, c.origin) for c in table.columns] == [
        ("fog", "ours"), ("fog", "paper"), ("fog", "diff."), ("frost", "ours"),
    ]  # fmt: skip
    assert shown(table) == {
        "source": ["61.00 ± 1.41", "73.98", "-12.98", None],
        "tent": ["60.90 ± 0.00*", "60.00*", "+0.90", None],
        "new": ["70.00 ± 0.00", None, None, "1.00"],
    }
    best = {label: [value.best for value in values if value] for label, values in table.rows}
    assert best == {"source": [False, True, False], "tent": [False, False, False], "new": [True, True]}


@pytest.mark.parametrize("name", ["outlier", "mixture", "pure", "sweep", "ablation"])
def test_the_papers_numbers_beside_themselves(name: str) -> None:
    table = paper_table(as_published(name), data="cifar10c")
    count = {"outlier": 18, "mixture": 18, "pure": 17, "sweep": 6 * 18, "ablation": 8}[name]
    assert len(table.columns) == 3 * count
    assert [column.origin for column in table.columns[:3]] == ["ours", "paper", "diff."]
    for _, values in table.rows:
        for index in range(count):
            ours, theirs, difference = values[3 * index : 3 * index + 3]
            if ours is None:
                assert theirs is None
                assert difference is None
                continue
            assert theirs is not None
            assert difference is not None
            average = table.columns[3 * index].scenario is None
            assert ours.mean == pytest.approx(theirs.mean, abs=0.0101 if average else 1e-9)
            assert difference.mean == ours.mean - theirs.mean
            if not average:
                assert (ours.best, ours.below_source) == (theirs.best, theirs.below_source)


def test_the_stars_are_the_papers() -> None:
    """The paper marks 23 falls below Source among outliers and 6 in mixtures."""
    counts = {}
    for name in ("outlier", "mixture"):
        table = paper_table(as_published(name), data="cifar10c")
        columns = [index for index, column in enumerate(table.columns) if column.origin == "paper"]
        counts[name] = sum(value.below_source for _, values in table.rows for i in columns if (value := values[i]))
    assert counts == {"outlier": 23, "mixture": 6}


def ends(rows: Frame) -> dict[tuple[str, str], float]:
    table = pivot(rows, averages=True)
    return {
        (label, column.metric): value.mean
        for label, values in table.rows
        for column, value in zip(table.columns, values, strict=True)
        if column.scenario is None and value is not None
    }


def test_averages_need_every_corruption() -> None:
    rows = as_published("pure")
    found = ends(rows)
    assert found["mita", "mce"] == pytest.approx(42.37, abs=0.005)
    assert found["mita", "mean_accuracy"] == pytest.approx(83.87, abs=0.01)
    assert found["source", "mce"] == pytest.approx(100)
    partly = rows.filter(lambda each: (each.label, each.group) != ("mita", "fog"))
    assert not any(label == "mita" for label, _ in ends(partly))
    few = rows.filter(lambda each: each.scenario.shifts[0] in corruption_names("benchmark")[:4])
    table = paper_table(few, data="cifar10c")
    assert [c.origin for c in table.columns if c.scenario is None] == ["ours", "ours"]  # the paper's are of fifteen
    assert ends(rows.filter(lambda each: each.scenario.shifts[0] in corruption_names("benchmark")[:2])) == {}


def test_averages_are_over_severities_and_never_over_clean_images() -> None:
    texts = ("fog", "fog#3", "snow", "snow#3", "frost", "frost#3", "clean")

    def rows(label: str, *values: float) -> list[Row]:
        return [row(label, Scenario.parse(f"pure:{t}"), value) for t, value in zip(texts, values, strict=True)]

    both = [*rows("plain", 40, 70, 50, 60, 50, 60, 99), *rows("tent", 60, 80, 50, 60, 50, 60, 9)]
    found = ends(Frame(tuple(both), "plain"))
    assert found["plain", "mean_accuracy"] == 55
    assert found["tent", "mean_accuracy"] == 60
    assert found["tent", "mce"] == pytest.approx(100 * (60 / 90 + 1 + 1) / 3)
    assert ends(Frame(tuple(both))) == {}  # there is no source
    perfect = [each._replace(value=100.0) if each[:1] == ("plain",) and each.group == "fog" else each for each in both]
    assert {metric for _, metric in ends(Frame(tuple(perfect), "plain"))} == {"mean_accuracy"}


def test_a_lower_mce_is_better() -> None:
    rows = as_published("pure").where(label=["source", "tent", "mita"])
    table = pivot(rows, averages=True)
    marks = {label: (values[-1].best, values[-1].below_source) for label, values in table.rows if values[-1]}
    assert marks == {"source": (False, False), "tent": (False, False), "mita": (True, False)}


def test_what_the_paper_did_not_use_has_no_paper_columns() -> None:
    for data, text in ((None, "pure:fog"), ("cifar10c", "pure:fog#3"), ("cifar10c", "pure:clean")):
        table = paper_table(Frame((row("tent", Scenario.parse(text), 1.0),)), data=data)
        assert [column.origin for column in table.columns] == ["ours"]


def test_equal_budget_rows_have_no_paper_numbers() -> None:
    assert published_in("cifar10c")(EQUAL_BUDGET, PAIR, "all", "accuracy") is None
    assert all(EQUAL_BUDGET in [entry.label for entry in suite(name).entries] for name in SUITES)


def test_mita_against_the_best_in_the_paper() -> None:
    found = versus_best(as_published("outlier"))
    assert found["all"].rival == "tea"
    assert (found["all"].pairs, found["all"].wins) == (5, 5)  # two of the six pairs are gaussian noise with outliers
    assert found["all"].signed_rank == pytest.approx(2 / 2**5)
    assert found["A"].rival == "memo"
    differences = [4, -10, -6, 2, 8, 8]
    assert found["A"].difference == pytest.approx(sum(differences) / 6)
    assert (found["A"].wins, found["A"].losses) == (4, 2)
    pure = versus_best(as_published("pure"))
    assert list(pure) == ["all"]
    assert (pure["all"].rival, pure["all"].wins) == ("tea", 15)
    assert pure["all"].t_test is not None
    assert pure["all"].signed_rank == pytest.approx(2 / 2**15)


def test_wide_tables_are_split_between_scenarios() -> None:
    outlier = split_columns(paper_table(as_published("outlier"), data="cifar10c", title="Outliers"))
    assert [len(part.columns) for part in outlier] == [9] * 6
    assert outlier[1].title == f"Outliers, {PAIR}"
    assert [bool(part.notes) for part in outlier] == [False] * 5 + [True]
    pure = split_columns(paper_table(as_published("pure"), data="cifar10c"))
    assert [len(part.columns) for part in pure] == [9] * 5 + [6]
    assert [column.metric for column in pure[-1].columns[::3]] == ["mean_accuracy", "mce"]
    narrow = split_columns(paper_table(as_published("outlier"), data="cifar10c"), at_most=3)
    assert [len(part.columns) for part in narrow] == [3] * 18


def test_the_brief_table_has_scenarios_down_and_the_papers_numbers_in_brackets() -> None:
    rows = [
        row("source", FOG, 60.0),
        row("source", FOG, 62.0, seed=1),
        row("a|b", FOG, 60.0),
        row("a|b", FOG, 60.0, seed=1),
        row("source", PAIR, 10.04, group="shot_noise"),
        row("source", PAIR, 10.0, group="pixelate"),
        row("source", PAIR, 10.0, group="all"),
    ]
    known = {("source", "fog"): 73.98, ("a|b", "fog"): 70.0}
    table = pivot(Frame(tuple(rows), "source"))
    table = beside_paper(table, lambda label, scenario, group, metric: known.get((label, group)))
    assert to_brief_markdown(replace(table, notes=("a note",))).splitlines() == [
        "| | source | a&#124;b |",
        "| --- | ---: | ---: |",
        "| pure: fog | **61.0 ± 1.4** (74.0) | 60.0 ± 0.0* (70.0*) |",
        "| *outlier: 0.5% pixelate in shot noise* | | |",
        "| shot noise | **10.0** | - |",
        "| pixelate | **10.0** | - |",
        "| all | **10.0** | - |",
        "",
        "A note.",
    ]


def test_rows_become_a_data_frame_where_pandas_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Frame((Row("bn", Scenario.parse("pure:fog"), "fog", 0, "accuracy", 70.0),))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        rows.to_pandas()
    received: dict[str, Any] = {}
    monkeypatch.setitem(
        sys.modules, "pandas", SimpleNamespace(DataFrame=lambda data, columns: received.update(locals()))
    )
    rows.to_pandas()
    assert [tuple(row) for row in received["data"]] == [("bn", "pure:fog", "fog", 0, "accuracy", 70.0)]
    assert list(received["columns"]) == ["label", "scenario", "group", "seed", "metric", "value"]
