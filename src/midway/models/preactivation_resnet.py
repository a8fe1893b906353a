"""Pre-activation residual networks with GroupNorm for small images: the ResNet-26 of TTT and MEMO."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from midway.models.normalize import Normalize

GROUPS = 8


class PreactivationBlock(nn.Module):
    """Twice GroupNorm, ReLU and 3x3 convolution; the shortcut is averaged and padded with zeros where sizes change."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        # The names are those of the public checkpoint.
        self.bn1 = nn.GroupNorm(GROUPS, in_channels)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.GroupNorm(GROUPS, out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.stride, self.missing = stride, out_channels - in_channels

    def forward(self, x: Tensor) -> Tensor:
        """Add the residual to the input, or to its average over each stride if the shape changes."""
        residual: Tensor = self.conv2(F.relu(self.bn2(self.conv1(F.relu(self.bn1(x))))))
        if self.stride != 1:
            x = F.avg_pool2d(x, self.stride)
        if self.missing:
            x = F.pad(x, (0, 0, 0, 0, 0, self.missing))
        return x + residual


class GroupNormResNet(nn.Module):
    """Pre-activation ResNet of 16-32-64 channels with GroupNorm, from images in [0, 1] to logits.

    It does not mix the images of a batch: methods that adapt scales and shifts work on single images.

    Args:
        depth: Number of layers, 6n + 2 (20, 26, 32, ...).
        classes: Number of classes.
        mean: Channel means the input is normalised with.
        std: Channel standard deviations the input is normalised with.

    Example:
        >>> import torch
        >>> from midway.models import GroupNormResNet
        >>> GroupNormResNet(depth=8, classes=5)(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 5])
    """

    def __init__(
        self,
        *,
        depth: int = 26,
        classes: int = 10,
        mean: Sequence[float] = (0.5, 0.5, 0.5),
        std: Sequence[float] = (0.5, 0.5, 0.5),
    ) -> None:
        super().__init__()
        if depth < 8 or (depth - 2) % 6:
            raise ValueError(f"depth must be 6n + 2 (20, 26, 32, ...), got {depth}.")
        if classes < 1:
            raise ValueError(f"classes must be at least 1, got {classes}.")
        blocks = (depth - 2) // 6
        self.normalize = Normalize(mean, std)
        self.conv1 = nn.Conv2d(len(mean), 16, 3, padding=1, bias=False)
        self.layer1 = self._stage(blocks, 16, 16, stride=1)
        self.layer2 = self._stage(blocks, 16, 32, stride=2)
        self.layer3 = self._stage(blocks, 32, 64, stride=2)
        self.bn = nn.GroupNorm(GROUPS, 64)
        self.fc = nn.Linear(64, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    @staticmethod
    def _stage(blocks: int, in_channels: int, out_channels: int, stride: int) -> nn.Sequential:
        first = PreactivationBlock(in_channels, out_channels, stride)
        return nn.Sequential(first, *(PreactivationBlock(out_channels, out_channels, 1) for _ in range(blocks - 1)))

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits, one row per image."""
        x = self.layer3(self.layer2(self.layer1(self.conv1(self.normalize(images)))))
        logits: Tensor = self.fc(F.relu(self.bn(x)).mean(dim=(2, 3)))
        return logits
