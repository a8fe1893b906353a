"""Langevin dynamics: gradient descent of images on an energy, with or without noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Energy = Callable[[Tensor], Tensor]
"""From images (N, C, H, W) to energies (N,)."""

GradientFilter = Callable[[Tensor], Tensor]
"""From a gradient to the preconditioned gradient that replaces it."""


class LangevinResult(NamedTuple):
    """The result of Langevin steps.

    Attributes:
        images: The images after the last step, detached.
        stalled: Boolean (N,): the image skipped a step because the step was not finite.
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
    gradient_filter: GradientFilter | None = None,
    generator: torch.Generator | None = None,
) -> LangevinResult:
    """Take ``steps`` steps x <- x - (step_size / 2) dE/dx + noise * epsilon, epsilon standard normal (MITA, eq. 4).

    Energies are summed, not averaged, so the step of an image does not depend on the size of the batch (unless the
    energy itself mixes images, as batch statistics do). An image whose step is not finite skips that step.

    Args:
        energy: From images to energies; only gradients with respect to the images are computed.
        start: The initial images; they are not changed.
        steps: Number of steps, T in the paper; 0 returns the start.
        step_size: Alpha in the paper.
        noise: Standard deviation of the noise; None is the paper's sqrt(step_size), 0 is plain descent (eq. 10).
        clip: Largest absolute value of an entry of the gradient (the proximal steps of JEM++).
        clamp: Range to which the images are clamped after every step.
        gradient_filter: Applied to every gradient, for example a ``SpectralFilter``.
        generator: Source of the noise, on the device of the images; required if there is noise.

    Example:
        >>> import midway, torch  # each step of size 1 halves the distance to the minimum of a quadratic energy
        >>> quadratic, start = lambda x: 0.5 * x.square().sum(dim=(1, 2, 3)), torch.full((1, 1, 1, 1), 8.0)
        >>> midway.sampling.langevin(quadratic, start, steps=3, step_size=1.0, noise=0).images.item()
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
        gradient = gradient if gradient_filter is None else gradient_filter(gradient)
        images, skipped = langevin_step(
            images, gradient, step_size=step_size, noise=noise, clip=clip, clamp=clamp, generator=generator
        )
        stalled |= skipped
    return LangevinResult(images, stalled)


def langevin_step(
    images: Tensor,
    gradient: Tensor,
    *,
    step_size: float,
    noise: float | None = None,
    clip: float | None = None,
    clamp: tuple[float, float] | None = None,
    generator: torch.Generator | None = None,
) -> LangevinResult:
    """Take one Langevin step along a given gradient; the arguments are those of ``langevin``.

    Example:
        >>> import midway, torch
        >>> images = torch.full((1, 1, 1, 1), 8.0)
        >>> midway.sampling.langevin_step(images, gradient=images, step_size=1.0, noise=0).images.item()
        4.0
    """
    scale = math.sqrt(step_size) if noise is None else noise
    if scale and generator is None:
        raise ValueError("Langevin steps with noise need a generator: give generator=torch.Generator().")
    images = images.detach()
    unclipped = gradient
    if clip is not None:
        gradient = gradient.clamp(-clip, clip)
    after = torch.add(images, gradient, alpha=-step_size / 2)
    if scale:
        after = after.add_(torch.empty_like(images).normal_(generator=generator), alpha=scale)
    if clamp is not None:
        after = after.clamp_(*clamp)
    finite = (after - after == 0).flatten(1).all(dim=1)  # x - x is 0 for finite x only
    if clip is not None or clamp is not None:  # clamping turns infinite values into finite ones
        finite &= (unclipped - unclipped == 0).flatten(1).all(dim=1)
    return LangevinResult(torch.where(finite.view(-1, 1, 1, 1), after, images), ~finite)
