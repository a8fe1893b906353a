"""The page that compares two runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from html_page import Page
from PIL import Image

from midway.bench import Record
from midway.report import Comparison, StoredRun, group_records, stored_run
from midway.report.html import render
from midway.report.stored_run import distinct_names

Made = Callable[..., Record]


@pytest.fixture
def comparison(records: list[Record]) -> Comparison:
    (only,) = group_records(records)
    return only


def better(record: Record) -> Record:
    assert record.result is not None
    metrics = record.result.metrics | {"accuracy": record.result.accuracy + 1 + record.cell.seed / 10}
    groups = {name: group | {"accuracy": group["accuracy"] + 2} for name, group in record.result.groups.items()}
    return replace(record, result=replace(record.result, metrics=metrics, groups=groups))


def test_two_runs(records: list[Record], made: Made) -> None:
    first = stored_run("a", records)
    second = stored_run("b", [*map(better, records), made("bn", "pure:fog", 1.0, seed=5)])
    page = Page(render(second, against=first))
    assert "b is 1.10 points above a , mean over 18 results that both have" in page.words()
    assert page.words("h1") == "b against a"
    assert "Only b has BN." in page.words()
    assert "Settings that differ" in page.words()  # the seeds
    *_, change = page.data()  # after the comparisons of both
    (chart,) = change["charts"]
    assert {row["title"]: row["values"] for row in chart["views"][0]["rows"]} == {
        "Source": {"source": 1.1},
        "MITA": {"mita": 1.1},
    }
    apart = stored_run("b", [made("bn", "pure:fog", 1.0)])
    assert "no method, stream and seed in common" in render(apart, against=first)


def test_comparisons_of_other_titles_are_not_paired(comparison: Comparison) -> None:
    titles = [("a net", "an old net"), ("a new net", "a net")]
    runs = [
        StoredRun(name, None, tuple(replace(comparison, title=title) for title in some))
        for name, some in zip("ab", titles, strict=True)
    ]
    text = Page(render(runs[1], against=runs[0])).words()
    assert "Only a has the comparison an old net. Only b has the comparison a new net." in text
    assert text.count("b is level with a , mean over 18 results that both have") == 1
    nothing = Page(render(replace(runs[1], comparisons=runs[1].comparisons[:1]), against=runs[0])).words()
    assert "The two runs have no comparison of the same title." in nothing


def test_of_several_with_one_title_those_with_equal_settings_are_paired(comparison: Comparison) -> None:
    coarse = replace(comparison, settings=comparison.settings | {"precision": "bf16"})
    fine = replace(comparison, settings=comparison.settings | {"precision": "float32"})
    text = Page(render(StoredRun("b", None, (coarse,)), against=StoredRun("a", None, (fine, coarse)))).words()
    assert "Both runs have the same settings." in text
    assert f"Only a has the comparison {comparison.title}." in text


def test_runs_of_one_name_are_distinguished(records: list[Record], made: Made, tmp_path: Path) -> None:
    folders = [tmp_path / day / "deep" / "run" for day in ("monday", "tuesday")]
    for folder in folders:
        (folder / "figures").mkdir(parents=True)
        Image.new("RGB", (6, 4), "red").save(folder / "figures" / "motivation.png")
    more = [*records, made("bn", "pure:fog", 1.0)]
    runs = [stored_run("run", each, folder=folder) for folder, each in zip(folders, (more, records), strict=True)]
    page = Page(render(runs[1], against=runs[0]))
    assert page.words("h1") == "tuesday/deep/run against monday/deep/run"
    assert "Only monday/deep/run has BN." in page.words()
    assert [caption.partition(":")[0] for caption in page.text["figcaption"][-2:]] == [
        "tuesday/deep/run",
        "monday/deep/run",
    ]
    assert [run.name for run in distinct_names([runs[0], runs[0]])] == ["run (1)", "run (2)"]
    assert [run.name for run in distinct_names([replace(run, folder=None) for run in runs])] == ["run (1)", "run (2)"]
