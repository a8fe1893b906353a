"""Residual networks for small images (He et al., CVPR 2016): ResNet-20, 32, 44, 56 and deeper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch.nn.functional as F
from torch import Tensor, nn

from midway.models.normalize import Normalize

Shortcut = Literal["projection", "padding"]


class BasicBlock(nn.Module):
    """Twice 3x3 convolution and BatchNorm, and a shortcut, projected or padded if the shape changes."""

    def __init__(self, in_channels: int, out_channels: int, stride: int, shortcut: Shortcut = "projection") -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.downsample: nn.Sequential | None = None
        self.stride, self.missing = stride, 0
        if shortcut == "padding":
            self.missing = out_channels - in_channels
        elif stride != 1 or in_channels != out_channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False), nn.BatchNorm2d(out_channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Add the residual to the shortcut and apply ReLU."""
        residual = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.downsample is not None:
            return F.relu(residual + self.downsample(x))
        if self.stride != 1 or self.missing:  # half of the zero channels in front, half behind
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.missing // 2, self.missing // 2))
        return F.relu(residual + x)


class CifarResNet(nn.Module):
    """ResNet of 16-32-64 channels for small images, from images in [0, 1] to logits.

    Args:
        depth: Number of layers, 6n + 2 (20, 32, 44, 56, 110, ...).
        classes: Number of classes.
        shortcut: Where the shape changes: ``"projection"`` by a 1x1 convolution and BatchNorm, or ``"padding"`` with
            zero channels, without weights (the paper's option A).
        mean: Channel means the input is normalised with.
        std: Channel standard deviations the input is normalised with.

    Example:
        >>> import torch
        >>> from midway.models import CifarResNet
        >>> CifarResNet(depth=8, classes=5)(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 5])
    """

    def __init__(
        self,
        *,
        depth: int = 20,
        classes: int = 10,
        shortcut: Shortcut = "projection",
        mean: Sequence[float] = (0.4914, 0.4822, 0.4465),
        std: Sequence[float] = (0.2023, 0.1994, 0.2010),
    ) -> None:
        super().__init__()
        if depth < 8 or (depth - 2) % 6:
            raise ValueError(f"depth must be 6n + 2 (20, 32, 44, 56, ...), got {depth}.")
        if classes < 1:
            raise ValueError(f"classes must be at least 1, got {classes}.")
        if shortcut not in get_args(Shortcut):
            raise ValueError(f"shortcut must be 'projection' or 'padding', got {shortcut!r}.")
        blocks = (depth - 2) // 6
        self.normalize = Normalize(mean, std)
        self.conv1 = nn.Conv2d(len(mean), 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = self._stage(blocks, 16, 16, 1, shortcut)
        self.layer2 = self._stage(blocks, 16, 32, 2, shortcut)
        self.layer3 = self._stage(blocks, 32, 64, 2, shortcut)
        self.fc = nn.Linear(64, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    @staticmethod
    def _stage(blocks: int, in_channels: int, out_channels: int, stride: int, shortcut: Shortcut) -> nn.Sequential:
        first = BasicBlock(in_channels, out_channels, stride, shortcut)
        return nn.Sequential(first, *(BasicBlock(out_channels, out_channels, 1, shortcut) for _ in range(blocks - 1)))

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits, one row per image."""
        x = F.relu(self.bn1(self.conv1(self.normalize(images))))
        x = self.layer3(self.layer2(self.layer1(x))).mean(dim=(2, 3))
        logits: Tensor = self.fc(x)
        return logits
