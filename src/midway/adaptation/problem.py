"""The size of a problem: published hyper-parameters differ between CIFAR and ImageNet, and between networks."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

LARGE_SIDE = 128  # pixels; CIFAR has 32, Tiny-ImageNet 64, ImageNet 224


class Problem(NamedTuple):
    """What a method knows about its problem after the first batch.

    ``side`` is the shorter side of the images in pixels, 0 for signals; ``layer_norm`` says that the network normalises
    with LayerNorm, as transformers do, and has no BatchNorm.
    """

    classes: int
    side: int
    batch_size: int
    layer_norm: bool = False

    @classmethod
    def of(cls, images: Tensor, logits: Tensor, model: nn.Module | None = None) -> Problem:
        """Return the problem of a batch, its logits and the network."""
        kinds = [] if model is None else [type(module) for module in model.modules()]
        layer_norm = any(issubclass(kind, nn.LayerNorm) for kind in kinds)
        return cls(
            classes=logits.shape[1],
            side=min(images.shape[2:]) if images.ndim == 4 else 0,
            batch_size=len(images),
            layer_norm=layer_norm and not any(issubclass(kind, _BatchNorm) for kind in kinds),
        )

    @property
    def is_imagenet_size(self) -> bool:
        """Whether hyper-parameters for ImageNet apply rather than those for CIFAR: images of at least 128 pixels."""
        return self.side >= LARGE_SIDE


CIFAR_SIZE = Problem(classes=10, side=32, batch_size=200)
IMAGENET_SIZE = Problem(classes=1000, side=224, batch_size=64)
