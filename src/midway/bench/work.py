"""One cell in, one record of plain values out: what every engine runs."""

from __future__ import annotations

import importlib
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import torch
from numpy.typing import NDArray

from midway.adaptation.parameters import first_weight
from midway.bench.cell import Cell
from midway.bench.measure import answer, measure
from midway.bench.record import Failure, Record, Result, environment
from midway.bench.resources import ResourceCache
from midway.cost import Cost, Memory, Passes, count_passes, watch_memory
from midway.methods import Method, adapt, names

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
    answers: dict[str, NDArray[Any]] = {}
    try:
        with using_threads(cell.threads):
            result, answers = _evaluate(cell, resources, keep_predictions, on_batch)
    except Exception as error:
        described = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        failure = Failure(described, traceback.format_exc())
    return make_record(cell, result, failure, time.perf_counter() - started, answers)


def make_record(
    cell: Cell,
    result: Result | None,
    failure: Failure | None,
    seconds: float,
    answers: dict[str, NDArray[Any]] | None = None,
) -> Record:
    """Return the record of a cell that has just ended in this environment."""
    return Record(
        cell=cell,
        result=result,
        failure=failure,
        seconds=seconds,
        environment=environment() | {"threads": cell.threads},
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        answers=answers or {},
    )


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Let torch use this many threads of the processor within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def make_method(cell: Cell, resources: ResourceCache) -> Method:
    """Wrap the network of a cell in its method."""
    if cell.method not in names():
        importlib.import_module(cell.module)
    return adapt(resources.network(cell), cell.method, **cell.settings)


def _evaluate(
    cell: Cell, resources: ResourceCache, keep_predictions: bool, on_batch: OnBatch | None
) -> tuple[Result, dict[str, NDArray[Any]]]:
    stream = resources.stream(cell)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # single images and the like: a plan asks for them on purpose
        method = make_method(cell, resources)
        cost = _CountedCost(method)
        done = 0

        def tick(running: float) -> None:
            nonlocal done
            done += 1
            if on_batch is not None:
                on_batch(cell, done, len(stream), running)

        cost.try_out(next(iter(stream)).images)
        method.reset()
        answers = answer(method, stream, on_batch=tick, around_first=cost.count)
        answers = replace(answers, cost=cost.summary(answers.batch_sizes[0]))
        result = measure(method, stream, answers)
    kept = {"logits": answers.logits, "labels": answers.labels, "group": answers.group} if keep_predictions else {}
    return result, {name: tensor.numpy() for name, tensor in kept.items()}


class _CountedCost:
    """Counts the cost of the first batch of a stream while it is answered: no batch is run for counting alone."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.like = first_weight(method, torch.empty(0))
        self.passes, self.memory, self.seconds = Passes(), Memory(), 0.0

    def try_out(self, images: torch.Tensor) -> None:
        """Call the method on two images: it checks a new shape with an extra pass, which must not count."""
        self.method(images[:2].to(self.like))

    @contextmanager
    def count(self) -> Iterator[None]:
        """Count within the block."""
        started = time.perf_counter()
        with count_passes(self.method) as self.passes, watch_memory(self.like.device) as self.memory:
            yield
        self.seconds = time.perf_counter() - started

    def summary(self, images: int) -> dict[str, float | None]:
        """Return the cost as plain values, without the seconds: those of all batches are measured as well."""
        cost = Cost(
            images=images,
            parameters=sum(parameter.numel() for parameter in self.method.parameters()),
            trainable_parameters=self.method.num_trainable(),
            forward_passes=self.passes.forward / images,
            backward_passes=self.passes.backward / images,
            flops_forward=self.passes.flops_forward,
            flops_total=self.passes.flops_total,
            seconds=self.seconds,
            peak_memory_mb=self.memory.peak_mb,
        )
        return {name: value for name, value in asdict(cost).items() if name != "seconds"}
