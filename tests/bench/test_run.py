from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from midway._workers import choose
from midway.bench import Cell, Failure, Grid, LocalEngine, Record, Store, Tally, read_records, run
from midway.bench.engines.base import CellTask
from midway.methods import METHODS
from midway.metrics import METRICS


def cells(**plan: Any) -> list[Cell]:
    small = {"methods": "source,bn,tent", "images": 4, "batch_sizes": 2, "device": "cpu"}
    return Grid.from_dict({**small, "scenarios": ["pure:fog", "mixture:fog/snow"], **plan}).cells()


def stored(folder: Path) -> dict[str, Any]:
    return {record.cell.key: record.result and record.result.repeatable() for record in read_records(folder)}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("undisturbed")
    with Store(folder) as store:
        assert run(cells(), store, LocalEngine()) == Tally(before=0, finished=6, failed=0)
    return stored(folder)


def run_here(folder: str) -> None:
    with Store(Path(folder), wait=True) as store:
        run(cells(), store, LocalEngine())


def test_killed_twenty_times_and_resumed_is_the_same_bit_for_bit(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["midway.bench", "torch._dynamo"])  # which optimisers import when they are made

    def start(folder: Path) -> multiprocessing.process.BaseProcess:
        process = context.Process(target=run_here, args=(str(folder),))
        process.start()
        return process

    for _ in range(2):  # the first one also pays for the server
        started = time.monotonic()
        process = start(tmp_path / str(started))
        process.join()
        seconds = time.monotonic() - started
        assert process.exitcode == 0
        assert stored(tmp_path / str(started)) == undisturbed
    moments = random.Random(0)
    left: list[int] = []  # results that each kill left behind
    for kill in range(20):
        folder = tmp_path / f"run{kill // 5}"  # four runs, each killed five times
        process = start(folder)
        process.join(timeout=moments.uniform(0.2, 0.7) * seconds)
        process.kill()
        process.join()
        left.append(len(read_records(folder)) if (folder / "results.jsonl").exists() else 0)
    assert any(0 < count < 6 for count in left), f"no kill came in the middle: {left}"
    for number in range(4):
        folder = tmp_path / f"run{number}"
        with Store(folder) as store:
            run(cells(), store, LocalEngine())
        keys = [record.cell.key for record in read_records(folder)]
        assert len(keys) == len(set(keys)) == 6  # nothing was run twice into the store
        assert stored(folder) == undisturbed


class Scripted(LocalEngine):
    """An engine that answers as told, and counts what it was asked to run."""

    def __init__(self, failing: set[str], stop_after: int | None = None) -> None:
        super().__init__()
        self.failing, self.stop_after, self.asked, self.closed = failing, stop_after, [], False

    asked: list[Cell]

    def run(self, cells: Sequence[Cell], *, keep_predictions: bool = False, on_batch: Any = None) -> Iterator[Record]:
        self.asked += cells
        try:
            for number, cell in enumerate(cells):
                if number == self.stop_after:
                    raise KeyboardInterrupt
                failure = Failure("Oops: no", "trace") if cell.method in self.failing else None
                result = None if failure else next(LocalEngine().run([cell])).result
                yield Record(cell, result, failure, 0.1, {})
        finally:
            self.closed = True


