"""Worker processes: tasks are sent as descriptions, results and progress messages come back through pipes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, ClassVar, Self, TypeVar

from midway._allocator import keep_freed_memory

DEATHS_BEFORE_WORK = 3
"""Workers in a row that may die before they begin any task."""

Tell = Callable[[Any], None]
"""Sends a message from a running task to the process that started it."""


def count_processors() -> int:
    """Return the number of processors that this process may use.

    Example:
        >>> count_processors() >= 1
        True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Task(ABC):
    """A description of work, small and picklable; data are loaded where the task runs."""

    stop_seconds: ClassVar[float] = 0.0
    """Time to stop after a KeyboardInterrupt when the run is interrupted; with 0 the process is killed."""

    throttled: ClassVar[bool] = False
    """A message replaces the earlier ones, so an engine may drop some that follow each other quickly."""

    @property
    def threads(self) -> int:
        """Threads that the libraries of a process started for the task use."""
        return 1

    @property
    def device(self) -> str:
        """The device on which the task computes."""
        return "cpu"

    @property
    def affinity(self) -> Hashable:
        """Tasks of equal affinity share data in memory; a worker prefers tasks of the affinity it had last."""
        return None

    @abstractmethod
    def run(self, memory: dict[str, Any], tell: Tell) -> Any:
        """Do the work and return a picklable result; an exception ends the whole run.

        ``memory`` is a dictionary of the process, for what later tasks can use again.
        """


T = TypeVar("T", bound=Task)


@dataclass(frozen=True)
class Died:
    """The result of a task whose process died, and the time since the task was given to it."""

    reason: str
    seconds: float


class WorkerError(RuntimeError):
    """Workers die before they begin to work."""


def run_here(
    tasks: Sequence[T], *, memory: dict[str, Any] | None = None, on_message: Callable[[T, Any], None] | None = None
) -> Iterator[tuple[T, Any]]:
    """Run tasks one after the other in this process, with the interface of ``run_in_workers``."""
    memory = {} if memory is None else memory
    for task in tasks:

        def tell(message: Any, task: T = task) -> None:
            if on_message is not None:
                on_message(task, message)

        yield task, task.run(memory, tell)


def run_in_workers(
    tasks: Sequence[T], *, jobs: int, on_message: Callable[[T, Any], None] | None = None
) -> Iterator[tuple[T, Any]]:
    """Run tasks in worker processes that end with the last task; see ``WorkerPool.run``."""
    with WorkerPool(jobs) as pool:
        yield from pool.run(tasks, on_message)


class WorkerPool:
    """Worker processes that run tasks; they start when they are needed and end with the pool.

    The processes are spawned: a forked process would wait for threads, such as those of torch, that it does not have.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._idle: list[_Worker] = []

    def run(self, tasks: Sequence[T], on_message: Callable[[T, Any], None] | None = None) -> Iterator[tuple[T, Any]]:
        """Run tasks and yield each with its result as it ends, in any order.

        A worker that dies costs its task, whose result is ``Died``, and is replaced. Closing the iterator stops the
        tasks that are running.
        """
        waiting: list[T] = list(tasks)
        busy: list[_Worker] = []
        deaths = 0
        try:
            while waiting or busy:
                while waiting and len(busy) < self.jobs:
                    self._give_next(waiting, busy)
                for worker in _ready(busy):
                    task: T = worker.task
                    try:
                        kind, content = worker.receive()
                    except (EOFError, OSError):
                        busy.remove(worker)
                        died = worker.end()
                        if worker.began:
                            yield task, died
                        else:
                            deaths += 1
                            _check_deaths(deaths, died)
                            waiting.insert(0, task)
                        continue
                    deaths = 0
                    if kind == "message" and on_message is not None:
                        on_message(task, content)
                    elif kind == "error":
                        raise content
                    elif kind == "result":
                        busy.remove(worker)
                        self._idle.append(worker)
                        if waiting:
                            self._give_next(waiting, busy)
                        yield task, content
        finally:
            for worker in busy:
                worker.stop()
            for worker in busy:
                worker.end(after=worker.task.stop_seconds)

    def _give_next(self, waiting: list[T], busy: list[_Worker]) -> None:
        """Give one of the waiting tasks to an idle worker, or to a new one."""
        worker = self._idle.pop() if self._idle else None
        last = None if worker is None else worker.task.affinity
        task = waiting.pop(choose(waiting, last, [each.task.affinity for each in busy]))
        if worker is None:
            worker = _Worker(task)
        busy.append(worker)
        worker.give(task)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._idle:
            worker.end()
        self._idle = []


def _check_deaths(deaths: int, died: Died) -> None:
    if deaths > DEATHS_BEFORE_WORK:
        raise WorkerError(
            f"{deaths} worker processes in a row died before they began to work ({died.reason}): use fewer jobs, "
            "check the memory, and call scripts under `if __name__ == '__main__'`."
        )


def choose(waiting: Sequence[Task], mine: Hashable, others: Sequence[Hashable]) -> int:
    """Return the index of a worker's next task: of its own affinity, else of one that no other worker has."""
    return min(
        range(len(waiting)),
        key=lambda index: (waiting[index].affinity != mine) * (1 + (waiting[index].affinity in others)),
    )


