"""What adapting costs: parameters, passes, floating-point operations, time and memory, and the paper's own count."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.hooks import RemovableHandle

from midway.adaptation.parameters import norm_layers
from midway.methods import Method
from midway.suggest import unknown

# ---- the true cost ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """What one batch costs a method: adapting to it and answering it.

    Attributes:
        images: Images in the batch.
        parameters: Numbers in the weights of all networks inside, weights they share counted once.
        moving_parameters: Those that adapt by a gradient.
        forward_passes: Images sent through a network, for each image of the batch.
        backward_passes: Images whose gradient came back through a network, for each image of the batch.
        flops_forward: Floating-point operations of the forward passes; a multiply-add is two.
        flops_total: The same with the backward passes and all else.
        seconds: Time for the batch.
        peak_memory_mb: Most memory in use beyond what was in use before the batch, in MB; None where the system does
            not tell (it does on Linux and on CUDA devices).
    """

    images: int
    parameters: int
    moving_parameters: int
    forward_passes: float
    backward_passes: float
    flops_forward: int
    flops_total: int
    seconds: float
    peak_memory_mb: float | None

    @property
    def gflops_per_image(self) -> float:
        """Billions of floating-point operations an image, backward passes included."""
        return self.flops_total / self.images / 1e9


def measure_cost(method: Method, images: Tensor, *, repeats: int = 1) -> Cost:
    """Let a method adapt to a batch and answer it, count what that takes, and leave the method as it was.

    Args:
        method: The method, in the state whose cost is asked for.
        images: The batch.
        repeats: Timed runs after the one that counts; the fastest is reported. With 0 the counting run is timed
            itself, which is a little slower but halves the time it takes to learn the cost of a large network.

    Example:
        >>> import midway, torch
        >>> from midway.cost import measure_cost
        >>> cost = measure_cost(midway.Tent(midway.models.create("resnet20")), torch.rand(4, 3, 32, 32))
        >>> cost.forward_passes, cost.backward_passes, cost.moving_parameters
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
        method(images[:2])  # the first batch of a shape is tried out beforehand, which must not count
        with count_passes(method) as passes, watch_memory(images.device) as memory:
            seconds = [run()]
        if repeats:
            seconds = [run() for _ in range(repeats)]
    finally:
        method.restore(before)
    return Cost(
        images=len(images),
        parameters=sum(parameter.numel() for parameter in method.parameters()),
        moving_parameters=method.count_moving(),
        forward_passes=passes.forward / len(images),
        backward_passes=passes.backward / len(images),
        flops_forward=passes.flops_forward,
        flops_total=passes.flops_total,
        seconds=min(seconds),
        peak_memory_mb=memory.peak_mb,
    )


@dataclass
class Passes:
    """Images that went through the networks of a method, and the operations that took."""

    forward: int = 0
    backward: int = 0
    flops_forward: int = 0
    flops_total: int = 0


class _NoModules:
    """Stands in for the module tracker of torch's counter, which cannot follow gradients with respect to images."""

    parents = frozenset({"Global"})

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


@contextmanager
def count_passes(method: Method) -> Iterator[Passes]:
    """Count within the block what goes through the networks of a method; complete when the block ends.

    Example:
        >>> import midway, torch
        >>> from midway.cost import count_passes
        >>> method = midway.BN(midway.models.create("resnet20"))
        >>> with count_passes(method) as passes:
        ...     _ = method(torch.rand(4, 3, 32, 32))
        >>> passes.forward - 2, passes.backward  # two images try out a new shape
        (4, 0)
    """
    passes = Passes()
    counter = FlopCounterMode(display=False)
    counter.mod_tracker = _NoModules()  # type: ignore[assignment]
    entered: list[int] = []  # operations at the start of each call that is still running

    def enter(network: nn.Module, inputs: Any) -> None:
        entered.append(counter.get_total_flops())

    def leave(network: nn.Module, inputs: tuple[Tensor, ...], output: Any) -> None:
        started = entered.pop()
        if entered:  # a network within a network: only the outer call counts
            return
        passes.forward += len(inputs[0])
        passes.flops_forward += counter.get_total_flops() - started
        if isinstance(output, Tensor) and output.requires_grad:
            output.register_hook(came_back)

    def came_back(gradient: Tensor) -> None:
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


def _networks(method: Method) -> Iterator[nn.Module]:
    """Yield the networks of a method; of a method around a method, those of the inner one."""
    for child in method.children():
        if isinstance(child, Method):
            yield from _networks(child)
        else:
            yield child


