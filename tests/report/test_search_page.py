"""The page of a search."""

from __future__ import annotations

from pathlib import Path

import pytest
from html_page import Page

from midway.report import StoredRun, read_run
from midway.report.html import render
from midway.tune import StudyResult, TrialRecord


def findings(command: str = "midway tune tent") -> StudyResult:
    trials = (
        TrialRecord(0, "complete", {"lr": 0.001, "moves": "norm"}, 70.0, seconds=12.0),
        TrialRecord(1, "pruned", {"lr": 0.5, "moves": "<b>"}, 40.0, seconds=3.0),
        TrialRecord(2, "failed", {"lr": 0.7, "moves": "norm"}, None, failure="it is <i>too</i> large"),
        TrialRecord(3, "complete", {"lr": 0.0025, "moves": "norm"}, 71.5, seconds=11.0),
    )
    defaults = {"lr": 0.001, "moves": "norm"}
    searched = {"data": "cifar10", "scenarios": ["pure:spatter", "pure:saturate"], "root": None}
    return StudyResult("tent", "tent-0", searched, defaults, trials, {"lr": 0.75, "moves": 0.25}, command)


def page_of(found: StudyResult) -> str:
    return render(StoredRun("search", None, (), search=found))


def test_the_search_opens_with_the_best_settings() -> None:
    page = page_of(findings())
    assert "<b>TENT</b> reaches <b>71.50 %</b>" in page
    assert "1.50 points above its defaults: <code>lr=0.0025, moves=norm</code>" in page
    assert "2 complete, 1 pruned, 1 failed" in page
    assert "75 % of the variation among the better trials" in page
    assert "pure:spatter, pure:saturate" in page


def test_every_trial_is_in_a_table_that_sorts() -> None:
    page = page_of(findings())
    assert page.count('<th scope="row">') == 4 + 2  # the trials and what was searched on
    assert '<td data-value="0.0025">0.0025</td>' in page
    assert "failed: it is &lt;i&gt;too&lt;/i&gt; large" in page
    assert "<b>&lt;b&gt;" not in page
    assert '<td class="text">&lt;b&gt;</td>' in page


def test_history_and_importance_are_charts() -> None:
    (section,) = Page(page_of(findings())).data()
    history, importance = section["charts"]
    assert history["views"][0]["lines"] == {
        "complete": [[0, 70.0], [3, 71.5]],
        "pruned": [[1, 40.0]],
        "best": [[0, 70.0], [1, 70.0], [3, 71.5]],
        "default": [[0, 70.0], [1, 70.0], [3, 70.0]],
    }
    assert [(row["title"], row["values"]) for row in importance["views"][0]["rows"]] == [
        ("lr", {"complete": 75.0}),
        ("moves", {"complete": 25.0}),
    ]


def test_a_search_without_a_complete_trial_says_so() -> None:
    begun = StudyResult("tent", "tent-0", {}, {"lr": 1}, (TrialRecord(0, "running", {"lr": 1}, None),), {})
    assert "No trial is complete yet." in page_of(begun)
    assert "running" in page_of(begun)


def test_the_folder_of_a_search_is_read_as_a_run(tmp_path: Path) -> None:
    findings().save(tmp_path / "study.json")
    run = read_run(tmp_path)
    assert run.search == findings()
    assert run.comparisons == ()
    page = render(run)
    assert "midway tune tent" in page
    assert "There are no results yet" not in page


def test_other_runs_have_no_search() -> None:
    assert 'id="search"' not in render(StoredRun("run", None, ()))


@pytest.mark.parametrize("text", ['{"method": "tent"', '{"method": "tent"}', "[]"])
def test_a_file_that_is_no_study_says_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(ValueError, match=r"study\.json is not a result of `midway tune` .* run the same command"):
        read_run(tmp_path)
