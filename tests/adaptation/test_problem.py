"""The size of a problem, and the network's layers that published settings depend on."""

from __future__ import annotations

import torch
from torch import nn

from midway.adaptation.problem import Problem


def test_the_problem_is_that_of_the_network_and_the_first_batch() -> None:
    network = nn.Sequential(nn.Flatten(), nn.LayerNorm(4))
    assert Problem.of(network, torch.rand(50, 3, 224, 240), torch.zeros(50, 9)) == Problem(9, 224, 50, False, True)
    assert Problem.of(nn.BatchNorm2d(3), torch.rand(50, 3, 9)) == Problem(0, 0, 50, True, False)
