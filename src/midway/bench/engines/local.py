"""Cells on this machine: in this process, or over several."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from midway.bench.cell import Cell
from midway.bench.record import Failure, Record
from midway.bench.resources import ResourceCache
from midway.bench.work import OnBatch, make_record, run_cell


class LocalEngine:
    """Runs cells on this machine.

    A cell uses as many threads as its plan says, whatever the number of jobs, so the numbers are the same bits.

    Args:
        jobs: Cells at a time. 1 runs them in this process; more run each in a worker process of its own, which loads
            data and networks once. A worker that is killed costs its cell and is replaced.

    Example:
        >>> from midway.bench import Grid, LocalEngine
        >>> cells = Grid.from_dict({"methods": "source,bn", "images": 100, "batch_sizes": 50}).cells()
        >>> [(record.cell.label, record.result.images) for record in LocalEngine().run(cells)]
        [('source', 100), ('bn', 100)]
    """

    def __init__(self, *, jobs: int = 1) -> None:
        if jobs < 1:
            raise ValueError(f"jobs must be at least 1, got {jobs}.")
        self.jobs = jobs

    def run(
        self, cells: Sequence[Cell], *, keep_predictions: bool = False, on_batch: OnBatch | None = None
    ) -> Iterator[Record]:
        """Run cells and yield their outcomes as they come."""
        if self.jobs == 1:
            resources = ResourceCache()
            for cell in cells:
                yield run_cell(cell, resources, keep_predictions=keep_predictions, on_batch=on_batch)
        elif cells:
            yield from self._over_processes(cells, keep_predictions, on_batch)

    def _over_processes(
        self, cells: Sequence[Cell], keep_predictions: bool, on_batch: OnBatch | None
    ) -> Iterator[Record]:
        waiting = deque(cells)
        workers: list[_Worker] = []
        try:
            while waiting or workers:
                while waiting and len(workers) < self.jobs:
                    workers.append(_Worker.start(waiting.popleft(), keep_predictions))
                for connection in wait([worker.connection for worker in workers]):
                    worker = next(each for each in workers if each.connection is connection)
                    try:
                        message = worker.connection.recv()
                    except (EOFError, OSError):
                        workers.remove(worker)
                        yield worker.died()
                        continue
                    if not isinstance(message, Record):
                        if on_batch is not None:
                            on_batch(worker.cell, *message)
                        continue
                    if waiting:
                        worker.give(_next(waiting, worker, workers))
                    else:
                        workers.remove(worker)
                        worker.dismiss()
                    yield message
        finally:
            for worker in workers:
                worker.stop()


def _next(waiting: deque[Cell], worker: _Worker, workers: Sequence[_Worker]) -> Cell:
    """Take the next cell for a worker: of the stream it has in memory, else of one that nobody has, else the first."""
    mine = worker.cell.stream_key
    theirs = {each.cell.stream_key for each in workers}
    place = min(
        range(len(waiting)),
        key=lambda place: (waiting[place].stream_key != mine) * (1 + (waiting[place].stream_key in theirs)),
    )
    cell = waiting[place]
    del waiting[place]
    return cell


@dataclass
class _Worker:
    """A process, the line to it, and the cell it is at."""

    process: SpawnProcess
    connection: Connection
    cell: Cell
    started: float

    @classmethod
    def start(cls, cell: Cell, keep_predictions: bool) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, keep_predictions), daemon=True)
        with _threads_of_children(cell.threads):
            process.start()
        theirs.close()  # so that its death is the end of the line
        worker = cls(process, ours, cell, time.perf_counter())
        worker.give(cell)
        return worker

    def give(self, cell: Cell) -> None:
        """Hand over the next cell; a worker that is dead by now is noticed at the next look at its line."""
        self.cell, self.started = cell, time.perf_counter()
        with suppress(OSError):
            self.connection.send(cell)

    def died(self) -> Record:
        """Turn the death of the process into a failed outcome of its cell."""
        self.process.join()
        self.connection.close()
        code = self.process.exitcode or 0
        if code < 0:
            hint = " (out of memory?)" if -code == signal.SIGKILL else ""
            reason = f"its worker process was killed by {signal.Signals(-code).name}{hint}"
        else:
            reason = f"its worker process ended with status {code}"
        seconds = time.perf_counter() - self.started
        return make_record(self.cell, None, Failure(reason), seconds)

    def dismiss(self) -> None:
        """Let the process end by itself."""
        self.connection.close()
        self.process.join()

    def stop(self) -> None:
        """End the process now."""
        self.process.kill()
        self.dismiss()


@contextmanager
def _threads_of_children(count: int) -> Iterator[None]:
    """Start processes whose libraries use this many threads from the first."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = str(count)
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


def _serve(connection: Connection, keep_predictions: bool) -> None:
    """Run cells until the line ends, which it also does when the process at its other end is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    resources = ResourceCache()

    def tell(cell: Cell, done: int, total: int, running: float) -> None:
        try:
            connection.send((done, total, running))
        except OSError:
            raise SystemExit(0) from None  # nobody is listening any more

    while True:
        try:
            cell = connection.recv()
            connection.send(run_cell(cell, resources, keep_predictions=keep_predictions, on_batch=tell))
        except (EOFError, OSError):
            return
