"""The Ray engine: one Ray task per cell, data and weights in Ray's object store."""

from __future__ import annotations

import importlib
import logging
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from types import ModuleType
from typing import Any, TypeVar

from torch import nn

from midway._allocator import keep_freed_memory
from midway._errors import describe_error
from midway._workers import Died, Task
from midway.bench.engines._ray_connection import HeadLostError, HeadWatch, connect, leave
from midway.bench.engines.base import CellTask, Engine, engine
from midway.bench.record import Cell
from midway.bench.resources import FROM_FILES, ResourceCache, load_network
from midway.data import ImageSet, load

POLL_SECONDS = 0.5
"""Interval at which the driver reads progress, and shortest interval at which a cell reports it."""

T = TypeVar("T", bound=Task)


def import_ray() -> ModuleType:
    """Import Ray."""
    try:
        return importlib.import_module("ray")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("the engine needs Ray: pip install 'midway[cluster]'.", name="ray") from error


@engine("ray")
class RayEngine(Engine):
    """Runs tasks on a Ray cluster, or on this machine as a cluster of one node.

    The driver loads data sets and networks once and puts them into the object store. The nodes need midway and the
    modules of custom networks, but neither data nor weights, except images in files, which are read from their paths.
    Cells use the threads of their plan, so the numbers equal those of the local engine. A task whose worker or node
    dies is started again on another one; each cell gives one record.

    Args:
        address: Address of a running cluster, ``"auto"`` for the one this machine belongs to; None starts one that
            listens on the loopback interface alone. An existing connection is used.
        cpus_per_task: CPUs that a task reserves; None for the threads it uses.
        gpus_per_task: GPUs that a task reserves, such as 0.25 for four tasks per GPU; None for 1 on ``cuda``, else 0.
        retries: How often a task is started again if its worker or node dies.
    """

    def __init__(
        self,
        *,
        address: str | None = None,
        cpus_per_task: float | None = None,
        gpus_per_task: float | None = None,
        retries: int = 3,
    ) -> None:
        if (cpus_per_task is not None and cpus_per_task <= 0) or (gpus_per_task is not None and gpus_per_task < 0):
            raise ValueError(
                f"cpus_per_task must be above 0 and gpus_per_task 0 or more, got {cpus_per_task} and {gpus_per_task}."
            )
        if retries < 0:
            raise ValueError(f"retries must be 0 or more, got {retries}.")
        self.address = address
        self.cpus_per_task, self.gpus_per_task = cpus_per_task, gpus_per_task
        self.retries = retries
        self._owns_connection = False

    def map(self, tasks: Sequence[T], on_message: Callable[[T, Any], None] | None = None) -> Iterator[tuple[T, Any]]:
        """Run tasks and yield each with its result as it ends; a connection opened by this engine is then closed."""
        if not tasks:
            return
        try:
            yield from self._map(self._connect(), tasks, on_message)
        finally:
            if self._owns_connection:
                import_ray().shutdown()
                self._owns_connection = False

    def slots(self, task: Task) -> int:
        """Return how many such tasks the cluster runs at a time; connects to it until the run ends."""
        return max(1, _slots(self._connect(), self.needs(task)))

    def needs(self, task: Task) -> dict[str, float]:
        """Return the resources that a task reserves, by Ray's names."""
        cpus = task.threads if self.cpus_per_task is None else self.cpus_per_task
        gpus = float(task.device.startswith("cuda")) if self.gpus_per_task is None else self.gpus_per_task
        return {"CPU": cpus, "GPU": gpus}

    def _connect(self) -> ModuleType:
        ray = import_ray()
        if not ray.is_initialized():
            connect(ray, self.address)
            self._owns_connection = True
        return ray

    def _map(
        self, ray: ModuleType, tasks: Sequence[T], on_message: Callable[[T, Any], None] | None
    ) -> Iterator[tuple[T, Any]]:
        kinds = {tuple(self.needs(task).items()) for task in tasks}
        for kind in kinds:
            if not _slots(ray, dict(kind)):  # Ray would wait forever for a node that is large enough
                wanted = " and ".join(f"{amount:g} {name}" for name, amount in kind if amount)
                raise ValueError(f"no node of the Ray cluster has {wanted} for a task: ask for less, or add a node.")
        watch = HeadWatch(ray)
        references = ObjectStoreRefs.fill(ray, [task.cell for task in tasks if isinstance(task, CellTask)])
        progress = asked = None
        if on_message is not None:  # on the driver's node, so that the death of another node does not end it
            here = ray.get_runtime_context().get_node_id()
            node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
            progress = ray.remote(num_cpus=0, scheduling_strategy=node)(ProgressActor).remote()
        remote = ray.remote(max_retries=self.retries)(_run_task)
        waiting = deque(enumerate(tasks))
        running: dict[Any, tuple[int, float]] = {}  # reference to a Ray task -> index of its task, start time
        lost = False
        try:
            while waiting or running:
                if not watch.answers():
                    time.sleep(POLL_SECONDS)
                    continue
                # A few more than fit, so that no node waits for the driver; nodes may join at any time.
                capacity = 2 * max(watch.ask(_slots, ray, dict(kind)) for kind in kinds) + 2 if waiting else 0
                while waiting and len(running) < capacity:
                    index, task = waiting.popleft()
                    needs = self.needs(task)
                    fitted = remote.options(num_cpus=needs["CPU"], num_gpus=needs["GPU"], name=str(task))
                    reference = watch.ask(fitted.remote, task, index, references, progress, version("midway"))
                    running[reference] = (index, time.perf_counter())
                done, _ = watch.ask(ray.wait, list(running), num_returns=1, timeout=POLL_SECONDS)
                if progress is not None and on_message is not None:
                    asked = progress.take.remote() if asked is None else asked
                    if watch.ask(ray.wait, [asked], timeout=POLL_SECONDS)[0]:
                        for index, message in watch.ask(ray.get, asked):
                            on_message(tasks[index], message)
                        asked = None  # a slow actor keeps its answer until it is fetched
                for reference in done:
                    index, started = running.pop(reference)
                    yield tasks[index], watch.ask(_fetch, ray, reference, started)
        except HeadLostError:
            lost = True  # whatever asks the head for something would wait for minutes
            self._owns_connection = False
            leave(ray)
            raise
        finally:
            grace = max(task.stop_seconds for task in tasks)
            for reference in () if lost else running:
                ray.cancel(reference, force=not grace)  # without force the task sees a KeyboardInterrupt
            if running and grace and not lost:
                ray.wait(list(running), num_returns=len(running), timeout=grace)
            if progress is not None and not lost:
                ray.kill(progress)


