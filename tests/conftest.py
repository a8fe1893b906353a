from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import nn

import sharp_networks


@pytest.fixture
def sharp_network() -> Callable[..., nn.Module]:
    return sharp_networks.sharp_network
