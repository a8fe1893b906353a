"""Langevin dynamics: images walk downhill on an energy, with or without noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Energy = Callable[[Tensor], Tensor]
"""From images (N, C, H, W) to energies (N,)."""

Measure = Callable[[Tensor], Tensor]
"""From a gradient to the direction that is taken instead."""


class Walk(NamedTuple):
    """Where a walk ended.

    Attributes:
        images: The images after the last step, detached.
        stalled: Which images missed a move because it was not finite, (N,) of truth values.
    """

    images: Tensor
    stalled: Tensor


def langevin(
    energy: Energy,
    start: Tensor,
    *,
    steps: int,
    step_size: float,
    noise: float | None = None,
    clip: float | None = None,
    clamp: tuple[float, float] | None = None,
    measure: Measure | None = None,
    generator: torch.Generator | None = None,
) -> Walk:
    """Walk ``steps`` times x <- x - (step_size / 2) dE/dx + noise * epsilon, epsilon standard normal (MITA, eq. 4).

    Energies are summed, not averaged, so an image's move does not depend on how many others are in the batch (unless
    the energy itself mixes them, as batch statistics do). An image whose move is not finite stays where it is in that
    step.

    Args:
        energy: From images to energies; only gradients with respect to the images are taken.
        start: Images to start from; they are not changed.
        steps: Number of steps, T in the paper; 0 returns the start.
        step_size: Alpha in the paper.
        noise: Standard deviation of the noise; None is the paper's sqrt(step_size), 0 a plain descent (eq. 10).
        clip: Largest value of an entry of the gradient, either sign (the proximal steps of JEM++).
        clamp: Range the images are kept in after every step.
        measure: Changes every gradient, for example by weighing directions (``NaturalMeasure``).
        generator: Source of the noise, on the device of the images; needed when there is noise.

    Example:
        A bowl with its bottom at 0: without noise, each step of size 1 halves the distance.

        >>> import torch
        >>> from midway.sampling import langevin
        >>> bowl = lambda x: 0.5 * x.square().sum(dim=(1, 2, 3))
        >>> langevin(bowl, torch.full((1, 1, 1, 1), 8.0), steps=3, step_size=1.0, noise=0).images.item()
        1.0
    """
    if steps < 0:
        raise ValueError(f"steps must be 0 or more, got {steps}.")
    if step_size < 0:
        raise ValueError(f"step_size must be 0 or more, got {step_size}.")
    images, stalled = start.detach(), torch.zeros(len(start), dtype=torch.bool, device=start.device)
    for _ in range(steps):
        images = images.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(energy(images).sum(), images)
        gradient = gradient if measure is None else measure(gradient)
        images, missed = move(
            images, gradient, step_size=step_size, noise=noise, clip=clip, clamp=clamp, generator=generator
        )
        stalled |= missed
    return Walk(images, stalled)


def move(
    images: Tensor,
    gradient: Tensor,
    *,
    step_size: float,
    noise: float | None = None,
    clip: float | None = None,
    clamp: tuple[float, float] | None = None,
    generator: torch.Generator | None = None,
) -> Walk:
    """Take one Langevin step along a gradient that is at hand; the arguments are those of ``langevin``.

    Example:
        >>> import torch
        >>> from midway.sampling import move
        >>> x = torch.full((1, 1, 1, 1), 8.0)
        >>> move(x, gradient=x, step_size=1.0, noise=0).images.item()
        4.0
    """
    scale = math.sqrt(step_size) if noise is None else noise
    if scale and generator is None:
        raise ValueError("Langevin steps with noise need a generator: give generator=torch.Generator().")
    images = images.detach()
    given = gradient
    if clip is not None:
        gradient = gradient.clamp(-clip, clip)
    moved = torch.add(images, gradient, alpha=-step_size / 2)
    if scale:
        moved = moved.add_(torch.empty_like(images).normal_(generator=generator), alpha=scale)
    if clamp is not None:
        moved = moved.clamp_(*clamp)
    finite = (moved - moved == 0).flatten(1).all(dim=1)  # true of finite numbers alone
    if clip is not None or clamp is not None:  # which make finite numbers of infinite ones
        finite &= (given - given == 0).flatten(1).all(dim=1)
    return Walk(torch.where(finite.view(-1, 1, 1, 1), moved, images), ~finite)
