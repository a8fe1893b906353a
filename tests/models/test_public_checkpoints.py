"""Checkpoints as the public repositories store them, against networks written after their descriptions."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import midway
from midway import models
from midway.models import CifarResNet, GroupNormResNet, Normalize, WideResNet

SHARED_WEIGHTS = Path(__file__).parents[3] / "shared" / "weights"
IMAGES = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
IMAGENET = (torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225]))


class OptionABlock(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        residual = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        shortcut = torch.zeros_like(residual)
        first = (residual.shape[1] - x.shape[1]) // 2
        for channel in range(x.shape[1]):
            shortcut[:, first + channel] = x[:, channel, :: self.stride, :: self.stride]
        return (residual + shortcut).relu()


class OptionAResNet(nn.Module):
    """ResNet-20 with shortcuts without weights, for normalised images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        for stage, channels, out in ((1, 16, 16), (2, 16, 32), (3, 32, 64)):
            blocks = [
                OptionABlock(channels, out, 1 if stage == 1 else 2),
                OptionABlock(out, out, 1),
                OptionABlock(out, out, 1),
            ]
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
        self.linear = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Any:
        x = self.bn1(self.conv1(x)).relu()
        for stage in (1, 2, 3):
            x = getattr(self, f"layer{stage}")(x)
        return self.linear(F.avg_pool2d(x, 8).flatten(1))


def trained_a_little(network: nn.Module) -> nn.Module:
    """Give the BatchNorm layers statistics that differ from the initial ones."""
    with torch.no_grad():
        network.train()(IMAGES)
    return network.eval()


@pytest.mark.parametrize("architecture", [None, "resnet20"])
def test_resnets_with_option_a_shortcuts(tmp_path: Path, architecture: str | None) -> None:
    network = trained_a_little(OptionAResNet())
    state = {f"module.{key}": value for key, value in network.state_dict().items()}
    torch.save({"state_dict": state, "best_prec1": 91.7}, tmp_path / "resnet20.th")
    loaded = models.load(tmp_path / "resnet20.th", architecture=architecture)
    mean, std = (values.view(1, 3, 1, 1) for values in IMAGENET)
    torch.testing.assert_close(loaded(IMAGES), network((IMAGES - mean) / std), rtol=1e-4, atol=1e-5)
    other = models.load(tmp_path / "resnet20.th", mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    torch.testing.assert_close(other(IMAGES), network(IMAGES), rtol=1e-4, atol=1e-5)


def test_a_head_called_fc_keeps_the_constants_of_cifar(tmp_path: Path) -> None:
    network = CifarResNet(depth=20, shortcut="padding").eval()
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    loaded = models.load(tmp_path / "weights.pth")
    assert torch.equal(loaded(IMAGES), network(IMAGES))
    assert not any("downsample" in key for key in network.state_dict())


@pytest.mark.parametrize("shortcut", ["convShortcut", "shortcut", "shortcut.0"])
def test_wide_resnets_without_a_level_between_stage_and_block(tmp_path: Path, shortcut: str) -> None:
    network = trained_a_little(WideResNet(depth=16, width=2, classes=7))
    keys = [
        re.sub(r"^(block\d)\.layer\.", r"\1.", key).replace("convShortcut", shortcut) for key in network.state_dict()
    ]
    state = dict(zip(keys, network.state_dict().values(), strict=True))
    state["linear.weight"], state["linear.bias"] = state.pop("fc.weight"), state.pop("fc.bias")
    torch.save({"net": state}, tmp_path / "weights.pth")
    for loaded in (models.load(tmp_path / "weights.pth"), models.load(f"wrn16_2@{tmp_path / 'weights.pth'}")):
        assert torch.equal(loaded(IMAGES), network(IMAGES))


def test_projections_called_shortcut(tmp_path: Path) -> None:
    network = trained_a_little(CifarResNet(depth=8))
    state = {key.replace("downsample", "shortcut"): value for key, value in network.state_dict().items()}
    torch.save(state, tmp_path / "weights.pth")
    loaded = models.load(tmp_path / "weights.pth", architecture="resnet20", depth=8)
    assert torch.equal(loaded(IMAGES), network(IMAGES))


def test_architecture_at_path(tmp_path: Path) -> None:
    network = WideResNet(depth=16, width=2, classes=3).eval()
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    assert torch.equal(models.load(f"wrn16_2@{tmp_path / 'weights.pth'}")(IMAGES), network(IMAGES))
    with pytest.raises(ValueError, match=r"did you mean 'wrn16_2'"):
        models.load(f"wrn16@{tmp_path / 'weights.pth'}")
    with pytest.raises(FileNotFoundError, match=r"no checkpoint at .*gone\.pth"):
        models.load(f"wrn16_2@{tmp_path / 'gone.pth'}")
    with pytest.raises(TypeError, match="leave out architecture="):
        models.load(f"wrn16_2@{tmp_path / 'weights.pth'}", architecture="wrn28_10")


def test_the_group_norm_network_averages_and_pads_its_shortcuts() -> None:
    block = GroupNormResNet(depth=8).layer2[0]
    for convolution in (block.conv1, block.conv2):
        nn.init.zeros_(convolution.weight)
    images = torch.rand(1, 16, 4, 4)
    answer = block(images)
    assert answer.shape == (1, 32, 2, 2)
    assert answer[0, 3, 0, 1].item() == pytest.approx(images[0, 3, :2, 2:].mean().item())
    assert answer[0, 16:].abs().max() == 0
    with pytest.raises(ValueError, match=r"6n \+ 2"):
        GroupNormResNet(depth=25)
    with pytest.raises(ValueError, match="at least 1"):
        GroupNormResNet(classes=0)


def test_a_shortcut_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="'projection' or 'padding', got 'identity'"):
        CifarResNet(shortcut="identity")  # type: ignore[arg-type]


@pytest.mark.skipif(not SHARED_WEIGHTS.is_dir(), reason="the shared weights are not on this machine")
def test_the_published_network_of_memo() -> None:
    network = models.load(SHARED_WEIGHTS / "cifar10_resnet26_gn.pth")
    assert isinstance(network, GroupNormResNet)
    assert isinstance(network.normalize, Normalize)
    assert network.normalize.mean.flatten().tolist() == [0.5] * 3
    data = midway.data.load("cifar10-mini").first(1000)
    assert midway.evaluate(network, midway.streams.pure(data, "clean")).accuracy > 88
    if os.environ.get("MIDWAY_DATA") and (midway.data.data_home() / "cifar10").is_dir():
        full = midway.data.load("cifar10").first(2000)
        assert midway.evaluate(network, midway.streams.pure(full, "clean")).accuracy == pytest.approx(91.15)