class _Worker:
    """A process, the pipe to it, and its task."""

    def __init__(self, task: Task) -> None:
        self.task: Any = task
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_serve, args=(theirs,), daemon=True)
        with _environment_of_children(task.threads):
            self.process.start()
        theirs.close()  # the end of the process is then the end of the pipe
        self.began, self.started = False, time.perf_counter()

    def give(self, task: Task) -> None:
        """Send a task; if the process is dead, the next look at the pipe shows it."""
        self.task, self.began, self.started = task, False, time.perf_counter()
        with suppress(OSError):
            self.connection.send(task)

    def receive(self) -> tuple[str, Any]:
        """Return the next message; raise EOFError if the process died."""
        if not self.connection.poll():
            raise EOFError  # the process ended, but another one holds its end of the pipe
        kind, content = self.connection.recv()
        self.began = True
        return kind, content

    def stop(self) -> None:
        """Ask the process to end now."""
        if self.task.stop_seconds:
            self.process.terminate()
        else:
            self.process.kill()

    def end(self, after: float | None = None) -> Died:
        """Close the pipe, wait for the process, and describe how it ended."""
        self.connection.close()
        self.process.join(after or None)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        code = self.process.exitcode or 0
        if code < 0:
            hint = " (out of memory?)" if -code == signal.SIGKILL else ""
            reason = f"its worker process was killed by {signal.Signals(-code).name}{hint}"
        else:
            reason = f"its worker process ended with status {code}"
        return Died(reason, time.perf_counter() - self.started)


def _ready(workers: Sequence[_Worker]) -> list[_Worker]:
    """Wait until workers have sent something or have died, and return them."""
    ready = wait([handle for worker in workers for handle in (worker.connection, worker.process.sentinel)])
    return [worker for worker in workers if worker.connection in ready or worker.process.sentinel in ready]


@contextmanager
def _environment_of_children(threads: int) -> Iterator[None]:
    """Start processes with this many threads and without Ctrl-C, which the parent handles for the whole group."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = str(threads)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if hasattr(signal, "pthread_sigmask") else None
    try:
        yield
    finally:
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


def _serve(connection: Connection) -> None:
    """Run tasks in a worker process until the pipe ends."""

    def interrupt(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one, of the parent or the group, lets the task stop
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the parent stops its workers when the terminal is closed
    signal.signal(signal.SIGTERM, interrupt)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    keep_freed_memory()
    memory: dict[str, Any] = {}
    with suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            try:
                task = connection.recv()
                connection.send(("began", None))
                result = task.run(memory, lambda message: connection.send(("message", message)))
            except EOFError:
                break
            except Exception as error:
                error.add_note(traceback.format_exc())
                connection.send(("error", error if _survives_pickle(error) else _described(error)))
                break
            connection.send(("result", result))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # nothing is left to stop while the interpreter ends


def _survives_pickle(error: Exception) -> bool:
    """Return whether an exception arrives whole: some hold what cannot be sent, or need more than their message."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 written in this line
    except Exception:  # the code of an exception can raise anything
        return False
    return True


def _described(error: Exception) -> Exception:
    """Return an exception that can be sent in place of another; one that a user can correct stays one."""
    kind = ValueError if isinstance(error, ValueError | OSError) else RuntimeError
    return kind(str(error) if kind is ValueError else f"{type(error).__name__}: {error}")


def _end_with_parent() -> None:
    """End this process when its parent ends: a killed run leaves no workers behind."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)
