from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from midway import models
from midway.models import RotationWideResNet
from midway.models.rotation_wide_resnet import ContiguousGroupNorm

IMAGES = torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def test_normalises_by_group_in_every_layout() -> None:
    norm = ContiguousGroupNorm(2, 6)
    nn.init.uniform_(norm.weight)
    x = torch.randn(2, 6, 5, 5)
    expected = F.group_norm(x, 2, norm.weight, norm.bias)
    torch.testing.assert_close(norm(x), expected)
    torch.testing.assert_close(norm(x.to(memory_format=torch.channels_last)), expected)


def test_both_heads_share_two_stages_and_mix_no_images() -> None:
    network = RotationWideResNet(depth=10, width=1, classes=5).eval()
    assert not any(isinstance(module, nn.BatchNorm2d) for module in network.modules())
    for run in (network, network.rotation_logits):
        together = run(IMAGES)
        torch.testing.assert_close(torch.cat([run(image[None]) for image in IMAGES]), together, rtol=1e-4, atol=1e-5)
    features = network.features(IMAGES)
    assert features.shape == (3, 32, 8, 8)
    torch.testing.assert_close(network.rotation(features), network.rotation_logits(IMAGES))
    with pytest.raises(ValueError, match="groups must divide 16, the channels of the first stage, got 3"):
        RotationWideResNet(groups=3)


def test_a_checkpoint_is_recognised(tmp_path: Path) -> None:
    network = RotationWideResNet(depth=10, width=1, classes=5).eval()
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    loaded = models.load(tmp_path / "weights.pth")
    assert isinstance(loaded, RotationWideResNet)
    torch.testing.assert_close(loaded.rotation_logits(IMAGES), network.rotation_logits(IMAGES))
    torch.testing.assert_close(loaded(IMAGES), network(IMAGES))
