"""The search: what it scores, what it tries, what it keeps when it is stopped."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState
from PIL import Image

from midway._workers import Died
from midway.adaptation.space import Integers, LogUniform
from midway.bench import Cell, Grid, LocalEngine, load_plan
from midway.bench.resources import ResourceCache
from midway.tune import (
    HELD_OUT_SCENARIOS,
    SCENARIOS,
    Score,
    Search,
    StudyResult,
    TrialRecord,
    held_out_plan,
    score,
    tune,
)
from midway.tune import study as studies
from midway.tune.storage import open_storage, this_process

SMALL: dict[str, Any] = {"scenarios": ("pure:spatter", "mixture:saturate/spatter"), "images": 20, "batch_size": 10}


def toy(cells: Sequence[Cell], streams: Any, resources: Any, *, on_round: Any) -> Score:
    """Score TENT's settings by a formula: best at lr 0.003 and 2 steps; ten rounds."""
    settings = cells[0].settings
    value = 80.0 - abs(settings["lr"] - 0.003) * 1000 - abs(settings["steps"] - 2)
    for done in range(1, 11):
        on_round(done, 10, value - 10 + done)
    return Score(value, {"pure:spatter": value}, {"pure:spatter": {"spatter": value}})


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[Search], optuna.Study]]:
    """Open the study of a search in the journal ``study`` of the test."""
    with open_storage(str(tmp_path / "study")) as storage:
        yield lambda search: studies.open_study(search, storage, ResourceCache())


@pytest.fixture
def by_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "score", toy)


def tried(found: StudyResult) -> list[tuple[dict[str, Any], float | None, str]]:
    return [(trial.settings, trial.accuracy, trial.state) for trial in found.trials]


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
    assert "classes" not in plain.to_dict()


def test_labels_that_are_not_the_logits_are_refused_before_a_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Score:
        raise AssertionError

    monkeypatch.setattr(studies, "score", never)
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
    monkeypatch.setattr(studies, "score", lambda *_, **__: Score(1.0, {}, {}))
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
    found = score(cells, [resources.stream(cell) for cell in cells], resources, on_round=lambda *at: running.append(at))
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


@pytest.mark.usefixtures("by_formula")
def test_stopped_lost_and_resumed_is_the_same_as_undisturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Callable[[Search], optuna.Study]
) -> None:
    search = Search(method="tent", seed=1, **SMALL)
    undisturbed = tune(search, storage=str(tmp_path / "one"), trials=12)
    assert len({str(trial.settings) for trial in undisturbed.trials}) == 12  # no start draws the same again

    storage, calls = str(tmp_path / "study"), 0

    def interrupted(*args: Any, **kwargs: Any) -> Score:
        nonlocal calls
        calls += 1
        if calls in (1, 4, 9):
            raise KeyboardInterrupt
        return toy(*args, **kwargs)

    monkeypatch.setattr(studies, "score", interrupted)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            tune(search, storage=storage, trials=12)
    study = opened(search)
    study.ask().set_user_attr("process", f"{os.uname().nodename}:{ended_process()}")  # killed in the middle
    resumed = tune(search, storage=storage, trials=12)
    assert tried(resumed) == tried(undisturbed)


def ended_process() -> int:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return child


@pytest.mark.usefixtures("by_formula")
def test_settings_that_kill_their_process_are_given_up_in_the_end(opened: Callable[[Search], optuna.Study]) -> None:
    search = Search(method="tent", **SMALL)
    study = opened(search)
    gone = f"{os.uname().nodename}:{ended_process()}"
    for attempt in range(1, 4):
        trial = study.ask()
        assert trial.suggest_float("lr", 1e-5, 1e-2, log=True) == 1e-3  # the defaults, every time
        trial.set_user_attr("process", gone)
        trial.set_user_attr("driver", this_process())
        studies.retry_lost(study)
        assert len(study.get_trials(states=(TrialState.WAITING,))) == (attempt < 3)
    alive = study.ask()
    alive.set_user_attr("process", f"{os.uname().nodename}:{os.getpid()}")
    elsewhere = study.ask()
    elsewhere.set_user_attr("process", "another-machine:1")
    studies.retry_lost(study)
    assert [trial.number for trial in study.get_trials(states=(TrialState.RUNNING,))] == [3, 4]
    assert studies.num_taken(study.get_trials()) == 3  # the defaults, lost for good, and the two that run
    assert studies.record_of(study.get_trials()[2]).failure == "its worker process died 3 times (out of memory?)"
    studies.begin(study, this_process())  # the gain is measured against the defaults: a new start tries them again
    (queued,) = study.get_trials(states=(TrialState.WAITING,))
    assert queued.system_attrs["fixed_params"] == study.user_attrs["defaults"]


