"""Engines: how one cell is run, the interface of engines, their registry, and the engine of this machine."""

from __future__ import annotations

import importlib
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeVar

import torch
from numpy.typing import NDArray

from midway._errors import describe_error
from midway._registry import Registry
from midway._workers import Died, Task, Tell, run_here, run_in_workers
from midway.adaptation.parameters import first_weight
from midway.bench.code import registering_modules
from midway.bench.environment import environment
from midway.bench.measure import measure, predict
from midway.bench.record import Cell, Failure, Record, Result
from midway.bench.resources import ResourceCache
from midway.cost.measured import count_cost

T = TypeVar("T", bound=Task)
E = TypeVar("E", bound="type[Engine]")

OnBatch = Callable[[Cell, int, int, float], None]
"""Called after every batch: the cell, batches done, batches in all, accuracy so far in percent."""


def run_cell(
    cell: Cell, resources: ResourceCache, *, keep_predictions: bool = False, on_batch: OnBatch | None = None
) -> Record:
    """Run one cell; an error becomes a failed record, so the other cells go on.

    Args:
        cell: What to run.
        resources: Data and networks of this process.
        keep_predictions: Also return logits, labels and groups.
        on_batch: Called after every batch.

    Example:
        >>> from midway.bench import Grid, ResourceCache, run_cell
        >>> cell = Grid.from_dict({"methods": "source", "scenarios": "pure:clean", "images": 200}).cells()[0]
        >>> run_cell(cell, ResourceCache()).result.accuracy > 90
        True
    """
    started = time.perf_counter()
    result: Result | None = None
    failure: Failure | None = None
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with using_threads(cell.threads):
            result, arrays = _evaluate(cell, resources, keep_predictions, on_batch)
    except Exception as error:
        failure = Failure(describe_error(error), traceback.format_exc())
    return make_record(cell, result, failure, time.perf_counter() - started, arrays)


def make_record(
    cell: Cell,
    result: Result | None,
    failure: Failure | None,
    seconds: float,
    arrays: dict[str, NDArray[Any]] | None = None,
) -> Record:
    """Return the record of a cell that has just ended in this environment."""
    where = environment() | {"threads": cell.threads}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Record(cell, result, failure, seconds, where, finished=now, arrays=arrays or {})


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Let torch use this many threads of the processor within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _evaluate(
    cell: Cell, resources: ResourceCache, keep_predictions: bool, on_batch: OnBatch | None
) -> tuple[Result, dict[str, NDArray[Any]]]:
    stream = resources.stream(cell)
    done = 0

    def tick(running: float) -> None:
        nonlocal done
        done += 1
        if on_batch is not None:
            on_batch(cell, done, len(stream), running)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # single images and the like: a plan asks for them on purpose
        method = resources.method(cell)
        first = next(iter(stream)).images.to(first_weight(method, torch.empty(0)))
        method(first[:2])  # a method checks a new shape with an extra pass, which must not count
        method.reset()
        cost: dict[str, float | None] = {}  # of the first batch: no batch is run for counting alone
        predictions = predict(method, stream, on_batch=tick, around_first=lambda: count_cost(method, first, cost))
        result = measure(method, stream, replace(predictions, cost=cost))
    names = ("logits", "labels", "group") if keep_predictions else ()
    return result, {name: getattr(predictions, name).numpy() for name in names}


@dataclass(frozen=True)
class ResourceTask(Task):
    """A task with the threads and the device of a cell; it needs modules that register its method and so on."""

    cell: Cell
    modules: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def threads(self) -> int:
        """The threads of the cell."""
        return self.cell.threads

    @property
    def device(self) -> str:
        """The device of the cell."""
        return self.cell.device

    def register(self) -> None:
        """Import the modules outside midway that register the method, the scenario and so on."""
        for module in self.modules:
            importlib.import_module(module)


@dataclass(frozen=True)
class CellTask(ResourceTask):
    """One cell as a task; its record carries the predictions if they are wanted."""

    throttled: ClassVar[bool] = True

    keep_predictions: bool = False

    @property
    def affinity(self) -> Hashable:
        """Cells of one stream share its images."""
        return self.cell.stream_key

    def __str__(self) -> str:
        return str(self.cell)

    def run(self, memory: dict[str, Any], tell: Tell) -> Record:
        """Run the cell with the data and networks of this process."""
        self.register()
        return run_cell(
            self.cell,
            memory.setdefault("resources", ResourceCache()),
            keep_predictions=self.keep_predictions,
            on_batch=lambda cell, done, total, running: tell((done, total, running)),
        )


