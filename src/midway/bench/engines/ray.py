"""Cells on a cluster: one Ray task each, data and weights in Ray's object store."""

from __future__ import annotations

import logging
import sys
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType
from typing import Any

from torch import nn

import midway
from midway.bench.cell import Cell
from midway.bench.code import FROM_FILES
from midway.bench.networks import load_network
from midway.bench.record import Failure, Record
from midway.bench.resources import ResourceCache
from midway.bench.work import OnBatch
from midway.data import ImageSet

SECONDS_BETWEEN_LOOKS = 0.5
"""How often the driver asks how far running cells are, and a running cell says so."""


def import_ray() -> ModuleType:
    """Return Ray, or say how to install it."""
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("the engine needs Ray: pip install 'midway[cluster]'.", name="ray") from error
    module: ModuleType = ray
    return module


class RayEngine:
    """Runs cells on a Ray cluster, or on this machine as a cluster of one.

    A cell is a task. Data sets and networks are loaded once, here, and put into the object store; the nodes need
    midway and what networks of one's own import, but neither data nor weights, except for images in files, which are
    read where their paths lead. Cells use as many threads as their plan says, so the numbers are those of the local
    engine. A task whose worker or node dies is started again elsewhere; outcomes come back one a cell, whatever
    was started how often.

    Args:
        address: Of a running cluster, ``"auto"`` for the one this machine belongs to; None starts one here. A
            connection that exists already is used.
        cpus_per_cell: Processors that a cell reserves; None is the threads it uses.
        gpus_per_cell: GPUs that a cell reserves, such as 0.25 for four cells on each; None is 1 for cells that run on
            ``cuda`` and 0 for others.
        retries: How often a cell is started again whose worker or node died.

    Example:
        >>> from midway.bench.engines.ray import RayEngine
        >>> RayEngine(gpus_per_cell=0.25).gpus_per_cell
        0.25
    """

    def __init__(
        self,
        *,
        address: str | None = None,
        cpus_per_cell: float | None = None,
        gpus_per_cell: float | None = None,
        retries: int = 3,
    ) -> None:
        if (cpus_per_cell is not None and cpus_per_cell <= 0) or (gpus_per_cell is not None and gpus_per_cell < 0):
            raise ValueError(
                f"cpus_per_cell must be above 0 and gpus_per_cell 0 or more, got {cpus_per_cell} and {gpus_per_cell}."
            )
        if retries < 0:
            raise ValueError(f"retries must be 0 or more, got {retries}.")
        self.address = address
        self.cpus_per_cell, self.gpus_per_cell = cpus_per_cell, gpus_per_cell
        self.retries = retries
        self._connected_here = False

    def run(
        self, cells: Sequence[Cell], *, keep_predictions: bool = False, on_batch: OnBatch | None = None
    ) -> Iterator[Record]:
        """Run cells and yield their outcomes as they come.

        Raises:
            ValueError: There is no cluster at the address, or none of its nodes is large enough for a cell.
        """
        if not cells:
            return
        with self.connected() as ray:
            yield from self._run(ray, cells, keep_predictions, on_batch)

    @contextmanager
    def connected(self) -> Iterator[ModuleType]:
        """Give Ray, connected to the cluster; a connection that was made here ends with the block."""
        ray = import_ray()
        self._connect(ray)
        try:
            yield ray
        finally:
            if self._connected_here:
                ray.shutdown()
                self._connected_here = False

    def slots(self, cells: Sequence[Cell]) -> int:
        """Return how many of these cells the cluster runs at a time; connects to it until the run is over."""
        ray = import_ray()
        self._connect(ray)
        return max(1, _slots(ray, self.needs(cells[0])))

    def _connect(self, ray: ModuleType) -> None:
        """Connect to the cluster, unless that is done already."""
        if ray.is_initialized():
            return
        try:
            ray.init(address=self.address, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        except (ConnectionError, ValueError) as error:
            first = str(error).strip().splitlines()[0]
            raise ValueError(
                f"no Ray cluster answers at '{self.address}' ({first}): start one with `ray start`."
            ) from error
        self._connected_here = True

    def needs(self, cell: Cell) -> dict[str, float]:
        """Return what a cell reserves, by Ray's names."""
        cpus = cell.threads if self.cpus_per_cell is None else self.cpus_per_cell
        gpus = float(cell.device.startswith("cuda")) if self.gpus_per_cell is None else self.gpus_per_cell
        return {"CPU": cpus, "GPU": gpus}

    def _run(
        self, ray: ModuleType, cells: Sequence[Cell], keep_predictions: bool, on_batch: OnBatch | None
    ) -> Iterator[Record]:
        kinds = {tuple(self.needs(cell).items()) for cell in cells}
        for kind in kinds:
            refuse_what_fits_nowhere(ray, dict(kind))
        shelf = Shelf.fill(ray, cells)
        board = _start_board(ray) if on_batch is not None else None
        task = ray.remote(max_retries=self.retries)(_run_cell)
        waiting = deque(cells)
        running: dict[Any, tuple[Cell, float]] = {}  # reference to a task -> its cell, and since when
        try:
            while waiting or running:
                # A few more than fit, so that no node waits for the driver; nodes may join at any time.
                room = 2 * max(_slots(ray, dict(kind)) for kind in kinds) + 2 if waiting else 0
                while waiting and len(running) < room:
                    cell = waiting.popleft()
                    needs = self.needs(cell)
                    fitted = task.options(num_cpus=needs["CPU"], num_gpus=needs["GPU"], name=str(cell))
                    running[fitted.remote(cell, shelf, keep_predictions, board)] = (cell, time.perf_counter())
                done, _ = ray.wait(list(running), num_returns=1, timeout=SECONDS_BETWEEN_LOOKS)
                if board is not None and on_batch is not None:
                    here = {cell.key: cell for cell, _ in running.values()}
                    for key, news in ray.get(board.take.remote()).items():
                        if key in here:
                            on_batch(here[key], *news)
                for reference in done:
                    cell, started = running.pop(reference)
                    yield _fetch(ray, reference, cell, started)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)
            if board is not None:
                ray.kill(board)