def _slots(ray: ModuleType, needs: dict[str, float]) -> int:
    """Count how many tasks of such needs fit on the living nodes."""
    return sum(
        min(int(node["Resources"].get(kind, 0) / amount) for kind, amount in needs.items() if amount)
        for node in ray.nodes()
        if node["Alive"]
    )


def _fetch(ray: ModuleType, reference: Any, started: float) -> Any:
    """Return the result of a Ray task; errors of the task itself are raised."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        return Died(f"its Ray task was lost: {describe_error(error)}", time.perf_counter() - started)


@dataclass(frozen=True)
class ObjectStoreRefs:
    """References to the data sets and networks of a run in the object store; sent with every task."""

    run: str  # a worker keeps what it fetched as long as the run lasts
    data: dict[str, Any] = field(default_factory=dict, compare=False)  # arguments of ``load`` -> reference
    networks: dict[tuple[str, int], Any] = field(default_factory=dict, compare=False)  # name, classes -> reference

    @classmethod
    def fill(cls, ray: ModuleType, cells: Sequence[Cell]) -> ObjectStoreRefs:
        """Load what the cells need, each object once, and put it into the object store."""
        references = cls(uuid.uuid4().hex)

        def load_data(*args: Any, **which: Any) -> ImageSet:
            data = load(*args, **which)
            references.data[_key(args, which)] = ray.put(data)
            return data

        def make_network(name: str, classes: int) -> nn.Module:
            network = load_network(name, classes)
            for module in [module for key, module in sys.modules.items() if key.startswith(FROM_FILES)]:
                ray.cloudpickle.register_pickle_by_value(module)  # the nodes do not need the file
            references.networks[name, classes] = ray.put(network)
            return network

        resources = ResourceCache(load_data=load_data, make_network=make_network)
        for cell in {(cell.stream_key, cell.network): cell for cell in cells}.values():
            try:
                resources.lazy_stream(cell)
                classes = len(resources.data_set(cell).class_names)
                if (cell.network, classes) not in references.networks:
                    make_network(cell.network, classes)
            except Exception:  # this cell fails by itself where it runs
                logging.getLogger(__name__).debug("%s cannot be prepared", cell, exc_info=True)
        return references

    def resources(self) -> ResourceCache:
        """Return a cache that fetches data and networks from the object store, for a worker."""
        ray = import_ray()

        def load_data(*args: Any, **which: Any) -> ImageSet:
            key = _key(args, which)
            data: ImageSet = ray.get(self.data[key]) if key in self.data else load(*args, **which)
            return data

        def make_network(name: str, classes: int) -> nn.Module:
            reference = self.networks.get((name, classes))
            network: nn.Module = load_network(name, classes) if reference is None else ray.get(reference)
            return network

        return ResourceCache(load_data=load_data, make_network=make_network)


def _key(args: tuple[Any, ...], which: dict[str, Any]) -> str:
    return repr((args, sorted(which.items())))


class ProgressActor:
    """Collects the messages of running tasks for the driver; a Ray actor on the driver's node."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, Any]] = []

    def put(self, index: int, message: Any) -> None:
        """Store a message of the task with this index."""
        self.messages.append((index, message))

    def take(self) -> list[tuple[int, Any]]:
        """Return the messages since the last call."""
        messages, self.messages = self.messages, []
        return messages


@lru_cache(maxsize=1)
def _memory(references: ObjectStoreRefs) -> dict[str, Any]:
    """Keep what a worker fetched during a run for its next tasks."""
    return {"resources": references.resources()}


def _run_task(task: Task, index: int, references: ObjectStoreRefs, progress: Any, driver: str) -> Any:
    """Run one task in a worker of the cluster."""
    if version("midway") != driver:
        return Died(f"its node has midway {version('midway')}, the driver {driver}: install the same version", 0.0)
    keep_freed_memory()
    last = float("-inf")

    def tell(message: Any) -> None:
        nonlocal last
        if progress is not None and (not task.throttled or time.monotonic() - last >= POLL_SECONDS):
            last = time.monotonic()
            progress.put.remote(index, message)

    return task.run(_memory(references), tell)
