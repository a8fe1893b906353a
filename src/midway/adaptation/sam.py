"""SAM: sharpness-aware minimisation around any optimiser (Foret et al., ICLR 2021)."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from typing import Any

import torch
from torch import Tensor

from midway.adaptation.descent import descend


class SAM:
    """Descends by the gradient found a little uphill, rho along the gradient, so that the minimum reached is flat.

    Args:
        optimizer: Takes the step; its state is SAM's state.
        rho: Distance uphill.

    Example:
        >>> import torch
        >>> from midway.adaptation.sam import SAM
        >>> x = torch.nn.Parameter(torch.tensor(1.0))
        >>> sam = SAM(torch.optim.SGD([x], lr=0.1), rho=0.5)
        >>> sam.descend(x * x, lambda: x * x)  # the gradient at 1.5 is 3
        True
        >>> round(x.item(), 3)
        0.7
    """

    def __init__(self, optimizer: torch.optim.Optimizer, *, rho: float = 0.05) -> None:
        if rho < 0:
            raise ValueError(f"rho must be 0 or more, got {rho}.")
        self.optimizer = optimizer
        self.rho = rho

    def descend(self, loss: Tensor, loss_uphill: Callable[[], Tensor | None]) -> bool:
        """Go uphill on a loss, take the gradient of another one there, come back and step by it.

        Args:
            loss: A scalar at the weights as they are.
            loss_uphill: Computes the loss at the weights uphill; None takes no step.

        Returns:
            Whether a step was taken that is finite; if not, weights and optimiser are as before.
        """
        found = False

        def terms() -> Generator[Tensor]:
            nonlocal found
            with self._uphill(loss):
                if (there := loss_uphill()) is not None:
                    found = True
                    yield there

        with closing(terms()) as uphill:  # whatever happens there, the weights come back
            return descend(uphill, self.optimizer) and found

    @contextmanager
    def _uphill(self, loss: Tensor) -> Iterator[None]:
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        moved = [(p, g, p.detach().clone()) for p, g in zip(parameters, found, strict=True) if g is not None]
        norm = torch.nn.utils.get_total_norm([gradient for _, gradient, _ in moved]).item()
        climb = self.rho / norm if norm > 0 and math.isfinite(norm) else 0.0
        with torch.no_grad():
            if climb:
                for parameter, gradient, _ in moved:
                    parameter.add_(gradient, alpha=climb)
        try:
            yield
        finally:
            with torch.no_grad():
                for parameter, _, before in moved:
                    parameter.copy_(before)

    def state_dict(self) -> dict[str, Any]:
        """Return the optimiser's state."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""
        self.optimizer.load_state_dict(state)
