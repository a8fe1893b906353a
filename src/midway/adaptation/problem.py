"""The size of a problem: published hyper-parameters differ between CIFAR and ImageNet."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

LARGE_SIDE = 128  # pixels; CIFAR has 32, Tiny-ImageNet 64, ImageNet 224


class Problem(NamedTuple):
    """What a method knows of its problem after the first batch; ``side`` is the shorter in pixels, 0 for signals."""

    classes: int
    side: int
    batch_size: int

    @classmethod
    def of(cls, images: Tensor, logits: Tensor) -> Problem:
        """Return the problem of a batch and its logits."""
        return cls(
            classes=logits.shape[1], side=min(images.shape[2:]) if images.ndim == 4 else 0, batch_size=len(images)
        )

    @property
    def is_imagenet_size(self) -> bool:
        """Whether hyper-parameters for ImageNet apply rather than those for CIFAR: images of at least 128 pixels."""
        return self.side >= LARGE_SIDE


CIFAR_SIZE = Problem(classes=10, side=32, batch_size=200)
IMAGENET_SIZE = Problem(classes=1000, side=224, batch_size=64)