@pytest.mark.usefixtures("by_formula")
def test_a_trial_that_is_killed_from_outside_is_run_again_without_limit(
    opened: Callable[[Search], optuna.Study], tmp_path: Path
) -> None:
    search = Search(method="tent", **SMALL)
    study = opened(search)
    gone = f"{os.uname().nodename}:{ended_process()}"
    for kills in range(6):
        studies.begin(study, gone)
        trial = study.ask()
        if kills:  # the first kill comes before the trial has noted its process
            trial.set_user_attr("process", gone)
            trial.set_user_attr("driver", gone)
    study.tell(trial.number, state=TrialState.FAIL)  # and the last between giving it up and queueing it again
    found = tune(search, storage=str(tmp_path / "study"), trials=2)
    assert [trial.state for trial in found.trials] == ["complete", "complete"]
    assert found.default is not None


@pytest.mark.parametrize(("rounds", "stops_after"), [(5, 2), (50, 10)])
def test_bad_trials_stop_after_two_rounds_or_a_fifth(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    opened: Callable[[Search], optuna.Study],
    rounds: int,
    stops_after: int,
) -> None:
    seen: dict[float, int] = {}

    def rising(cells: Sequence[Cell], streams: Any, resources: Any, *, on_round: Any) -> Score:
        lr = cells[0].settings["lr"]
        value = 50.0 if lr > 1e-3 else 70.0
        for done in range(1, rounds + 1):
            seen[lr] = done
            on_round(done, rounds, value)
        return Score(value, {}, {})

    monkeypatch.setattr(studies, "score", rising)
    search = Search(method="tent", **SMALL)
    study = opened(search)
    for lr in (1e-4, 2e-4, 3e-4, 4e-4, 5e-3, 6e-4):
        study.enqueue_trial({"lr": lr, "steps": 1})
    found = tune(search, storage=str(tmp_path / "study"), trials=7)
    assert seen.pop(5e-3) == stops_after
    assert set(seen.values()) == {rounds}
    assert [(trial.settings["lr"], trial.accuracy) for trial in found.trials if trial.state == "pruned"] == [(5e-3, 50)]
    assert found.trials[5].rounds == (50.0,) * stops_after


def test_failures_are_recorded_and_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(cells: Sequence[Cell], streams: Any, resources: Any, *, on_round: Any) -> Score:
        if cells[0].settings["steps"] > 1:
            raise RuntimeError("too many steps\nand more")
        return Score(50.0, {}, {})

    monkeypatch.setattr(studies, "score", failing)
    found = tune(Search(method="tent", **SMALL), storage=str(tmp_path / "study"), trials=8)
    failed = [trial for trial in found.trials if trial.state == "failed"]
    assert [trial.settings["steps"] > 1 for trial in found.trials] == [trial in failed for trial in found.trials]
    assert {trial.failure for trial in failed} == {"RuntimeError: too many steps"}
    assert 0 < found.count("complete") == 8 - len(failed) < 8


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


def test_two_processes_share_a_study_and_a_killed_one_is_replaced(
    tmp_path: Path, opened: Callable[[Search], optuna.Study]
) -> None:
    storage = str(tmp_path / "study")
    search = Search(method="bn", **SMALL)
    study = opened(search)
    killed: list[int] = []
    over = threading.Event()

    def kill_one() -> None:
        while not killed and not over.wait(0.005):
            running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
            for owner in [each.user_attrs["process"] for each in running if "process" in each.user_attrs][:1]:
                time.sleep(0.05)  # in the midst of its work
                with contextlib.suppress(ProcessLookupError):  # it ended first
                    os.kill(int(owner.split(":")[1]), signal.SIGKILL)
                    killed.append(owner)

    killer = threading.Thread(target=kill_one)
    killer.start()
    try:
        found = tune(search, storage=storage, trials=4, jobs=2)
    finally:
        over.set()
        killer.join()
    assert killed
    assert found.count("complete") + found.count("pruned") >= 4
    assert found.count("failed") == found.count("running") == 0
    expected = list(LocalEngine().run(search.cells({})))
    assert found.default is not None
    assert found.default.by_stream == {
        str(record.cell.scenario): record.result.accuracy for record in expected if record.result
    }
    processes = {trial.user_attrs["process"] for trial in study.get_trials()}
    assert len(processes) >= 2


def test_a_trial_that_is_lost_before_it_drew_its_settings_keeps_those_it_was_queued_with(
    opened: Callable[[Search], optuna.Study],
) -> None:
    study = opened(Search(method="tent", **SMALL))
    lost = study.ask()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    lost.set_user_attr("process", f"{socket.gethostname()}:{gone.pid}")
    studies.retry_lost(study)
    again = study.ask(
        {name: optuna.distributions.FloatDistribution(1e-9, 1.0) for name in study.user_attrs["defaults"]}
    )
    assert study.get_trials()[again.number].system_attrs["failed_trial"] == lost.number
    assert again.params == study.user_attrs["defaults"]


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


class Deadly(LocalEngine):
    """An engine whose workers die before they begin a trial."""

    def map(self, tasks: Sequence[Any], on_message: Any = None) -> Iterator[tuple[Any, Any]]:
        return ((task, Died("its worker process was killed by SIGKILL", 0.1)) for task in tasks)


def test_workers_that_die_before_they_begin_are_not_replaced_for_ever(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"no trial was begun, its worker process was killed by SIGKILL: use fewer"):
        tune(Search(method="tent", **SMALL), storage=str(tmp_path / "study"), trials=2, jobs=2, engine=Deadly(jobs=2))


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