def _slots(ray: ModuleType, needs: dict[str, float]) -> int:
    """Count how many cells of such needs the living nodes hold together."""
    return sum(
        min(int(node["Resources"].get(kind, 0) / amount) for kind, amount in needs.items() if amount)
        for node in ray.nodes()
        if node["Alive"]
    )


def refuse_what_fits_nowhere(ray: ModuleType, needs: dict[str, float]) -> None:
    """Raise if Ray would wait for ever for a node that is large enough."""
    if not _slots(ray, needs):
        wanted = " and ".join(f"{amount:g} {kind}" for kind, amount in needs.items() if amount)
        raise ValueError(f"no node of the Ray cluster has {wanted} for a cell: ask for less, or add a node.")


def _fetch(ray: ModuleType, reference: Any, cell: Cell, started: float) -> Record:
    """Take the outcome of a task; a task that was lost for good is a failed cell."""
    try:
        outcome: Record = ray.get(reference)
    except ray.exceptions.RayError as error:
        first = str(error).strip().splitlines()[0]
        seconds = time.perf_counter() - started
        failure = Failure(f"its Ray task was lost: {type(error).__name__}: {first}")
        return make_record(cell, None, failure, seconds)
    return outcome


@dataclass(frozen=True)
class Shelf:
    """Where the data sets and networks of a run are in the object store; travels with every task.

    Attributes:
        name: Tells runs apart, so that a worker keeps what it took from the shelf as long as the run lasts.
        data: What ``midway.data.load`` was called with -> reference to the set.
        networks: Name and number of classes -> reference to the network.
    """

    name: str
    data: dict[str, Any] = field(default_factory=dict, compare=False)
    networks: dict[tuple[str, int], Any] = field(default_factory=dict, compare=False)

    @classmethod
    def fill(cls, ray: ModuleType, cells: Sequence[Cell]) -> Shelf:
        """Load what the cells need, each thing once, and put it into the object store."""
        shelf = cls(uuid.uuid4().hex)

        def load_data(*args: Any, **which: Any) -> ImageSet:
            loaded = midway.data.load(*args, **which)
            shelf.data[_place(args, which)] = ray.put(loaded)
            return loaded

        def make_network(name: str, classes: int) -> nn.Module:
            loaded = load_network(name, classes)
            for module in [module for key, module in sys.modules.items() if key.startswith(FROM_FILES)]:
                ray.cloudpickle.register_pickle_by_value(module)  # the file need not be on the nodes
            shelf.networks[name, classes] = ray.put(loaded)
            return loaded

        material = ResourceCache(load_data=load_data, make_network=make_network)
        for cell in {(cell.stream_key, cell.network): cell for cell in cells}.values():
            try:
                material.lazy_stream(cell)
                classes = len(material.data_set(cell).class_names)
                if (cell.network, classes) not in shelf.networks:
                    make_network(cell.network, classes)
            except Exception:  # one cell that cannot be: it fails for itself, where it runs
                logging.getLogger(__name__).debug("%s cannot be prepared", cell, exc_info=True)
        return shelf

    def material(self) -> ResourceCache:
        """Return what takes data and networks from the shelf, in a worker."""
        ray = import_ray()

        def load_data(*args: Any, **which: Any) -> ImageSet:
            place = _place(args, which)
            found: ImageSet = ray.get(self.data[place]) if place in self.data else midway.data.load(*args, **which)
            return found

        def make_network(name: str, classes: int) -> nn.Module:
            there = self.networks.get((name, classes))
            found: nn.Module = load_network(name, classes) if there is None else ray.get(there)
            return found

        return ResourceCache(load_data=load_data, make_network=make_network)


