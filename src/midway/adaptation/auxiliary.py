"""A second head of a network, for a task without labels that was trained together with the classes (TTT)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from midway.models.outputs import logits_of

SIDES = (32, 224, 64, 28)
"""Sides, in pixels, of the images for trial passes."""


class AuxiliaryHead(nn.Module):
    """The second head as a module from images to its logits; it has no weights beside those of the network.

    Args:
        network: The network that the head belongs to.
        head: The name of a method of the network from images to logits.
        outputs: Number of logits.
        task: The name of the task in error messages.

    Example:
        >>> import torch
        >>> from midway import models
        >>> from midway.adaptation.auxiliary import AuxiliaryHead
        >>> network = models.create("wrn16_2_rotation")
        >>> AuxiliaryHead(network, "rotation_logits", outputs=4, task="rotation")(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 4])
    """

    def __init__(self, network: nn.Module, head: str, *, outputs: int, task: str) -> None:
        super().__init__()
        self.network = (network,)  # in a tuple: the weights are listed once, as the network's
        self.head, self.outputs, self.task = head, outputs, task
        if not isinstance(head, str):
            raise TypeError(f"auxiliary must be the name of a method of the model, got {head!r}.")
        if not callable(getattr(network, head, None)):
            raise ValueError(
                f"{type(network).__name__} has no {task} head, as it has no method {head}: give a network that was "
                f'trained with one, such as midway.models.load("wrn16_2_{task}.cifar10"), and the name of the method '
                f"from images to the {outputs} logits of the {task} as auxiliary=."
            )

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits of the task, one row per image."""
        logits = logits_of(getattr(self.network[0], self.head)(images))
        if not isinstance(logits, Tensor) or logits.shape != (len(images), self.outputs):
            shown = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise ValueError(
                f"the {self.task} head must return logits ({len(images)}, {self.outputs}) for {len(images)} images, "
                f"it returned {shown}: give the name of another method as auxiliary=."
            )
        return logits


class Parts(NamedTuple):
    """The parameters behind the second head, by name."""

    shared: dict[str, nn.Parameter]  # those behind the classes too
    branch: dict[str, nn.Parameter]  # all


def parameters_behind(network: nn.Module, head: AuxiliaryHead, sides: Sequence[int] = SIDES) -> Parts:
    """Return the parameters behind the second head, found by the gradients of a pass over grey images.

    Gradients that are zero count as well: what matters is whether a parameter is part of the computation.
    """
    named = {name: parameter for name, parameter in network.named_parameters() if parameter.is_floating_point()}
    channels = next((weight.shape[1] for weight in named.values() if weight.ndim == 4), 3)
    flags = [parameter.requires_grad for parameter in named.values()]
    state = {name: buffer.clone() for name, buffer in network.named_buffers()}
    error: Exception | None = None
    try:
        for parameter in named.values():
            parameter.requires_grad_()
        for side in sides:
            like = next(iter(named.values()), torch.empty(0))
            images = torch.full((2, channels, side, side), 0.5, dtype=like.dtype, device=like.device)
            try:
                with warnings.catch_warnings(), torch.enable_grad():
                    warnings.simplefilter("ignore")
                    found = [_used(output, named) for output in (head(images), logits_of(network(images)))]
            except Exception as raised:  # a network refuses a size in its own way
                error = error or raised
                continue
            branch = {name: parameter for name, parameter in named.items() if name in found[0]}
            shared = {name: parameter for name, parameter in branch.items() if name in found[1]}
            break
        else:
            raise ValueError(
                f"the {head.task} head cannot be run on grey images of {', '.join(map(str, sides))} pixels: {error}"
            ) from error
    finally:
        for parameter, flag in zip(named.values(), flags, strict=True):
            parameter.requires_grad_(flag)
        for name, buffer in network.named_buffers():
            if name in state and buffer.shape == state[name].shape:
                buffer.copy_(state[name])
    if not shared:
        raise ValueError(
            f"the {head.task} head and the classes share no weights, so learning the one does not change the other: "
            "give a network whose two heads share their first layers."
        )
    return Parts(shared, branch)


def _used(output: Any, named: dict[str, nn.Parameter]) -> set[str]:
    """Return the names of the parameters that an output was computed from."""
    if not output.requires_grad:
        return set()
    gradients = torch.autograd.grad(output.sum(), list(named.values()), allow_unused=True)
    return {name for name, gradient in zip(named, gradients, strict=True) if gradient is not None}