@dataclass
class Memory:
    """Most memory in use beyond what was in use before, in MB; None where the system does not tell."""

    peak_mb: float | None = None


@contextmanager
def watch_memory(device: torch.device) -> Iterator[Memory]:
    """Watch the memory within the block: of a CUDA device, or of this process on Linux.

    Example:
        >>> import torch
        >>> from midway.cost import watch_memory
        >>> with watch_memory(torch.device("cpu")) as memory:
        ...     ones = torch.ones(4 * 2**20)  # 17 MB
        >>> memory.peak_mb is None or memory.peak_mb > 10
        True
    """
    memory = Memory()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        yield memory
        memory.peak_mb = (torch.cuda.max_memory_allocated(device) - before) / 1e6
    elif sys.platform == "linux" and _forget_peak():
        resident = _kilobytes("VmRSS")
        yield memory
        memory.peak_mb = (_kilobytes("VmHWM") - resident) * 1024 / 1e6
    else:
        yield memory


def _forget_peak() -> bool:
    """Let the kernel note this process's highest memory afresh; tell whether it lets us.

    What was freed goes back to the kernel first: memory that is used again would not be seen to grow.
    """
    with suppress(AttributeError):  # not every C library has it
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _kilobytes(field: str) -> int:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[field].split()[0])


# ---- the paper's count -----------------------------------------------------------------------------------------------

PAPER_FORWARD_PASSES: dict[str, Callable[[int, int], int]] = {
    "source": lambda langevin_steps, views: 1,
    "tent": lambda langevin_steps, views: 1,
    "lame": lambda langevin_steps, views: 2,
    "tea": lambda langevin_steps, views: langevin_steps + 2 + 1,
    "memo": lambda langevin_steps, views: views + 1,
    "mita": lambda langevin_steps, views: 2 * (langevin_steps + 2) + 1 + 1,
}
"""Method -> forward passes an image in the MITA paper's complexity table, from Langevin steps T and MEMO's views.

TEA: T steps of the chains, one pass each of images and samples for the update, one to answer. MITA: that update of two
models once each, one move of the images, one pass to answer. Backward passes are not in the table."""


def paper_gflops(
    network: nn.Module,
    method: str,
    *,
    image_shape: tuple[int, int, int] = (3, 32, 32),
    langevin_steps: int = 1,
    views: int = 4,
) -> float:
    """Return a method's cost an image as the MITA paper counts it: forward passes only, in billions of multiply-adds.

    Args:
        network: The classifier.
        method: One of ``PAPER_FORWARD_PASSES``.
        image_shape: Channels, height and width of an image.
        langevin_steps: T, of TEA and MITA.
        views: Augmented views an image, of MEMO.

    Example:
        >>> import midway
        >>> from midway.cost import paper_gflops
        >>> network = midway.models.create("wrn16_2")
        >>> round(paper_gflops(network, "mita") / paper_gflops(network, "source"))
        8
    """
    if method not in PAPER_FORWARD_PASSES:
        raise ValueError(unknown("method of the paper's complexity table", method, PAPER_FORWARD_PASSES))
    passes = PAPER_FORWARD_PASSES[method](langevin_steps, views)
    return passes * multiply_adds(network, image_shape) / 1e9


def multiply_adds(network: nn.Module, image_shape: tuple[int, int, int] = (3, 32, 32)) -> int:
    """Count a forward pass of one image in the convention behind the MITA paper's GFLOPs.

    Each multiply-add of a convolution or a matrix product is one; a normalisation layer takes two for each number
    that leaves it, four if it scales and shifts; all else is free. WRN-28-10 comes out at 5.2526 billion, the paper's
    5.25. Nothing is computed: the shapes alone run through the network.

    Example:
        >>> from torch import nn
        >>> from midway.cost import multiply_adds
        >>> network = nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(32, 5))
        >>> multiply_adds(network, (3, 2, 2))  # 3 x 8 x 4 + 4 x 8 x 4 + 32 x 5
        384
    """
    state = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    shapes = {name: torch.empty_like(tensor, device="meta") for name, tensor in state.items()}
    of_norms = 0

    def count_norm(layer: nn.Module, inputs: Any, output: Tensor) -> None:
        nonlocal of_norms
        of_norms += (4 if getattr(layer, "weight", None) is not None else 2) * output.numel()

    hooks = [layer.register_forward_hook(count_norm) for _, layer in norm_layers(network)]
    try:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            functional_call(network, shapes, (torch.empty(1, *image_shape, device="meta"),))
    finally:
        for hook in hooks:
            hook.remove()
    products: int = counter.get_total_flops() // 2
    return products + of_norms
