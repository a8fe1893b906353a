"""A wide residual network with GroupNorm and a second head that tells rotations: the kind of network that TTT needs."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from midway.models.wide_resnet import WideResNet


class ContiguousGroupNorm(nn.GroupNorm):
    """GroupNorm in the contiguous layout; that of the channels-last layout takes several times as long on CPUs."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each image and group of channels."""
        return super().forward(x.contiguous()).contiguous(memory_format=torch.channels_last)


def _replace_batch_norm(module: nn.Module, groups: int) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            module.add_module(name, ContiguousGroupNorm(groups, child.num_features))
        else:
            _replace_batch_norm(child, groups)


class RotationHead(nn.Module):
    """Third stage, normalisation and linear layer from the features of the second stage to the four rotations."""

    def __init__(self, stage: nn.Module, channels: int) -> None:
        super().__init__()
        self.block3 = stage
        self.bn1 = nn.BatchNorm2d(channels)
        self.fc = nn.Linear(channels, 4)

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits of 0, 90, 180 and 270 degrees."""
        logits: Tensor = self.fc(F.relu(self.bn1(self.block3(features))).mean(dim=(2, 3)))
        return logits


class RotationWideResNet(WideResNet):
    """WideResNet with GroupNorm whose third stage exists twice: for the classes and for the rotations of an image.

    Both heads share the first convolution and two stages. ``forward`` returns the logits of the classes;
    ``rotation_logits`` returns those of the rotation that an image has been turned by, which ``midway.TTT`` learns from
    at test time. It does not mix the images of a batch.

    Args:
        depth: Number of layers, 6n + 4 (10, 16, 22, 28, 34, 40, ...).
        width: Widening factor of the 16-32-64 channels.
        classes: Number of classes.
        mean: Channel means the input is normalised with.
        std: Channel standard deviations the input is normalised with.
        groups: Number of groups of GroupNorm, a divisor of 16.

    Example:
        >>> import torch
        >>> from midway.models import RotationWideResNet
        >>> network = RotationWideResNet(depth=10, width=1, classes=7)
        >>> images = torch.rand(2, 3, 32, 32)
        >>> network(images).shape, network.rotation_logits(images).shape
        (torch.Size([2, 7]), torch.Size([2, 4]))
    """

    def __init__(
        self,
        *,
        depth: int = 16,
        width: int = 2,
        classes: int = 10,
        mean: Sequence[float] = (0.0, 0.0, 0.0),
        std: Sequence[float] = (1.0, 1.0, 1.0),
        groups: int = 8,
    ) -> None:
        super().__init__(depth=depth, width=width, classes=classes, mean=mean, std=std)
        if groups < 1 or 16 % groups:
            raise ValueError(f"groups must divide 16, the channels of the first stage, got {groups}.")
        self.rotation = RotationHead(copy.deepcopy(self.block3), 64 * width)
        _replace_batch_norm(self, groups)

    def features(self, images: Tensor) -> Tensor:
        """Return the output of the second stage, which both heads share."""
        features: Tensor = self.block2(self.block1(self.conv1(self.normalize(images))))
        return features

    def class_logits(self, features: Tensor) -> Tensor:
        """Return the logits of the classes from the shared features."""
        logits: Tensor = self.fc(F.relu(self.bn1(self.block3(features))).mean(dim=(2, 3)))
        return logits

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits of the classes, one row per image."""
        return self.class_logits(self.features(images))

    def rotation_logits(self, images: Tensor) -> Tensor:
        """Return the logits of 0, 90, 180 and 270 degrees, by which an image has been turned anticlockwise."""
        logits: Tensor = self.rotation(self.features(images))
        return logits
