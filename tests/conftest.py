from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import midway
from midway.testing import batches, tiny_network


def _sharp_network(factor: float = 40, **kwargs: Any) -> nn.Module:
    """Make a tiny network that is certain of some images and not of others, and knows all its classes."""
    network = tiny_network(**kwargs)
    head = network[-1]  # type: ignore[index]
    with torch.no_grad():
        head.weight *= factor
        head.bias -= midway.Tent(network)(batches(1, size=100, seed=77)[0]).mean(dim=0)
    return network


@pytest.fixture
def sharp_network() -> Callable[..., nn.Module]:
    return _sharp_network
