"""The parameters that methods adapt."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import midway
from midway.adaptation.parameters import first_weight, freeze_all_but, last_stage, norm_affine, norm_layers


def test_norm_layers_and_the_first_weight() -> None:
    assert [name for name, _ in norm_layers(nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)))] == ["1"]
    assert first_weight(nn.Flatten(), torch.empty(0)).dtype == torch.float32


def test_only_norm_layers_are_trainable() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    assert sorted(norm_affine(model)) == ["1.bias", "1.weight"]
    assert len(freeze_all_but(model, norm_affine(model))) == 2
    assert not model[0].weight.requires_grad


def test_the_last_stage_of_a_transformer() -> None:
    def block() -> nn.Module:
        return nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4), nn.LayerNorm(4))

    vit = nn.ModuleDict({"blocks": nn.Sequential(*[block() for _ in range(12)]), "norm": nn.LayerNorm(4)})
    assert last_stage(vit) == ("blocks.9", "blocks.10", "blocks.11", "norm")
    assert last_stage(nn.Sequential(block(), block(), block())) == ()


def test_layers_of_your_own_count_by_name() -> None:
    with pytest.raises(ValueError, match="if the name of its class contains 'norm' and its weight is a vector"):
        midway.Tent(nn.Sequential(nn.Flatten(), nn.Linear(3, 2)))
