"""An optimiser that waits for the first batch to be made."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import nn

OptimizerKind = Literal["adam", "sgd"]


class LateOptimizer:
    """Adam or SGD with momentum 0.9, made once kind and step size are known.

    Its state is kept like that of any optimiser, made or not.

    Args:
        parameters: What it will move.
        betas: Averaging of Adam's moments.

    Example:
        >>> import torch
        >>> from midway.adaptation.optimizers import LateOptimizer
        >>> late = LateOptimizer([torch.nn.Parameter(torch.ones(1))])
        >>> late.state_dict()
        {}
        >>> type(late.made("sgd", lr=0.1)).__name__
        'SGD'
    """

    def __init__(self, parameters: Iterable[nn.Parameter], betas: tuple[float, float] = (0.9, 0.999)) -> None:
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas must be at least 0 and below 1, got {betas}.")
        self.parameters, self.betas = list(parameters), betas
        self._made: torch.optim.Optimizer | None = None
        self._how: dict[str, Any] = {}

    def made(self, kind: OptimizerKind, lr: float) -> torch.optim.Optimizer:
        """Return the optimiser, which is made at the first call."""
        if self._made is None:
            self._how = {"kind": kind, "lr": lr}
            if kind == "adam":
                self._made = torch.optim.Adam(self.parameters, lr=lr, betas=self.betas)
            else:
                self._made = torch.optim.SGD(self.parameters, lr=lr, momentum=0.9)
        return self._made

    def state_dict(self) -> dict[str, Any]:
        """Return how it was made and the optimiser's own state; nothing before it is made."""
        return {} if self._made is None else {"how": dict(self._how), "optimizer": self._made.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""
        self._made, self._how = None, {}
        if state:
            self.made(**state["how"]).load_state_dict(state["optimizer"])


def check_optimizer(kind: OptimizerKind | None, lr: float | None) -> None:
    """Refuse unknown kinds and step sizes that are no step sizes."""
    if kind not in (None, "adam", "sgd"):
        raise ValueError(f"optimizer must be 'adam', 'sgd' or None (by the size of the problem), got {kind!r}.")
    if lr is not None and not 0 <= lr < math.inf:
        raise ValueError(f"lr must be 0 or more, or None (by the size of the problem), got {lr}.")
