"""The size of a problem."""

from __future__ import annotations

import torch

from midway.adaptation.problem import Problem


def test_the_size_is_that_of_the_first_batch() -> None:
    assert Problem.of(torch.rand(50, 3, 224, 240), torch.zeros(50, 1000)) == (1000, 224, 50)
