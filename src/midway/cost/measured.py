"""The measured cost of a batch: parameters, passes, floating-point operations, time and memory."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.hooks import RemovableHandle

from midway.adaptation.classifier import AdaptiveClassifier


@dataclass(frozen=True)
class Cost:
    """The cost of one batch: adapting to it and predicting it.

    Attributes:
        images: Images in the batch.
        parameters: Number of weights of all networks in the method; shared weights count once.
        trainable_parameters: Number of weights adapted by gradients.
        forward_passes: Images that pass forward through a network, per image of the batch.
        backward_passes: Images whose gradient passes back through a network, per image of the batch.
        flops_forward: Floating-point operations of the forward passes; a multiply-add is two.
        flops_total: Floating-point operations in total, backward passes included.
        seconds: Time for the batch.
        peak_memory_mb: Peak memory above the level before the batch, in MB; None if the system does not report it
            (Linux and CUDA devices do).
    """

    images: int
    parameters: int
    trainable_parameters: int
    forward_passes: float
    backward_passes: float
    flops_forward: int
    flops_total: int
    seconds: float
    peak_memory_mb: float | None

    @property
    def gflops_per_image(self) -> float:
        """Billions of floating-point operations per image, backward passes included."""
        return self.flops_total / self.images / 1e9


def measure_cost(method: AdaptiveClassifier, images: Tensor, *, repeats: int = 1) -> Cost:
    """Measure the cost of adapting to a batch and predicting it; the method is unchanged afterwards.

    The fastest of ``repeats`` runs after the run that counts operations is reported. With 0 the counting run is timed,
    which is slightly slower but halves the time of the measurement for a large network.

    Example:
        >>> import midway, torch
        >>> cost = midway.cost.measure_cost(midway.Tent(midway.models.create("resnet20")), torch.rand(4, 3, 32, 32))
        >>> cost.forward_passes, cost.backward_passes, cost.trainable_parameters
        (1.0, 1.0, 1568)
        >>> cost.flops_total > cost.flops_forward > 4 * 80e6
        True
    """
    if repeats < 0:
        raise ValueError(f"repeats must be 0 or more, got {repeats}.")
    before = method.snapshot()

    def run() -> float:
        method.restore(before)
        started = time.perf_counter()
        method(images)
        if images.is_cuda:
            torch.cuda.synchronize(images.device)
        return time.perf_counter() - started

    try:
        method(images[:2])  # the first batch of a shape is checked in a pass that must not count
        counted: dict[str, Any] = {}
        with count_cost(method, images, counted):
            seconds = [run()]
        if repeats:
            seconds = [run() for _ in range(repeats)]
    finally:
        method.restore(before)
    return Cost(seconds=min(seconds), **counted)


@contextmanager
def count_cost(method: AdaptiveClassifier, images: Tensor, cost: dict[str, Any]) -> Iterator[None]:
    """Count the cost of a batch while it is predicted in the block: the fields of ``Cost`` but for the seconds."""
    with count_passes(method) as passes, watch_memory(images.device) as memory:
        yield
    cost |= {
        "images": len(images),
        "parameters": sum(map(Tensor.numel, method.parameters())),
        "trainable_parameters": method.num_trainable(),
        "forward_passes": passes.forward / len(images),
        "backward_passes": passes.backward / len(images),
        "flops_forward": passes.flops_forward,
        "flops_total": passes.flops_total,
        "peak_memory_mb": memory.peak_mb,
    }


@dataclass
class Passes:
    """Images that passed through the networks of a method, and the operations."""

    forward: int = 0
    backward: int = 0
    flops_forward: int = 0
    flops_total: int = 0


class _NoModules:
    """Replaces the module tracker of torch's counter, which does not support gradients with respect to images."""

    parents = frozenset({"Global"})

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


@contextmanager
def count_passes(method: AdaptiveClassifier) -> Iterator[Passes]:
    """Count the passes through the networks of a method in the block; the counts are complete when it ends."""
    passes = Passes()
    counter = FlopCounterMode(display=False)
    counter.mod_tracker = _NoModules()  # type: ignore[assignment]
    entered: list[int] = []  # operations at the start of each call that has not returned

    def enter(network: nn.Module, inputs: Any) -> None:
        entered.append(counter.get_total_flops())

    def leave(network: nn.Module, inputs: tuple[Tensor, ...], output: Any) -> None:
        started = entered.pop()
        if entered:  # a network within a network: only the outer call counts
            return
        passes.forward += len(inputs[0])
        passes.flops_forward += counter.get_total_flops() - started
        output = output[0] if isinstance(output, tuple) and output else output  # a denoiser's noise and variances
        if isinstance(output, Tensor) and output.requires_grad:
            output.register_hook(count_backward)

    def count_backward(gradient: Tensor) -> None:
        passes.backward += len(gradient)

    hooks: list[RemovableHandle] = []
    for network in _networks(method):
        hooks += [network.register_forward_pre_hook(enter), network.register_forward_hook(leave)]
    try:
        with counter:
            yield passes
    finally:
        passes.flops_total = counter.get_total_flops()
        for hook in hooks:
            hook.remove()


def _networks(method: AdaptiveClassifier) -> Iterator[nn.Module]:
    """Yield the networks of a method; those of the inner method, if it is a wrapper."""
    for child in method.children():
        if isinstance(child, AdaptiveClassifier):
            yield from _networks(child)
        else:
            yield child


@dataclass
class Memory:
    """Peak memory above the level at the start, in MB; None if the system does not report it."""

    peak_mb: float | None = None


@contextmanager
def watch_memory(device: torch.device) -> Iterator[Memory]:
    """Measure the peak memory in the block: of a CUDA device, or of this process on Linux."""
    memory = Memory()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        yield memory
        memory.peak_mb = (torch.cuda.max_memory_allocated(device) - before) / 1e6
    elif sys.platform == "linux" and _reset_peak():
        resident = _kilobytes("VmRSS")
        yield memory
        memory.peak_mb = (_kilobytes("VmHWM") - resident) * 1024 / 1e6
    else:
        yield memory


def _reset_peak() -> bool:
    """Return freed memory to the kernel, whose reuse would not count as growth, and reset its record of the peak."""
    with suppress(AttributeError):  # not every C library has malloc_trim
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _kilobytes(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"\n{field}:")[2].split(maxsplit=1)[0])