def test_failures_are_recorded_and_tried_again(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    first = Scripted(failing={"bn"})
    with Store(tmp_path) as store:
        assert run(cells(), store, first) == Tally(before=0, finished=4, failed=2)
    again = Scripted(failing=set())
    with Store(tmp_path) as store:
        assert run(cells(), store, again) == Tally(before=4, finished=2, failed=0)
    assert {cell.method for cell in again.asked} == {"bn"}
    assert stored(tmp_path) == undisturbed


def test_an_interrupt_keeps_what_is_finished(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    engine = Scripted(failing=set(), stop_after=2)
    with Store(tmp_path) as store, pytest.raises(KeyboardInterrupt):
        run(cells(), store, engine)
    assert engine.closed
    assert len(stored(tmp_path)) == 2
    with Store(tmp_path) as store:
        assert run(cells(), store, LocalEngine()) == Tally(before=2, finished=4, failed=0)
    assert stored(tmp_path) == undisturbed


def test_finished_cells_without_the_wanted_predictions_run_again(tmp_path: Path) -> None:
    plan = cells(methods="source", scenarios="pure:fog")
    with Store(tmp_path) as store:
        run(plan, store, LocalEngine())
        assert run(plan, store, LocalEngine(), keep_predictions=True).finished == 1
        assert run(plan, store, LocalEngine(), keep_predictions=True).finished == 0
        assert run(plan, store, LocalEngine()).finished == 0
    one, two = read_records(tmp_path)
    assert one.result is not None
    assert two.result is not None
    assert one.result.repeatable() == two.result.repeatable()


def test_two_jobs_give_the_bits_of_one_and_a_killed_worker_costs_its_cell(undisturbed: dict[str, Any]) -> None:
    killed: list[int] = []

    def kill_one(cell: Cell, done: int, total: int, running: float) -> None:
        if not killed:
            victim = multiprocessing.active_children()[0]
            assert victim.pid is not None
            killed.append(victim.pid)
            os.kill(victim.pid, signal.SIGKILL)

    outcomes = list(LocalEngine(jobs=2).run(cells(), on_batch=kill_one))
    failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
    assert len(outcomes) == 6
    assert failures == [Failure("its worker process was killed by SIGKILL (out of memory?)")]
    finished = {outcome.cell.key: outcome.result.repeatable() for outcome in outcomes if outcome.result is not None}
    assert len(finished) == 5
    assert finished == {key: undisturbed[key] for key in finished}
    assert not multiprocessing.active_children()


def test_an_interrupt_stops_the_workers() -> None:
    def interrupt(cell: Cell, done: int, total: int, running: float) -> None:
        assert multiprocessing.active_children()
        raise KeyboardInterrupt

    (cell,) = cells(methods="source", scenarios="pure:fog", images=2000)
    with pytest.raises(KeyboardInterrupt):
        list(LocalEngine(jobs=2).run([cell], on_batch=interrupt))
    assert not multiprocessing.active_children()


def test_workers_prefer_their_stream() -> None:
    plan = [CellTask(cell) for cell in cells()]
    one, two, other = plan[0].affinity, plan[3].affinity, CellTask(cells(seeds=9)[0]).affinity
    waiting = [plan[1], plan[2], plan[4], plan[5]]
    assert choose(waiting, two, [one]) == 2
    assert choose(waiting, one, [two]) == 0
    assert choose(waiting, other, []) == 0  # no worker has it: the first
    assert choose([plan[2], plan[5]], other, [one]) == 1  # the one that no worker has
    assert choose([plan[2]], other, [one]) == 0


def test_engines_refuse_no_jobs_and_accept_no_cells() -> None:
    with pytest.raises(ValueError, match="jobs must be at least 1, got 0"):
        LocalEngine(jobs=0)
    assert list(LocalEngine(jobs=2).run([])) == []


def test_workers_know_metrics_and_methods_of_other_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of_somebody_else.py").write_text(
        "from dataclasses import replace\n"
        "from midway.methods import BN, register\n"
        "from midway.metrics import metric\n"
        "@register\n"
        "class TheirBN(BN):\n"
        "    about = replace(BN.about, name='their_bn')\n"
        "@metric('answers')\n"
        "def number_of_answers(answers):\n"
        "    return float(len(answers.labels))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(METHODS, "_objects", dict(METHODS))
    monkeypatch.setattr(METRICS, "_objects", dict(METRICS))
    plan = cells(**{"methods": "their_bn", "import": "of_somebody_else"})
    records = list(LocalEngine(jobs=2).run(plan))
    assert [record.failure for record in records] == [None, None]
    assert [record.result.metrics["number_of_answers"] for record in records if record.result] == [4.0, 4.0]
    del sys.modules["of_somebody_else"]
