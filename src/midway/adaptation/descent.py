"""One optimiser step, taken only if it is finite."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor


def descend(loss: Tensor | Iterable[Tensor], optimizer: torch.optim.Optimizer) -> bool:
    """Take one optimiser step down a loss, unless the loss or its gradient is not finite.

    Args:
        loss: A scalar, or the terms of a sum. Terms from a generator are differentiated as they come, so that only
            one graph is in memory at a time.
        optimizer: Steps the parameters it was made for; their gradients are cleared before and after.

    Returns:
        Whether the step was taken. If not, the parameters and the optimiser are as before.

    Example:
        >>> import torch
        >>> from midway.adaptation.descent import descend
        >>> x = torch.nn.Parameter(torch.tensor(1.0))
        >>> optimizer = torch.optim.SGD([x], lr=0.5)
        >>> descend((term for term in [x * x, -x]), optimizer), x.item()
        (True, 0.5)
        >>> descend(x * float("nan"), optimizer), x.item()
        (False, 0.5)
    """
    optimizer.zero_grad(set_to_none=True)
    values = []
    for term in [loss] if isinstance(loss, Tensor) else loss:
        term.backward()
        values.append(term.detach())
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    taken = math.isfinite(torch.nn.utils.get_total_norm([*values, *gradients]).item())
    if taken:
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return taken
