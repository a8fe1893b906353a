"""The engine of this machine: in this process, or in several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

from midway.bench.engines.base import Engine, engine
from midway.bench.resources import ResourceCache
from midway.workers import Task, run_here, run_in_workers

T = TypeVar("T", bound=Task)


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
