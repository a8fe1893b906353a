"""The page that compares two runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from html_page import Page
from PIL import Image

from midway.bench import Comparison, Result
from midway.report.html import render
from midway.report.html.changes import changes
from midway.report.html.differences import difference
from midway.report.stored_run import StoredRun, tell_runs_apart
from midway.report.tables import Column

Made = Callable[..., Result]
PAIR = "outlier:glass_blur/fog@0.005"


def test_two_runs(comparison: Comparison, made: Made) -> None:
    better = tuple(
        replace(
            result,
            accuracy=result.accuracy + 1 + result.seed / 10,
            by_group={k: v + 2 for k, v in result.by_group.items()},
        )
        for result in comparison.results
        if result.seed is not None
    )
    second = replace(
        comparison, results=(*better, made("bn", "pure:fog", 1.0)), settings={"network": "wrn", "seeds": 3}
    )
    found = difference(comparison, second, names=("a", "b"))
    assert found.overall is not None
    assert found.overall.difference == pytest.approx(1.1)
    assert (found.overall.pairs, found.overall.wins) == (18, 18)
    assert found.settings == {"seeds": ([0, 1, 2], 3)}
    assert found.only == {"b": ("bn",)}
    cell = dict(found.table.rows)["mita"][found.table.columns.index(Column(PAIR, "glass_blur", 500))]
    assert cell is not None
    assert (cell.value, cell.signed) == (pytest.approx(2.0), True)
    page = Page(render(StoredRun("b", None, (second,)), against=StoredRun("a", None, (comparison,))))
    assert "b is 1.10 points above a , mean over 18 results that both have" in page.words()
    assert page.words("h1") == "b against a"
    assert "Only b has BN." in page.words()
    *_, change = page.data()  # after the comparisons of both
    (chart,) = change["charts"]
    assert {row["title"]: row["values"] for row in chart["views"][0]["rows"]} == {
        "Source": {"source": 1.1},
        "MITA": {"mita": 1.1},
    }
    apart = replace(second, results=(made("bn", "pure:fog", 1.0),))
    text = render(StoredRun("b", None, (apart,)), against=StoredRun("a", None, (comparison,)))
    assert "no method, stream and seed in common" in text


def test_comparisons_of_other_titles_stand_alone(comparison: Comparison) -> None:
    titles = [("a net", "an old net"), ("a new net", "a net")]
    runs = [
        StoredRun(name, None, tuple(replace(comparison, title=title) for title in some))
        for name, some in zip("ab", titles, strict=True)
    ]
    page = Page(render(runs[1], against=runs[0]))
    words = page.words()
    assert "Only a has the comparison an old net. Only b has the comparison a new net." in words
    assert words.count("b is level with a , mean over 18 results that both have") == 1
    nothing = Page(render(replace(runs[1], comparisons=runs[1].comparisons[:1]), against=runs[0])).words()
    assert "The two runs have no comparison of the same title." in nothing


def test_of_several_with_one_title_those_with_equal_settings_are_paired(comparison: Comparison) -> None:
    coarse = replace(comparison, settings=comparison.settings | {"precision": "bf16"})
    fine = replace(comparison, settings=comparison.settings | {"precision": "float32"})
    (pair,), alone = changes(StoredRun("a", None, (fine, coarse)), StoredRun("b", None, (coarse,)))
    assert not pair.found.settings
    assert alone == [("a", comparison.title)]


def test_runs_of_one_name_are_told_apart(comparison: Comparison, made: Made, tmp_path: Path) -> None:
    more = replace(comparison, results=(*comparison.results, made("bn", "pure:fog", 1.0)))
    folders = [tmp_path / day / "deep" / "run" for day in ("monday", "tuesday")]
    for folder in folders:
        (folder / "figures").mkdir(parents=True)
        Image.new("RGB", (6, 4), "red").save(folder / "figures" / "moves.png")
    runs = [StoredRun("run", folder, (each,)) for folder, each in zip(folders, (more, comparison), strict=True)]
    page = Page(render(runs[1], against=runs[0]))
    assert page.words("h1") == "tuesday/deep/run against monday/deep/run"
    assert "Only monday/deep/run has BN." in page.words()
    assert [caption.partition(":")[0] for caption in page.text["figcaption"][-2:]] == [
        "tuesday/deep/run",
        "monday/deep/run",
    ]
    assert [run.name for run in tell_runs_apart([runs[0], runs[0]])] == ["run (1)", "run (2)"]
    assert [run.name for run in tell_runs_apart([replace(run, folder=None) for run in runs])] == ["run (1)", "run (2)"]
