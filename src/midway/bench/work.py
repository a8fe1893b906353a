"""One cell in, one outcome of plain values out: what every engine runs."""

from __future__ import annotations

import importlib
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from statistics import fmean
from typing import Any

import torch
from numpy.typing import NDArray

from midway import methods
from midway.adaptation.parameters import first_weight
from midway.bench.cell import Cell
from midway.bench.evaluate import Result, answer, judge
from midway.bench.material import Material
from midway.bench.outcome import Failure, Outcome, environment
from midway.cost import Cost, Memory, Passes, count_passes, watch_memory
from midway.methods import Method

OnBatch = Callable[[Cell, int, int, float], None]
"""Told after every batch: the cell, batches done, batches in all, accuracy so far in percent."""


def work(cell: Cell, material: Material, *, keep_predictions: bool = False, on_batch: OnBatch | None = None) -> Outcome:
    """Run one cell; an error becomes a failed outcome, so that the other cells go on.

    Args:
        cell: What to run.
        material: Data and networks of this process.
        keep_predictions: Also return logits, labels and groups.
        on_batch: Told after every batch.

    Example:
        >>> from midway.bench import Grid, work
        >>> from midway.bench.material import Material
        >>> cell = Grid.from_dict({"methods": "source", "scenarios": "pure:clean", "images": 200}).cells()[0]
        >>> work(cell, Material()).result.accuracy > 90
        True
    """
    started = time.perf_counter()
    result: Result | None = None
    failure: Failure | None = None
    predictions: dict[str, NDArray[Any]] = {}
    try:
        with using_threads(cell.threads):
            result, predictions = _run(cell, material, keep_predictions, on_batch)
    except Exception as error:
        described = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        failure = Failure(described, traceback.format_exc())
    seconds = time.perf_counter() - started
    return Outcome(cell, result, failure, seconds, environment() | {"threads": cell.threads}, predictions)


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Let torch use this many threads of the processor within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def make_method(cell: Cell, material: Material) -> Method:
    """Wrap the network of a cell in its method."""
    if cell.method not in methods.names():
        importlib.import_module(cell.module)
    return methods.adapt(material.network(cell), cell.method, **cell.settings)


def _run(
    cell: Cell, material: Material, keep_predictions: bool, on_batch: OnBatch | None
) -> tuple[Result, dict[str, NDArray[Any]]]:
    stream = material.stream(cell)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of single images and the like: a plan asks for them on purpose
        method = make_method(cell, material)
        cost = _Counted(method)
        done = 0

        def tick(running: float) -> None:
            nonlocal done
            done += 1
            if on_batch is not None:
                on_batch(cell, done, len(stream), running)

        cost.try_out(next(iter(stream)).images)
        method.reset()
        answers = answer(method, stream, on_batch=tick, around_first=cost.count)
    result = replace(
        judge(method, stream, answers, label=cell.label),
        seconds_per_batch=seconds_a_batch(answers.batch_seconds),
        cost=cost.summary(len(stream.order[: stream.batch_size])),
        seed=cell.seed,
    )
    kept = {"logits": answers.logits, "labels": answers.labels, "group": answers.group} if keep_predictions else {}
    return result, {name: tensor.numpy() for name, tensor in kept.items()}


def seconds_a_batch(times: Sequence[float]) -> float:
    """Return the mean time of a batch.

    The first one is left out, as counting slows it, unless it takes several times as long as the others: then the
    method does its work there, as DUA does.

    Example:
        >>> seconds_a_batch([1.5, 1.0, 1.0]), seconds_a_batch([10.0, 1.0, 1.0])
        (1.0, 4.0)
    """
    others = times[1:]
    return fmean(others if others and times[0] < 3 * fmean(others) else times)


class _Counted:
    """Counts what the first batch of a stream costs, while it is answered: no batch is run for counting alone."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.like = first_weight(method, torch.empty(0))
        self.passes, self.memory, self.seconds = Passes(), Memory(), 0.0

    def try_out(self, images: torch.Tensor) -> None:
        """Let the method see a few images: the first of a shape are passed twice, which must not count."""
        self.method(images[:2].to(self.like))

    @contextmanager
    def count(self) -> Iterator[None]:
        """Count within the block."""
        started = time.perf_counter()
        with count_passes(self.method) as self.passes, watch_memory(self.like.device) as self.memory:
            yield
        self.seconds = time.perf_counter() - started

    def summary(self, images: int) -> dict[str, float | None]:
        """Return the cost as plain values, without the time: that of all batches says more."""
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
