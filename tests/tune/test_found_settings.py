"""What is written about a finished search: the plan, the findings, the spaces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna

from midway.adaptation.space import Integers, LogUniform
from midway.bench import load_plan
from midway.bench.resources import ResourceCache
from midway.tune import HELD_OUT_SCENARIOS, Search, StudyResult, TrialRecord, held_out_plan
from midway.tune import study as studies


def record(number: int, value: float, **settings: Any) -> TrialRecord:
    return TrialRecord(number, "complete", settings, value, {"pure:spatter": value}, rounds=(value,), seconds=1.5)


def test_the_plan_holds_defaults_and_tuned_on_held_out_streams(tmp_path: Path) -> None:
    search = Search(method="shot", images=400)
    defaults = search.defaults(ResourceCache())
    trials = (record(0, 70.0, **defaults), record(1, 72.5, **(defaults | {"trainable": "norm", "lr": 1.25e-05})))
    found = StudyResult("shot", search.name, {}, defaults, trials, {})
    path = tmp_path / "best.toml"
    path.write_text(held_out_plan(search, found))
    grid = load_plan(path)
    assert grid.scenarios == HELD_OUT_SCENARIOS
    assert grid.images == 400
    assert [entry.label for entry in grid.methods] == ["shot, defaults", "shot, tuned"]
    assert grid.methods[0].settings == {}
    assert grid.methods[1].settings == trials[1].settings
    assert "72.50 %, with the defaults 70.00 %" in path.read_text()

    path.write_text(held_out_plan(search, StudyResult("shot", search.name, {}, defaults, trials[:1], {})))
    assert [entry.label for entry in load_plan(path).methods] == ["shot, defaults"]
    assert "The defaults are the best so far." in path.read_text()


def test_settings_of_none_are_left_out_of_the_plan(tmp_path: Path) -> None:
    search = Search(method="tent", held={"optimizer": None}, images=400)
    defaults = search.defaults(ResourceCache())
    trials = (record(0, 70.0, **defaults), record(1, 72.5, **(defaults | {"lr": 0.01})))
    (tmp_path / "best.toml").write_text(
        held_out_plan(search, StudyResult("tent", search.name, {}, defaults, trials, {}))
    )
    assert load_plan(tmp_path / "best.toml").methods[1].settings["lr"] == 0.01


def test_findings_come_back_from_their_file(tmp_path: Path) -> None:
    trials = (record(0, 70.0, lr=1e-3), record(1, 70.0, lr=2e-3), TrialRecord(2, "failed", {}, None, failure="no"))
    found = StudyResult("tent", "tent-0", {"images": 4}, {"lr": 1e-3}, trials, {"lr": 1.0})
    found.save(tmp_path / "new" / "study.json")
    assert StudyResult.load(tmp_path / "new" / "study.json") == found
    assert found.best.number == 0  # of equals the first: a change must earn its place


def test_spaces_are_asked_for_as_optuna_has_them() -> None:
    fixed = optuna.trial.FixedTrial({"lr": 0.01, "steps": 3})
    ask: Callable[..., Any] = studies.suggest
    assert ask(fixed, "lr", LogUniform(1e-3, 1e-1)) == 0.01
    assert ask(fixed, "steps", Integers(1, 4)) == 3
    assert fixed.distributions["lr"] == optuna.distributions.FloatDistribution(1e-3, 1e-1, log=True)
    assert fixed.distributions["steps"] == optuna.distributions.IntDistribution(1, 4)
