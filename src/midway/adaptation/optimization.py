"""How a method takes its steps: optimisers, SAM, the number of updates and the pass that predicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from midway.adaptation.checks import check_range
from midway.adaptation.problem import Problem

OptimizerKind = Literal["adam", "sgd"]
Predict = Literal["before", "after"]


def optimizer_step(loss: Tensor | Iterable[Tensor], optimizer: torch.optim.Optimizer) -> bool:
    """Take one step on a loss, or on a sum of terms, unless it or its gradient is not finite; return whether it was.

    Terms from a generator are differentiated one by one, so only one graph is in memory at a time.
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


class LazyOptimizer:
    """Adam or SGD with momentum 0.9, Nesterov's or plain, created once the kind and the step size are resolved."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        betas: tuple[float, float] = (0.9, 0.999),
        *,
        nesterov: bool = False,
    ) -> None:
        for beta in betas:
            check_range(at_least=0, below=1, betas=beta)
        self.parameters, self.betas, self.nesterov = list(parameters), betas, nesterov
        self._optimizer: torch.optim.Optimizer | None = None
        self._arguments: dict[str, Any] = {}

    def get(self, kind: OptimizerKind, lr: float) -> torch.optim.Optimizer:
        """Return the optimiser, which the first call creates."""
        if self._optimizer is None:
            self._arguments = {"kind": kind, "lr": lr}
            if kind == "adam":
                self._optimizer = torch.optim.Adam(self.parameters, lr=lr, betas=self.betas)
            else:
                self._optimizer = torch.optim.SGD(self.parameters, lr=lr, momentum=0.9, nesterov=self.nesterov)
        return self._optimizer

    def state_dict(self) -> dict[str, Any]:
        """Return the arguments and the state of the optimiser; nothing before it is created."""
        if self._optimizer is None:
            return {}
        return {"arguments": dict(self._arguments), "optimizer": self._optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load what ``state_dict`` returned."""
        self._optimizer, self._arguments = None, {}
        if state:
            self.get(**state["arguments"]).load_state_dict(state["optimizer"])


def adam_or_sgd(problem: Problem, *, sgd_lr: float) -> dict[str, Any]:
    """Return the published optimiser and its step size: Adam with 1e-3 for CIFAR, SGD for ImageNet.

    Example:
        >>> from midway.adaptation.optimization import adam_or_sgd
        >>> from midway.adaptation.problem import CIFAR_SIZE
        >>> adam_or_sgd(CIFAR_SIZE, sgd_lr=2.5e-4)
        {'optimizer': 'adam', 'lr': 0.001}
    """
    return {"optimizer": "sgd", "lr": sgd_lr} if problem.is_imagenet_size else {"optimizer": "adam", "lr": 1e-3}


def sam_step(
    loss: Tensor, perturbed_loss: Callable[[], Tensor | None], optimizer: torch.optim.Optimizer, *, rho: float
) -> bool:
    """Take a step of sharpness-aware minimisation, towards flat minima (Foret et al., ICLR 2021).

    The weights first move a distance rho up the gradient of the loss. The gradient of the other loss is computed at
    that point and applied to the initial weights. Returns whether a finite step was taken; ``perturbed_loss`` may
    return None for no step.
    """
    has_loss = False

    def terms() -> Generator[Tensor]:
        nonlocal has_loss
        with _perturbed(loss, optimizer, rho):
            if (second := perturbed_loss()) is not None:
                has_loss = True
                yield second

    with closing(terms()) as generator:  # restores the weights even if an error occurs
        return optimizer_step(generator, optimizer) and has_loss


@contextmanager
def _perturbed(loss: Tensor, optimizer: torch.optim.Optimizer, rho: float) -> Iterator[None]:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    changed = [(p, g, p.detach().clone()) for p, g in zip(parameters, gradients, strict=True) if g is not None]
    norm = torch.nn.utils.get_total_norm([gradient for _, gradient, _ in changed]).item()
    scale = rho / norm if norm > 0 and math.isfinite(norm) else 0.0
    with torch.no_grad():
        if scale:
            for parameter, gradient, _ in changed:
                parameter.add_(gradient, alpha=scale)
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, _, before in changed:
                parameter.copy_(before)
