"""Small functions of the machinery that no other test calls directly."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import midway
from midway.adaptation import copies
from midway.adaptation.checks import check_hyperparameters, check_images
from midway.adaptation.describe import tuned_of
from midway.adaptation.parameters import first_weight, norm_layers
from midway.adaptation.precision import use_bf16, without_autocast_cache
from midway.adaptation.presets import with_preset
from midway.adaptation.problem import Problem
from midway.adaptation.space import Integers, LogUniform, Uniform
from midway.adaptation.state import capture
from midway.cost import count_passes


def test_copies() -> None:
    assert copies.supports_channels_last(nn.Conv2d(3, 4, 1))
    assert not copies.supports_channels_last(nn.GroupNorm(1, 4))
    assert isinstance(copies.without_parallel(nn.DataParallel(nn.Flatten())), nn.Flatten)
    assert not copies.in_evaluation_mode(nn.Sequential(nn.Dropout()))[0].training  # type: ignore[index]
    layer = nn.Linear(1, 1)
    assert copies.independent_copy(layer, torch.contiguous_format).weight is not layer.weight
    layer.doubled = 2 * layer.weight
    assert list(copies.graph_tensors(layer)) == [id(layer.doubled)]


def test_checks_and_parameters() -> None:
    with pytest.raises(TypeError, match=r"lr must be a number, got '1e-3'\."):
        check_hyperparameters(midway.Tent, {"lr": "1e-3"})
    with pytest.raises(ValueError, match=r"images must have shape \(N, C, H, W\), got \(3, 32, 32\)"):
        check_images(torch.rand(3, 32, 32), nn.Flatten())
    assert [name for name, _ in norm_layers(nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)))] == ["1"]
    assert first_weight(nn.Flatten(), torch.empty(0)).dtype == torch.float32


def test_precision() -> None:
    cpu = torch.device("cpu")
    assert (use_bf16("bf16", cpu), use_bf16("float32", cpu)) == (True, False)
    layer, one = nn.Linear(1, 1, bias=False), torch.ones(1, 1)
    with torch.autocast("cpu", torch.bfloat16), without_autocast_cache():
        layer(one)
        layer.weight.data.fill_(2.0)
        assert layer(one).item() == 2.0


def test_problems_presets_spaces_and_state() -> None:
    assert Problem.of(torch.rand(50, 3, 224, 240), torch.zeros(50, 1000)) == (1000, 224, 50)
    assert with_preset("tent", {"preset": "tuned", "lr": 1e-4})["lr"] == 1e-4
    assert tuned_of("memo") == {}
    assert tuned_of("bn") == {"prior": "0"}
    assert str(LogUniform(1e-4, 1e-2)) == "0.0001 to 0.01, logarithmic"
    assert str(Uniform(0.5, 0.99)) == "0.5 to 0.99"
    assert str(Integers(1, 20, log=True)) == "1 to 20, integer, logarithmic"
    assert (4 in Integers(1, 4), 2.5 in Integers(1, 4)) == (True, False)
    counts = torch.ones(2)
    before = capture({"counts": counts, "seen": 3})
    counts.zero_()
    assert before["counts"].tolist() == [1, 1]


def test_passes_are_counted() -> None:
    method = midway.BN(midway.models.create("resnet20"))
    with count_passes(method) as passes:
        method(torch.rand(4, 3, 32, 32))
    assert (passes.forward - 2, passes.backward) == (4, 0)  # two images check a new shape