class Engine(ABC):
    """Runs tasks somewhere and yields each result as soon as it exists, in any order.

    ``midway run`` gives it cells, ``midway tune`` workers of a search. A new engine implements ``map`` and registers
    itself with ``@engine("name")``; the keyword arguments of its constructor are its options.

    Attributes:
        local: Tasks run on this machine.
        resources: Data and networks of this process, if tasks run in it.

    Example:
        >>> from midway.bench.engines import ENGINES
        >>> sorted(ENGINES)[:2]
        ['local', 'ray']
    """

    local: ClassVar[bool] = False
    resources: ResourceCache | None = None

    @abstractmethod
    def map(self, tasks: Sequence[T], on_message: Callable[[T, Any], None] | None = None) -> Iterator[tuple[T, Any]]:
        """Run tasks and yield each with its result; the result of a task whose process died is ``Died``.

        Closing the iterator stops the tasks that are running. ``on_message`` is called with a task and a message it
        sent, in the calling thread.
        """

    @abstractmethod
    def slots(self, task: Task) -> int:
        """Return how many such tasks run at a time."""

    def run(
        self, cells: Sequence[Cell], *, keep_predictions: bool = False, on_batch: OnBatch | None = None
    ) -> Iterator[Record]:
        """Run cells and yield their records; an error in a cell, or a killed worker, becomes a failed record."""
        tasks = [CellTask(cell, keep_predictions, modules=registering_modules(cell)) for cell in cells]

        def on_message(task: CellTask, message: tuple[int, int, float]) -> None:
            if on_batch is not None:
                on_batch(task.cell, *message)

        with closing(self.map(tasks, on_message if on_batch is not None else None)) as results:  # type: ignore[type-var]
            for task, result in results:
                if isinstance(result, Died):
                    result = make_record(task.cell, None, Failure(result.reason), result.seconds)
                yield result


ENGINES: Registry[type[Engine]] = Registry("engine", group="engines", package="midway.bench.engines")
"""Every engine by name."""


def engine(name: str) -> Callable[[E], E]:
    """Register a class of engines under a name; ``midway run --engine NAME`` then uses it.

    Example:
        >>> from midway.bench import ENGINES, LocalEngine, engine
        >>> @engine("backwards")
        ... class Backwards(LocalEngine):
        ...     def map(self, tasks, on_message=None):
        ...         return super().map(tasks[::-1], on_message)
        >>> ENGINES["backwards"] is Backwards
        True
        >>> ENGINES.remove("backwards")
    """

    def register(kind: E) -> E:
        ENGINES.add(name, kind)
        return kind

    return register


@engine("local")
class LocalEngine(Engine):
    """Runs tasks on this machine.

    A cell uses the threads of its plan whatever the number of jobs, so the numbers are the same bits.

    Args:
        jobs: Tasks at a time. 1 runs them in this process; more run in worker processes, each of which loads data and
            networks once. A worker that is killed costs its cell and is replaced.
        resources: Data and networks that are loaded already, for one job.

    Example:
        >>> from midway.bench import Grid, LocalEngine
        >>> cells = Grid.from_dict({"methods": "source,bn", "images": 100, "batch_sizes": 50}).cells()
        >>> [(record.cell.label, record.result.images) for record in LocalEngine().run(cells)]
        [('source', 100), ('bn', 100)]
    """

    local: ClassVar[bool] = True

    def __init__(self, *, jobs: int = 1, resources: ResourceCache | None = None) -> None:
        if jobs < 1:
            raise ValueError(f"jobs must be at least 1, got {jobs}.")
        self.jobs = jobs
        self.resources = (resources or ResourceCache()) if jobs == 1 else None

    def map(self, tasks: Sequence[T], on_message: Callable[[T, Any], None] | None = None) -> Iterator[tuple[T, Any]]:
        """Run tasks and yield each with its result as it ends."""
        if self.jobs == 1:
            return run_here(tasks, memory={"resources": self.resources}, on_message=on_message)
        return run_in_workers(tasks, jobs=self.jobs, on_message=on_message)

    def slots(self, task: Task) -> int:
        """Return the number of jobs."""
        return self.jobs
