"""The pool of worker processes: results, messages, errors, and workers that die at any moment."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from midway import _workers as workers
from midway._workers import DEATHS_BEFORE_WORK, Died, Task, Tell, WorkerError, run_here, run_in_workers


@dataclass(frozen=True)
class Square(Task):
    number: int

    def run(self, memory: dict[str, Any], tell: Tell) -> tuple[int, int, str]:
        memory["tasks"] = memory.get("tasks", 0) + 1
        tell(f"squaring {self.number}")
        return self.number**2, memory["tasks"], os.environ.get("OMP_NUM_THREADS", "")


@dataclass(frozen=True)
class Fatal(Task):
    number: int

    def run(self, memory: dict[str, Any], tell: Tell) -> int:
        if self.number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.number == 2:
            os._exit(7)
        return self.number


@dataclass(frozen=True)
class Wrong(Task):
    kind: str = "plain"

    def run(self, memory: dict[str, Any], tell: Tell) -> None:
        if self.kind == "unpicklable":
            raise UnpicklableError(lambda: None)
        if self.kind == "of two arguments":
            raise OfTwoArgumentsError("lr", "must be positive")
        raise ValueError("lr must be positive")


class UnpicklableError(Exception):
    """Holds a function."""


class OfTwoArgumentsError(ValueError):
    """Can be pickled, but not be created again from its message."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} {reason}")


@dataclass(frozen=True)
class Patient(Task):
    stop_seconds: ClassVar[float] = 600.0
    folder: Path

    def run(self, memory: dict[str, Any], tell: Tell) -> None:
        try:
            tell("running")  # the interrupt may arrive before this returns
            time.sleep(600)
        except KeyboardInterrupt:
            os.kill(os.getpid(), signal.SIGTERM)  # a signal to the group of processes arrives twice
            (self.folder / "stopped").write_text("in order")
            raise


@dataclass(frozen=True)
class Large(Task):
    content: bytes = b"x" * 2**22  # more than a pipe holds

    def run(self, memory: dict[str, Any], tell: Tell) -> int:
        return len(self.content)


def test_here_and_in_workers_give_the_same() -> None:
    tasks = [Square(number) for number in range(6)]
    messages: list[tuple[int, str]] = []

    def listen(task: Square, message: str) -> None:
        messages.append((task.number, message))

    alone = [(task.number, result[:2]) for task, result in run_here(tasks, on_message=listen)]
    assert alone == [(number, (number**2, number + 1)) for number in range(6)]
    results = list(run_in_workers(tasks, jobs=2, on_message=listen))
    assert sorted((task.number, result[0]) for task, result in results) == [(n, n**2) for n in range(6)]
    assert sum(result[1] == 1 for _, result in results) == 2  # two processes, which keep their memory
    assert {result[2] for _, result in results} == {"1"}
    assert sorted(messages) == sorted(2 * [(number, f"squaring {number}") for number in range(6)])
    assert not multiprocessing.active_children()
    assert list(run_in_workers([], jobs=2)) == []


def test_a_worker_that_dies_costs_its_task_and_is_replaced() -> None:
    results = dict(run_in_workers([Fatal(number) for number in range(5)], jobs=2))
    assert {task.number: result for task, result in results.items() if not isinstance(result, Died)} == {
        0: 0,
        3: 3,
        4: 4,
    }
    killed, ended = results[Fatal(1)], results[Fatal(2)]
    assert killed.reason == "its worker process was killed by SIGKILL (out of memory?)"
    assert ended.reason == "its worker process ended with status 7"
    assert killed.seconds > 0


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("plain", ValueError, "^lr must be positive"),
        ("unpicklable", RuntimeError, "^UnpicklableError: "),
        ("of two arguments", ValueError, "^lr must be positive"),
    ],
)
def test_an_exception_of_a_task_is_raised(kind: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        list(run_in_workers([Wrong(kind), Square(2)], jobs=2))
    assert not multiprocessing.active_children()


def die(connection: Any) -> None:
    """End as a process does that the system kills while it starts."""
    os._exit(9)


@pytest.mark.parametrize("task", [Square(2), Large()], ids=["small", "large"])
def test_workers_that_die_while_they_start_end_the_run_and_never_hang_it(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_serve", die)
    started: list[Task] = []
    first = workers._Worker.__init__

    def counted(self: workers._Worker, task: Task) -> None:
        started.append(task)
        first(self, task)

    monkeypatch.setattr(workers._Worker, "__init__", counted)
    with pytest.raises(WorkerError, match=r"died before they began to work \(its worker process ended with status 9\)"):
        list(run_in_workers([task], jobs=1))
    assert len(started) == DEATHS_BEFORE_WORK + 1
    assert not multiprocessing.active_children()


def test_large_tasks_arrive() -> None:
    assert [result for _, result in run_in_workers([Large(), Large()], jobs=2)] == [2**22, 2**22]


def test_an_interrupt_gives_tasks_time_to_stop(tmp_path: Path) -> None:
    def interrupt(task: Patient, message: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_in_workers([Patient(tmp_path)], jobs=1, on_message=interrupt))
    assert (tmp_path / "stopped").read_text() == "in order"
    assert not multiprocessing.active_children()
