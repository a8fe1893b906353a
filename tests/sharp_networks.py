"""A network for tests of methods that select images by their certainty."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import midway
from midway.testing import batches, tiny_network


def sharp_network(factor: float = 40, **kwargs: Any) -> nn.Module:
    """Make a tiny network that is certain of some images and not of others, and knows all its classes."""
    network = tiny_network(**kwargs)
    head = network[-1]  # type: ignore[index]
    with torch.no_grad():
        head.weight *= factor
        head.bias -= midway.Tent(network)(batches(1, size=100, seed=77)[0]).mean(dim=0)
    return network
