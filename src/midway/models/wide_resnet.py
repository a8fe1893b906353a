"""Wide residual networks (Zagoruyko and Komodakis, BMVC 2016), in the layout of the public checkpoints."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from midway.models.normalize import Normalize


class WideBlock(nn.Module):
    """Pre-activation residual block: twice BatchNorm, ReLU, 3x3 convolution."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(in_channels)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        # The name is that of the public checkpoints.
        self.convShortcut: nn.Conv2d | None = None
        if in_channels != out_channels:
            self.convShortcut = nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Add the residual to the input, or to its projection if the shape changes."""
        activated = F.relu(self.bn1(x))
        residual = self.conv2(F.relu(self.bn2(self.conv1(activated))))
        shortcut = x if self.convShortcut is None else self.convShortcut(activated)
        return torch.add(shortcut, residual)


def _stage(blocks: int, in_channels: int, out_channels: int, stride: int) -> nn.Sequential:
    """Return blocks at one resolution, of which the first one has a stride, with the keys of the public checkpoints."""
    first = WideBlock(in_channels, out_channels, stride)
    layer = nn.Sequential(first, *(WideBlock(out_channels, out_channels, 1) for _ in range(blocks - 1)))
    return nn.Sequential(OrderedDict(layer=layer))


class WideResNet(nn.Module):
    """Wide residual network for small images, from images in [0, 1] to logits.

    Args:
        depth: Number of layers, 6n + 4 (10, 16, 22, 28, 34, 40, ...).
        width: Widening factor of the 16-32-64 channels.
        classes: Number of classes.
        mean: Channel means the input is normalised with (RobustBench's networks use none: zeros).
        std: Channel standard deviations the input is normalised with.

    Example:
        >>> import torch
        >>> from midway.models import WideResNet
        >>> WideResNet(depth=10, width=1, classes=7)(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 7])
    """

    def __init__(
        self,
        *,
        depth: int = 28,
        width: int = 10,
        classes: int = 10,
        mean: Sequence[float] = (0.0, 0.0, 0.0),
        std: Sequence[float] = (1.0, 1.0, 1.0),
    ) -> None:
        super().__init__()
        if depth < 10 or (depth - 4) % 6:
            raise ValueError(f"depth must be 6n + 4 (10, 16, 22, 28, 34, 40, ...), got {depth}.")
        if width < 1 or classes < 1:
            raise ValueError(f"width and classes must be at least 1, got width={width}, classes={classes}.")
        blocks = (depth - 4) // 6
        channels = [16, 16 * width, 32 * width, 64 * width]
        self.normalize = Normalize(mean, std)
        self.conv1 = nn.Conv2d(len(mean), channels[0], 3, padding=1, bias=False)
        self.block1 = _stage(blocks, channels[0], channels[1], stride=1)
        self.block2 = _stage(blocks, channels[1], channels[2], stride=2)
        self.block3 = _stage(blocks, channels[2], channels[3], stride=2)
        self.bn1 = nn.BatchNorm2d(channels[3])
        self.fc = nn.Linear(channels[3], classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.fc.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits, one row per image."""
        x = self.block3(self.block2(self.block1(self.conv1(self.normalize(images)))))
        x = F.relu(self.bn1(x)).mean(dim=(2, 3))
        logits: Tensor = self.fc(x)
        return logits
