"""The size of a problem: published hyper-parameters differ between CIFAR and ImageNet."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from midway.adaptation.batch_norm.statistics import has_batch_norm
from midway.adaptation.parameters import is_transformer

LARGE_SIDE = 128  # pixels; CIFAR has 32, Tiny-ImageNet 64, ImageNet 224


class Problem(NamedTuple):
    """What a method knows of its problem after the first batch; ``side`` is the shorter in pixels, 0 for signals."""

    classes: int
    side: int
    batch_size: int
    has_batch_norm: bool = True
    is_transformer: bool = False

    @classmethod
    def of(cls, model: nn.Module, images: Tensor, logits: Tensor | None = None) -> Problem:
        """Return the problem of a network, a batch and its logits; without logits, the number of classes is 0."""
        return cls(
            classes=0 if logits is None else logits.shape[1],
            side=min(images.shape[2:]) if images.ndim == 4 else 0,
            batch_size=len(images),
            has_batch_norm=has_batch_norm(model),
            is_transformer=is_transformer(model),
        )

    @property
    def is_imagenet_size(self) -> bool:
        """Whether hyper-parameters for ImageNet apply rather than those for CIFAR: images of at least 128 pixels."""
        return self.side >= LARGE_SIDE


CIFAR_SIZE = Problem(classes=10, side=32, batch_size=200)
IMAGENET_SIZE = Problem(classes=1000, side=224, batch_size=64)
