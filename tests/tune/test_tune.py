"""The search: what it scores, what it tries, and what it refuses."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState
from PIL import Image

from midway.bench import Cell, Grid, LocalEngine
from midway.bench.resources import ResourceCache
from midway.tune import SCENARIOS, Search, SettingsAccuracy, TrialRecord, held_out_plan, measure_accuracy, tune
from midway.tune import study as studies
from midway.tune.storage import open_storage
from toy_search import SMALL


def test_a_search_never_sees_what_results_are_reported_on() -> None:
    assert SCENARIOS == (
        "pure:speckle_noise",
        "pure:gaussian_blur",
        "pure:spatter",
        "pure:saturate",
        "outlier:gaussian_blur/speckle_noise@0.005",
        "outlier:saturate/spatter@0.005",
        "mixture:gaussian_blur/speckle_noise@0.5",
        "mixture:saturate/spatter@0.5",
    )
    with pytest.raises(ValueError, match=r"mixture:spatter/fog: results are reported on fog, a search must not see it"):
        Search(method="tent", scenarios=("mixture:spatter/fog",))
    with pytest.raises(ValueError, match="source declares nothing to search; these do: pl, bn"):
        Search(method="source")


def test_searches_that_differ_in_anything_never_share_a_study() -> None:
    searches = [
        Search(method="tent"),
        Search(method="pl"),
        Search(method="tent", images=400),
        Search(method="tent", seed=1),
        Search(method="tent", batch_size=100),
        Search(method="tent", network="resnet20"),
        Search(method="tent", scenarios=SCENARIOS[:4]),
    ]
    assert len({search.name for search in searches}) == len(searches)
    assert Search(method="tent").name == searches[0].name


def test_size_and_classes_belong_to_a_search_and_change_no_other(tmp_path: Path) -> None:
    own = {"method": "tent", "data": "folder", "root": str(tmp_path), "scenarios": ("pure:clean",)}
    searches = [Search(**own), Search(**own, size=32), Search(**own, size=64), Search(**own, classes=("cat", "dog"))]
    assert len({search.name for search in searches}) == len(searches)
    assert Search(**own, classes=["cat", "dog"]).name == searches[-1].name
    grid = {"methods": "tent", "data": "folder", "root": str(tmp_path), "scenarios": "pure:clean", "device": "cpu"}
    plain = replace(searches[0], device="cpu").cells({})[0]
    assert plain.key == Grid.from_dict(grid).cells()[0].key


def test_labels_that_are_not_the_logits_are_refused_before_a_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> SettingsAccuracy:
        raise AssertionError

    monkeypatch.setattr(studies, "measure_accuracy", never)
    for label, name in enumerate([*"abcdefghijkl"]):
        (tmp_path / "images" / name).mkdir(parents=True)
        Image.new("RGB", (32, 32), (20 * label, 0, 0)).save(tmp_path / "images" / name / "image.png")
    search = Search(method="tent", data="folder", root=str(tmp_path / "images"), scenarios=("pure:clean",))
    with pytest.raises(ValueError, match="pure:clean has label 11, but the network has 10 classes, 0 to 9: give it"):
        tune(search, storage=str(tmp_path / "study"), trials=1)
    for name in "cdefghijkl":
        shutil.rmtree(tmp_path / "images" / name)
    with pytest.raises(ValueError, match="pure:clean has 2 class folders and the network 10 logits"):
        tune(search, storage=str(tmp_path / "study"), trials=1)
    assert not (tmp_path / "study").exists()
    monkeypatch.setattr(studies, "measure_accuracy", lambda *_, **__: SettingsAccuracy(1.0, {}, {}))
    found = tune(replace(search, classes={"a": 3, "b": 9}), storage=str(tmp_path / "study"), trials=1)
    assert found.search["classes"] == ("a=3", "b=9")
    assert 'classes = ["a=3", "b=9"]' in held_out_plan(replace(search, classes={"a": 3, "b": 9}), found)


def test_defaults_left_to_the_problem_are_settled_before_they_are_tried() -> None:
    defaults = Search(method="eata", **SMALL).defaults(ResourceCache())
    assert defaults == {"margin": 0.4, "redundancy": 0.4, "optimizer": "adam", "lr": 1e-3, "steps": 1}


def test_scores_are_the_numbers_of_midway_run_bit_for_bit() -> None:
    cells = Search(method="tea", **SMALL).cells({"langevin_steps": 1, "lr": 0.01})
    resources = ResourceCache()
    running: list[tuple[int, int, float]] = []
    found = measure_accuracy(
        cells, [resources.stream(cell) for cell in cells], resources, on_round=lambda *at: running.append(at)
    )
    results = list(LocalEngine().run(cells))
    assert found.by_stream == {str(record.cell.scenario): record.result.accuracy for record in results if record.result}
    assert found.by_group == {str(record.cell.scenario): record.result.by_group for record in results if record.result}
    first, all_ = running
    assert first[:2] == (1, 2)
    assert first[2] == fmean(record.result.batch_accuracies[0] for record in results if record.result)
    assert all_ == (2, 2, found.accuracy)


@pytest.mark.usefixtures("by_formula")
def test_the_defaults_come_first_and_the_best_is_found(storage: str) -> None:
    search = Search(method="tent", seed=3, **SMALL)
    told: list[TrialRecord] = []
    found = tune(search, storage=storage, trials=12, on_trial=told.append)
    assert found.trials[0].settings == found.defaults == {"lr": 1e-3, "steps": 1}
    assert found.default is not None
    assert found.default.accuracy == 80.0 - 2 - 1
    assert [trial.number for trial in told] == list(range(12))
    assert tuple(told) == found.trials
    assert found.best.accuracy == max(trial.accuracy for trial in found.complete if trial.accuracy)
    assert found.gain == found.best.accuracy - 77.0 > 1.0
    assert found.count("complete") + found.count("pruned") == 12
    assert set(found.importance) == {"lr", "steps"}
    assert sum(found.importance.values()) == pytest.approx(1)
    assert tune(search, storage=storage, trials=12).trials == found.trials  # enough: nothing runs


@pytest.mark.parametrize(("rounds", "stops_after"), [(5, 2), (50, 10)])
def test_bad_trials_stop_after_two_rounds_or_a_fifth(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    opened: Callable[[Search], optuna.Study],
    rounds: int,
    stops_after: int,
) -> None:
    seen: dict[float, int] = {}

    def rising(cells: Sequence[Cell], streams: Any, resources: Any, *, on_round: Any) -> SettingsAccuracy:
        lr = cells[0].settings["lr"]
        value = 50.0 if lr > 1e-3 else 70.0
        for done in range(1, rounds + 1):
            seen[lr] = done
            on_round(done, rounds, value)
        return SettingsAccuracy(value, {}, {})

    monkeypatch.setattr(studies, "measure_accuracy", rising)
    search = Search(method="tent", **SMALL)
    study = opened(search)
    for lr in (1e-4, 2e-4, 3e-4, 4e-4, 5e-3, 6e-4):
        study.enqueue_trial({"lr": lr, "steps": 1})
    found = tune(search, storage=str(tmp_path / "study"), trials=7)
    assert seen.pop(5e-3) == stops_after
    assert set(seen.values()) == {rounds}
    assert [(trial.settings["lr"], trial.accuracy) for trial in found.trials if trial.state == "pruned"] == [(5e-3, 50)]
    assert found.trials[5].rounds == (50.0,) * stops_after


def test_combinations_that_make_no_sense_are_rejected_not_failed(
    tmp_path: Path, opened: Callable[[Search], optuna.Study]
) -> None:
    search = Search(method="mita", **SMALL)
    study = opened(search)
    nonsense = {**search.defaults(ResourceCache()), "data_model": "fresh", "predictor_steps": 3, "data_model_steps": 1}
    study.tell(study.ask(), state=TrialState.PRUNED)
    study.enqueue_trial(nonsense)
    found = tune(search, storage=str(tmp_path / "study"), trials=2)
    assert found.trials[1].state == "pruned"
    assert found.trials[1].failure.startswith("rejected: mita: a fresh data model continues from the predictor")


@pytest.mark.usefixtures("by_formula")
def test_no_trial_begins_when_the_time_is_up(tmp_path: Path) -> None:
    found = tune(Search(method="tent", **SMALL), storage=str(tmp_path / "study"), trials=5, seconds=0)
    assert [trial.state for trial in found.trials] == ["waiting"]
    with pytest.raises(ValueError, match=r"no trial of tent-\w+ is complete yet"):
        _ = found.best


@pytest.mark.parametrize(("trials", "jobs"), [(0, 1), (1, 0)])
def test_counts_below_one_are_refused(tmp_path: Path, trials: int, jobs: int) -> None:
    with pytest.raises(ValueError, match=f"trials and jobs must be at least 1, got {trials} and {jobs}"):
        tune(Search(method="tent", **SMALL), storage=str(tmp_path / "study"), trials=trials, jobs=jobs)


def test_storages_that_cannot_be_opened_say_so_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"postgresql://me:\*\*\*@127.0.0.1:9/x\?connect_timeout=1 cannot be opened"
    ) as caught:
        open_storage("postgresql://me:secret@127.0.0.1:9/x?connect_timeout=1").__enter__()
    assert "secret" not in str(caught.value)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be written to"):
        open_storage(str(tmp_path / "file" / "study")).__enter__()
    with pytest.raises(ValueError, match="oracle"):
        open_storage("oracle://me@host/x").__enter__()


def test_without_optuna_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    for name in ("midway.tune.study", "midway.tune.storage"):
        monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr(name)
    with pytest.raises(ModuleNotFoundError, match=r"searching needs Optuna: pip install 'midway\[tune\]'"):
        tune(Search(method="tent"), storage=str(tmp_path / "study"), trials=1)
