"""A classifier that costs next to nothing, so that a campaign can start hundreds of runs."""

from __future__ import annotations

from torch import nn

from midway.testing import tiny_network


def tiny() -> nn.Module:
    """Return a network of ten classes."""
    return tiny_network(classes=10)
