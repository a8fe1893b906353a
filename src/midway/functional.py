"""Pure functions of logits."""

from __future__ import annotations

import torch
from torch import Tensor


def entropy(logits: Tensor) -> Tensor:
    """Return the Shannon entropy of the predicted distributions, in nats: logits (N, C) -> (N,), between 0 and ln C.

    Example:
        >>> import midway, torch
        >>> midway.functional.entropy(torch.zeros(1, 4)).exp()
        tensor([4.])
    """
    log_probabilities = logits.log_softmax(dim=1)
    lowest = torch.finfo(logits.dtype).min  # a class with logit -inf contributes 0, not NaN
    return -(log_probabilities.exp() * log_probabilities.clamp(min=lowest)).sum(dim=1)


def free_energy(logits: Tensor) -> Tensor:
    """Return E(x) = -log sum_y exp f(x)[y] of a classifier as an energy-based model: logits (N, C) -> (N,).

    Low energy means that the image is likely under the model (MITA, eq. 7).

    Example:
        >>> import midway, torch
        >>> midway.functional.free_energy(torch.tensor([[0.0, 0.0]])).exp()
        tensor([0.5000])
    """
    return -logits.logsumexp(dim=1)
