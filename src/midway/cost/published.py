"""The cost of methods as the MITA paper counts it: forward passes, in multiply-adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.flop_counter import FlopCounterMode

from midway._suggest import unknown
from midway.adaptation.parameters import norm_layers

PAPER_FORWARD_PASSES: dict[str, Callable[[int, int], int]] = {
    "source": lambda langevin_steps, views: 1,
    "tent": lambda langevin_steps, views: 1,
    "lame": lambda langevin_steps, views: 2,
    "tea": lambda langevin_steps, views: langevin_steps + 2 + 1,
    "memo": lambda langevin_steps, views: views + 1,
    "mita": lambda langevin_steps, views: 2 * (langevin_steps + 2) + 1 + 1,
}
"""Method -> forward passes per image in the MITA paper's complexity table, from Langevin steps T and MEMO's views.

TEA: T steps of the chains, one pass each over images and samples for the update, one to predict. MITA: that update once
for each of two models, one step of the images, one pass to predict. The table has no backward passes."""


def paper_gflops(
    network: nn.Module,
    method: str,
    *,
    image_shape: tuple[int, int, int] = (3, 32, 32),
    langevin_steps: int = 1,
    views: int = 4,
) -> float:
    """Return a method's cost per image as the MITA paper counts it: forward passes, in billions of multiply-adds.

    The method is one of ``PAPER_FORWARD_PASSES``, with T Langevin steps (TEA and MITA) or augmented views (MEMO).

    Example:
        >>> import midway
        >>> network = midway.models.create("wrn16_2")
        >>> round(midway.cost.paper_gflops(network, "mita") / midway.cost.paper_gflops(network, "source"))
        8
    """
    if method not in PAPER_FORWARD_PASSES:
        raise ValueError(unknown("method of the paper's complexity table", method, PAPER_FORWARD_PASSES))
    passes = PAPER_FORWARD_PASSES[method](langevin_steps, views)
    return passes * multiply_adds(network, image_shape) / 1e9


def multiply_adds(network: nn.Module, image_shape: tuple[int, int, int] = (3, 32, 32)) -> int:
    """Count the multiply-adds of a forward pass of one image, in the convention of the MITA paper's GFLOPs.

    Each multiply-add of a convolution or a matrix product counts as one; a normalisation layer counts two for each
    output value, four if it scales and shifts; other layers count nothing. WRN-28-10 has 5.2526 billion, the paper's
    5.25. Nothing is computed: only shapes pass through the network.

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
