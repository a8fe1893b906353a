"""Copies of networks that methods work on."""

from __future__ import annotations

import torch
from torch import nn

from midway.adaptation import copies


def test_a_copy_is_independent_plain_and_in_evaluation_mode() -> None:
    assert copies.supports_channels_last(nn.Conv2d(3, 4, 1))
    assert not copies.supports_channels_last(nn.GroupNorm(1, 4))
    assert isinstance(copies.without_parallel(nn.DataParallel(nn.Flatten())), nn.Flatten)
    assert not copies.in_evaluation_mode(nn.Sequential(nn.Dropout()))[0].training  # type: ignore[index]
    layer = nn.Linear(1, 1)
    assert copies.independent_copy(layer, torch.contiguous_format).weight is not layer.weight
    layer.doubled = 2 * layer.weight
    assert list(copies.graph_tensors(layer)) == [id(layer.doubled)]
