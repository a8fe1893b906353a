"""Trials whose process is stopped, killed or fails, and processes that share a study."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from midway._workers import Died
from midway.bench import Cell, LocalEngine
from midway.tune import Search, SettingsAccuracy, tune
from midway.tune import study as studies
from midway.tune.storage import this_process
from toy_search import SMALL, toy, tried


@pytest.mark.usefixtures("by_formula")
def test_stopped_lost_and_resumed_is_the_same_as_undisturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Callable[[Search], optuna.Study]
) -> None:
    search = Search(method="tent", seed=1, **SMALL)
    undisturbed = tune(search, storage=str(tmp_path / "one"), trials=12)
    assert len({str(trial.settings) for trial in undisturbed.trials}) == 12  # no start draws the same again

    storage, calls = str(tmp_path / "study"), 0

    def interrupted(*args: Any, **kwargs: Any) -> SettingsAccuracy:
        nonlocal calls
        calls += 1
        if calls in (1, 4, 9):
            raise KeyboardInterrupt
        return toy(*args, **kwargs)

    monkeypatch.setattr(studies, "measure_accuracy", interrupted)
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


def test_failures_are_recorded_and_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(cells: Sequence[Cell], streams: Any, resources: Any, *, on_round: Any) -> SettingsAccuracy:
        if cells[0].settings["steps"] > 1:
            raise RuntimeError("too many steps\nand more")
        return SettingsAccuracy(50.0, {}, {})

    monkeypatch.setattr(studies, "measure_accuracy", failing)
    found = tune(Search(method="tent", **SMALL), storage=str(tmp_path / "study"), trials=8)
    failed = [trial for trial in found.trials if trial.state == "failed"]
    assert [trial.settings["steps"] > 1 for trial in found.trials] == [trial in failed for trial in found.trials]
    assert {trial.failure for trial in failed} == {"RuntimeError: too many steps"}
    assert 0 < found.count("complete") == 8 - len(failed) < 8


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


class Deadly(LocalEngine):
    """An engine whose workers die before they begin a trial."""

    def map(self, tasks: Sequence[Any], on_message: Any = None) -> Iterator[tuple[Any, Any]]:
        return ((task, Died("its worker process was killed by SIGKILL", 0.1)) for task in tasks)


def test_workers_that_die_before_they_begin_are_not_replaced_for_ever(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"no trial was begun, its worker process was killed by SIGKILL: use fewer"):
        tune(Search(method="tent", **SMALL), storage=str(tmp_path / "study"), trials=2, jobs=2, engine=Deadly(jobs=2))
