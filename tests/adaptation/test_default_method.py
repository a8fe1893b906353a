"""midway.adapt without the name of a method."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import midway
from midway.testing import tiny_network


def test_networks_with_batch_norm_get_clustered_statistics() -> None:
    images = torch.rand(8, 3, 8, 8)
    adapted = midway.adapt(tiny_network())
    named = midway.adapt(tiny_network(), "bn", statistics="clustered")
    assert repr(adapted) == repr(named)
    assert adapted(images).equal(named(images))


def test_settings_apply_to_the_default() -> None:
    assert isinstance(midway.adapt(tiny_network(), wrap="episodic"), midway.Episodic)
    assert "clustered" not in repr(midway.adapt(tiny_network(), statistics=None))
    with pytest.raises(TypeError, match="unknown hyper-parameter of bn 'lr'"):
        midway.adapt(tiny_network(), lr=0.1)


def test_a_network_that_is_clustered_already_stays_so() -> None:
    assert "clustered" in repr(midway.adapt(midway.clustered(tiny_network())))


def test_networks_without_batch_norm_are_left_as_they_are_with_a_warning() -> None:
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.Flatten(), nn.Linear(8 * 36, 4))
    images = torch.rand(8, 3, 8, 8)
    with pytest.warns(UserWarning, match=r"no BatchNorm layer, .* Name a method, such as sar"):
        adapted = midway.adapt(network)
    assert isinstance(adapted, midway.Source)
    assert adapted(images).equal(network(images).detach())


def test_what_is_no_network_is_refused() -> None:
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, got int"):
        midway.adapt(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="already adapted by Source"):
        midway.adapt(midway.Source(tiny_network()))
