"""Losses on logits without labels: entropies, cross-entropies between predictions, likelihood ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from midway.functional import entropy

EntropyLoss = Literal["entropy", "come"]

SMALLEST_MASS = 1e-7  # added to each belief, inside and outside the logarithm, as published
LARGEST_PROBABILITY = 0.99
SMALLEST_ODDS = 1e-5


def opinion_entropy(logits: Tensor) -> Tensor:
    """Return the entropy of the subjective opinion that logits express, COME's loss: (N, C) -> (N,).

    An opinion has a belief in each class and an uncertainty, b_c = exp z_c / S and u = C / S with
    S = sum_c exp z_c + C, which sum to 1. z are the logits. Gradients treat their length as a constant, so longer
    logits cannot lower the loss. Its largest value is ln (C + 1).

    Paper: Zhang et al., ICLR 2025. The published code has 1,000 in place of C.

    Example:
        >>> import torch
        >>> from midway.adaptation.losses import opinion_entropy
        >>> opinion_entropy(torch.zeros(1, 4)).exp()  # four beliefs of 1/8, and half of the mass is uncertainty
        tensor([4.0000])
    """
    length = torch.linalg.vector_norm(logits.detach(), dim=1, keepdim=True)
    z = F.normalize(logits, dim=1) * length
    z = torch.cat([z, z.new_full((len(z), 1), math.log(logits.shape[1]))], dim=1)
    masses = z.softmax(dim=1) + SMALLEST_MASS
    return -(masses * masses.log()).sum(dim=1)


ENTROPIES: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType({"entropy": entropy, "come": opinion_entropy})
"""What an entropy method can minimise, by the name that ``loss=`` takes."""


def entropy_loss(name: EntropyLoss) -> Callable[[Tensor], Tensor]:
    """Return the function that a method with ``loss=`` minimises and selects images by.

    Example:
        >>> from midway.adaptation.losses import entropy_loss
        >>> entropy_loss("come").__name__
        'opinion_entropy'
    """
    if name not in ENTROPIES:
        raise ValueError(f"loss must be {' or '.join(map(repr, ENTROPIES))}, got {name!r}.")
    return ENTROPIES[name]


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return -sum_c q_c ln p_c between predictions p and targets q, both given as logits: (N, C), (N, C) -> (N,).

    Gradients flow through both, unless one is detached.

    Example:
        >>> import torch
        >>> from midway.adaptation.losses import soft_cross_entropy
        >>> soft_cross_entropy(torch.zeros(1, 4), torch.tensor([[9.0, 0.0, 0.0, 0.0]])).exp()
        tensor([4.0000])
    """
    lowest = torch.finfo(logits.dtype).min  # a class with logit -inf in both contributes 0, not NaN
    return -(targets.softmax(dim=1) * logits.log_softmax(dim=1).clamp(min=lowest)).sum(dim=1)


def symmetric_cross_entropy(first: Tensor, second: Tensor) -> Tensor:
    """Return the mean of the cross-entropies in both directions: (N, C), (N, C) -> (N,).

    Example:
        >>> import torch
        >>> from midway.adaptation.losses import symmetric_cross_entropy
        >>> symmetric_cross_entropy(torch.zeros(1, 4), torch.zeros(1, 4)).exp()
        tensor([4.])
    """
    return 0.5 * soft_cross_entropy(first, second) + 0.5 * soft_cross_entropy(second, first)


def soft_likelihood_ratio(logits: Tensor) -> Tensor:
    """Return -sum_c p_c ln (p_c / (1 - p_c)), ROID's loss: (N, C) -> (N,).

    Unlike the entropy, its gradient does not vanish for confident predictions. Probabilities above 0.99 count as 0.99
    and have no gradient.

    Example:
        >>> import torch
        >>> from midway.adaptation.losses import soft_likelihood_ratio
        >>> soft_likelihood_ratio(torch.zeros(1, 4)).exp()  # odds of 1 to 3
        tensor([2.9999])
    """
    p = logits.softmax(dim=1).clamp(max=LARGEST_PROBABILITY)
    return -(p * (p / (1 - p) + SMALLEST_ODDS).log()).sum(dim=1)
