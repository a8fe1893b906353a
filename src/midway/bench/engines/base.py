"""The interface and the registry of engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from midway.bench.cell import Cell
from midway.bench.code import import_modules, registering_modules
from midway.bench.record import Failure, Record
from midway.bench.resources import ResourceCache
from midway.bench.work import OnBatch, make_record, run_cell
from midway.registry import Registry
from midway.workers import Died, Task, Tell

T = TypeVar("T", bound=Task)
E = TypeVar("E", bound="type[Engine]")


class Engine(ABC):
    """Runs tasks somewhere and yields each result as soon as it exists, in any order.

    ``midway run`` gives it cells, ``midway tune`` workers of a search. A new engine implements ``map`` and registers
    itself with ``@engine("name")``; the keyword arguments of its constructor are its options.

    Attributes:
        local: Tasks run on this machine.
        resources: Data and networks of this process, if tasks run in it.

    Example:
        >>> from midway.bench.engines import ENGINES
        >>> sorted(ENGINES)
        ['local', 'ray']
    """

    local: ClassVar[bool] = False
    resources: ResourceCache | None = None

    @abstractmethod
    def map(self, tasks: Sequence[T], on_message: Callable[[T, Any], None] | None = None) -> Iterator[tuple[T, Any]]:
        """Run tasks and yield each with its result; the result of a task whose process died is ``Died``.

        Closing the iterator stops the tasks that are running.

        Args:
            tasks: What to run, in this order if the engine has one.
            on_message: Called with a task and a message it sent, in the calling thread.
        """

    @abstractmethod
    def slots(self, task: Task) -> int:
        """Return how many such tasks run at a time."""

    def run(
        self, cells: Sequence[Cell], *, keep_predictions: bool = False, on_batch: OnBatch | None = None
    ) -> Iterator[Record]:
        """Run cells and yield their records; an error in a cell, or a killed worker, becomes a failed record.

        Args:
            cells: What to run.
            keep_predictions: Records carry logits, labels and groups.
            on_batch: Called after batches, in the calling thread.
        """
        tasks = [CellTask(cell, keep_predictions, registering_modules(cell)) for cell in cells]

        def on_message(task: CellTask, message: tuple[int, int, float]) -> None:
            if on_batch is not None:
                on_batch(task.cell, *message)

        with closing(self.map(tasks, on_message if on_batch is not None else None)) as results:  # type: ignore[type-var]
            for task, result in results:
                if isinstance(result, Died):
                    result = make_record(task.cell, None, Failure(result.reason), result.seconds)
                yield result


@dataclass(frozen=True)
class TaskOfCell(Task):
    """A task with the threads and the device of a cell.

    Attributes:
        cell: The cell.
    """

    cell: Cell

    @property
    def threads(self) -> int:
        """The threads of the cell."""
        return self.cell.threads

    @property
    def device(self) -> str:
        """The device of the cell."""
        return self.cell.device


@dataclass(frozen=True)
class CellTask(TaskOfCell):
    """One cell as a task.

    Attributes:
        keep_predictions: The record carries logits, labels and groups.
        modules: Modules outside midway that register the method, the scenario and so on.
    """

    throttled: ClassVar[bool] = True

    keep_predictions: bool = False
    modules: tuple[str, ...] = ()

    @property
    def affinity(self) -> Hashable:
        """Cells of one stream share its images."""
        return self.cell.stream_key

    def __str__(self) -> str:
        return str(self.cell)

    def run(self, memory: dict[str, Any], tell: Tell) -> Record:
        """Run the cell with the data and networks of this process."""
        import_modules(self.modules)
        return run_cell(
            self.cell,
            memory.setdefault("resources", ResourceCache()),
            keep_predictions=self.keep_predictions,
            on_batch=lambda cell, done, total, running: tell((done, total, running)),
        )


ENGINES: Registry[type[Engine]] = Registry("engine", group="engines", package="midway.bench.engines")
"""Every engine by name."""


def engine(name: str) -> Callable[[E], E]:
    """Register a class of engines under a name; ``midway run --engine NAME`` then uses it.

    Example:
        >>> from midway.bench import ENGINES, LocalEngine, engine
        >>> @engine("reversed")
        ... class Reversed(LocalEngine):
        ...     def map(self, tasks, on_message=None):
        ...         return super().map(tasks[::-1], on_message)
        >>> ENGINES["reversed"] is Reversed
        True
        >>> ENGINES.remove("reversed")
    """

    def register(kind: E) -> E:
        ENGINES.add(name, kind)
        return kind

    return register
