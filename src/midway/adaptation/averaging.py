"""Averages of weights: mean teachers, and ensembles with the source."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


@torch.no_grad()
def average_towards(weights: Iterable[Tensor], targets: Iterable[Tensor], share: float) -> None:
    """Move weights in place towards targets, w <- (1 - share) w + share t; integers stay as they are.

    Example:
        >>> import torch
        >>> from midway.adaptation.averaging import average_towards
        >>> weight = torch.zeros(2)
        >>> average_towards([weight], [torch.ones(2)], share=0.25)
        >>> weight
        tensor([0.2500, 0.2500])
    """
    for weight, target in zip(weights, targets, strict=True):
        if weight.is_floating_point():
            weight.lerp_(target.detach().to(weight), share)
