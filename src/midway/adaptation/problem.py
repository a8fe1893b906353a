"""How large a problem is: published settings differ between CIFAR and ImageNet."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

LARGE_SIDE = 128  # pixels; CIFAR has 32, Tiny-ImageNet 64, ImageNet 224


class Problem(NamedTuple):
    """What a method can know of its problem once it has seen a batch.

    Attributes:
        classes: Number of logits.
        side: Shorter side of the images, in pixels.
        batch_size: Images in the batch.

    Example:
        >>> import torch
        >>> from midway.adaptation.problem import Problem
        >>> Problem.of(torch.rand(50, 3, 224, 240), torch.zeros(50, 1000))
        Problem(classes=1000, side=224, batch_size=50)
    """

    classes: int
    side: int
    batch_size: int

    @classmethod
    def of(cls, images: Tensor, logits: Tensor) -> Problem:
        """Read the problem off a batch and its logits."""
        return cls(classes=logits.shape[1], side=min(images.shape[2:]), batch_size=len(images))

    @property
    def is_imagenet_size(self) -> bool:
        """Whether settings for ImageNet apply, rather than those for CIFAR: images of 128 pixels a side or more."""
        return self.side >= LARGE_SIDE


CIFAR_SIZE = Problem(classes=10, side=32, batch_size=200)
IMAGENET_SIZE = Problem(classes=1000, side=224, batch_size=64)
