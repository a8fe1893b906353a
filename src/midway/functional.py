"""Pure functions of logits."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor


def at_least_float32(values: Tensor) -> Tensor:
    """Return values of 16 bits in float32, and others as they are: losses need more digits than 16 bits have.

    Example:
        >>> import midway, torch
        >>> [midway.functional.at_least_float32(torch.zeros(1, dtype=t)).dtype for t in (torch.bfloat16, torch.float64)]
        [torch.float32, torch.float64]
    """
    return values.to(torch.promote_types(values.dtype, torch.float32))


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


def exchange_top(logits: Tensor, answers: Tensor) -> Tensor:
    """Return logits (N, C) with the top classes of ``answers`` (N, C): two values of each row are exchanged.

    The largest value is exchanged with that of the top class of the answers. The sorted probabilities, and with them
    the confidence, remain those of the logits.

    Example:
        >>> import midway, torch
        >>> midway.functional.exchange_top(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([[0.0, 9.0, 0.0]]))
        tensor([[1., 3., 2.]])
    """
    top, answer = (each.argmax(dim=1, keepdim=True) for each in (logits, answers))
    return logits.scatter(1, top, logits.gather(1, answer)).scatter(1, answer, logits.gather(1, top))


def log_mean_softmax(logits: Iterable[Tensor]) -> Tensor:
    """Return the logarithm of the mean probabilities of several predictions (N, C) for the same images.

    Example:
        >>> import midway, torch
        >>> even, certain = torch.zeros(1, 2), torch.tensor([[0.0, -torch.inf]])
        >>> midway.functional.log_mean_softmax([even, certain]).exp()
        tensor([[0.7500, 0.2500]])
    """
    each = torch.stack([at_least_float32(answer.detach()).log_softmax(dim=1) for answer in logits])
    return each.logsumexp(dim=0) - math.log(len(each))