def _place(args: tuple[Any, ...], which: dict[str, Any]) -> str:
    return repr((args, sorted(which.items())))


class Board:
    """How far the running cells are: they write, the driver reads. Lives beside the driver as a Ray actor."""

    def __init__(self) -> None:
        self.news: dict[str, tuple[int, int, float]] = {}

    def put(self, key: str, done: int, total: int, running: float) -> None:
        """Note how far a cell is."""
        self.news[key] = (done, total, running)

    def take(self) -> dict[str, tuple[int, int, float]]:
        """Return what is new since the last time."""
        news, self.news = self.news, {}
        return news


def _start_board(ray: ModuleType) -> Any:
    """Start a board on the driver's node, which no other node's death takes away."""
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    return ray.remote(num_cpus=0, scheduling_strategy=here)(Board).remote()


@lru_cache(maxsize=1)
def _kept(shelf: Shelf) -> ResourceCache:
    """Keep what a worker took from the shelf of a run for its next cells."""
    return shelf.material()


def _run_cell(cell: Cell, shelf: Shelf, keep_predictions: bool, board: Any) -> Record:
    """Run one cell in a worker, which keeps data, networks and the last stream for the next one."""
    if cell.version != midway.__version__:
        reason = (
            f"this node has midway {midway.__version__}, the plan is of {cell.version}: install the same everywhere"
        )
        return Record(cell, None, Failure(reason), 0.0, environment() | {"threads": cell.threads})
    last = 0.0

    def tell(cell: Cell, done: int, total: int, running: float) -> None:
        nonlocal last
        if board is not None and (done == total or time.monotonic() - last >= SECONDS_BETWEEN_LOOKS):
            last = time.monotonic()
            board.put.remote(cell.key, done, total, running)

    return run_cell(cell, _kept(shelf), keep_predictions=keep_predictions, on_batch=tell)
