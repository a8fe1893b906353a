"""Steps of optimisers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from midway.adaptation.optimization import LazyOptimizer, optimizer_step, sam_step


def test_a_step_on_a_loss_that_is_not_finite_is_not_taken() -> None:
    x = nn.Parameter(torch.tensor(1.0))
    optimizer = torch.optim.SGD([x], lr=0.5)
    assert optimizer_step((term for term in [x * x, -x]), optimizer)
    assert x.item() == 0.5
    assert not optimizer_step(x * float("nan"), optimizer)
    assert x.item() == 0.5
    lazy = LazyOptimizer([x])
    assert lazy.state_dict() == {}
    assert isinstance(lazy.get("sgd", lr=0.1), torch.optim.SGD)
    y = nn.Parameter(torch.tensor(1.0))
    assert sam_step(y * y, lambda: y * y, torch.optim.SGD([y], lr=0.1), rho=0.5)
    assert y.item() == pytest.approx(0.7)  # the gradient at 1.5 is 3
