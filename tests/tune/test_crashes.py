"""Searches that are killed while they write, on full disks, and in containers that share a name."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from midway.bench import Cell, load_plan
from midway.bench.resources import ResourceCache
from midway.tune import Search, SettingsAccuracy, StudyResult, TrialRecord, held_out_plan, tune
from midway.tune import study as studies
from midway.tune.storage import hide_password, open_storage, status_of, this_process, without_password

SMALL: dict[str, Any] = {"scenarios": ("pure:spatter",), "images": 20, "batch_size": 10}
SEARCH = Search(method="tent", **SMALL)


def toy(cells: Sequence[Cell], streams: Any, resources: Any, *, on_round: Any) -> SettingsAccuracy:
    value = 80.0 - abs(cells[0].settings["lr"] - 0.003) * 1000
    return SettingsAccuracy(value, {"pure:spatter": value}, {})


@pytest.fixture(autouse=True)
def _by_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "measure_accuracy", toy)


def accuracies(found: StudyResult) -> list[float]:
    return [trial.accuracy or 0.0 for trial in found.trials]


def test_a_lock_that_a_killed_process_left_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "study.journal.lock").symlink_to("out/study.journal")  # as Optuna's own lock is
    assert len(tune(SEARCH, storage="out/study.journal", trials=3).trials) == 3


@pytest.mark.parametrize("cut", [1, 15])
def test_a_truncated_last_line_is_repaired(tmp_path: Path, cut: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tune(SEARCH, storage=str(tmp_path / "whole"), trials=5)
    journal = tmp_path / "journal"
    tune(SEARCH, storage=str(journal), trials=3)
    os.truncate(journal, journal.stat().st_size - cut)
    monkeypatch.setattr(studies, "status_of", lambda process: "dead")  # whoever was at the trial whose end is torn off
    resumed = tune(SEARCH, storage=str(journal), trials=5)
    assert sorted(accuracies(resumed)) == sorted(accuracies(whole))


def test_a_damaged_line_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    tune(SEARCH, storage=str(journal), trials=2)
    lines = journal.read_bytes().splitlines(keepends=True)
    damaged = b"".join([lines[0], b'{"op_code": ', b"\n", *lines[2:], b'{"torn'])
    journal.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"journal:2: this line is not part of the journal of a search"):
        tune(SEARCH, storage=str(journal), trials=3)
    assert journal.read_bytes() == damaged


@pytest.mark.parametrize("content", ["# Read me\n\nmore\n", "one line", '{"a": 1}\n'])
def test_other_files_are_no_journals(tmp_path: Path, content: str) -> None:
    (tmp_path / "README.md").write_text(content)
    with pytest.raises(ValueError, match=r"README.md.* choose another storage"):
        tune(SEARCH, storage=str(tmp_path / "README.md"), trials=1)
    assert (tmp_path / "README.md").read_text() == content
    with pytest.raises(ValueError, match="cannot be written to"):
        tune(SEARCH, storage=str(tmp_path), trials=1)


def test_a_process_is_more_than_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    me = this_process()
    host, number, start, boot, namespace = me.split(":")
    assert (host, number) == (socket.gethostname(), str(os.getpid()))
    assert status_of(me) == "alive"
    assert status_of(f"{host}:{number}:{int(start) + 1}:{boot}:{namespace}") == "dead"  # the number was given anew
    assert status_of(f"{host}:{number}:{start}:another-boot:{namespace}") == "dead"
    assert status_of(f"{host}:{number}:{start}:{boot}:another-namespace") == "unknown"
    assert status_of(f"elsewhere:{number}:{start}:{boot}:{namespace}") == "unknown"
    monkeypatch.setattr("midway.tune.storage.Path", lambda _: Path("/nowhere"))  # a system that does not tell
    assert status_of(this_process()) == "alive"


def test_what_runs_very_much_longer_than_any_trial_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(SEARCH, storage=str(tmp_path / "study"), trials=2)
    with open_storage(str(tmp_path / "study")) as storage:
        study = studies.open_study(SEARCH, storage, ResourceCache())
        study.ask().set_user_attr("process", "elsewhere:1:1:boot:room")
        studies.retry_lost(study)
        assert len(study.get_trials(states=(TrialState.RUNNING,))) == 1

        class Later(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
                return datetime.now(tz) + timedelta(minutes=11)

        monkeypatch.setattr(studies, "datetime", Later)
        studies.retry_lost(study)
        assert not study.get_trials(states=(TrialState.RUNNING,))
        assert len(study.get_trials(states=(TrialState.WAITING,))) == 1


def test_a_trial_that_others_gave_up_does_not_end_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "study")
    stolen: list[int] = []

    def steal(*args: Any, **kwargs: Any) -> SettingsAccuracy:
        if not stolen:
            with open_storage(path) as storage:
                study = optuna.load_study(study_name=SEARCH.name, storage=storage)
                (running,) = study.get_trials(states=(TrialState.RUNNING,))
                study.tell(running.number, state=TrialState.FAIL)
                studies.retry(study, running)
            stolen.append(running.number)
        return toy(*args, **kwargs)

    monkeypatch.setattr(studies, "measure_accuracy", steal)
    found = tune(SEARCH, storage=path, trials=3)
    assert found.count("complete") == 3


def test_an_error_while_settings_are_drawn_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise RuntimeError("no such space")

    monkeypatch.setattr(studies, "suggest", broken)
    found = tune(SEARCH, storage=str(tmp_path / "study"), trials=1)
    assert found.trials[0].failure == "RuntimeError: no such space"


def test_a_plan_keeps_what_is_held_at_none(tmp_path: Path) -> None:
    search = Search(method="tea", held={"langevin_noise": None, "langevin_steps": 1}, **SMALL)
    defaults = search.defaults(ResourceCache())
    trials = [TrialRecord(n, "complete", s, 70.0 + n) for n, s in enumerate((defaults, defaults | {"lr": 0.01}))]
    plan = tmp_path / "best.toml"
    plan.write_text(held_out_plan(search, StudyResult("tea", search.name, {}, defaults, tuple(trials), {})))
    found = load_plan(plan).methods
    assert [entry.label for entry in found] == ["tea, defaults", "tea, tuned"]
    assert [entry.settings["langevin_noise"] for entry in found] == [None, None]
    assert found[1].settings["lr"] == 0.01


def test_no_password_is_shown_wherever_it_stands() -> None:
    for address in ("postgresql://127.0.0.1:9/x?password=my secret&connect_timeout=1", "postgresql://a:my/secret@h/x"):
        with pytest.raises(ValueError, match=r"cannot be opened|needs a driver") as caught:
            open_storage(address).__enter__()
        assert "secret" not in str(caught.value)


def test_passwords_are_hidden() -> None:
    assert without_password("postgresql://ann:se/cr@t@host/name") == "postgresql://ann:***@host/name"
    assert without_password("study.journal") == "study.journal"
    hidden = without_password("postgresql://host/name?password=my secret&user=ann")
    assert hidden == "postgresql://host/name?password=***&user=ann"
    text = hide_password("no such user, password=secret", "postgresql://ann:secret@host/name")
    assert text == "no such user, password=***"
