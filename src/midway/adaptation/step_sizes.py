"""Step sizes by the number of images in a batch, as SAR and DeYO use them for ImageNet."""

from __future__ import annotations


def published_lr(batch_size: int, *, transformer: bool = False) -> float:
    """Return the step size of SAR and DeYO for ImageNet, as published.

    Transformers: 1e-3 per 64 images. ResNets: 2.5e-4 from 32 images on, twice the proportional part of it below. For
    single images both are doubled.
    """
    of_resnets = 2.5e-4 if batch_size >= 32 else 5e-4 * batch_size / 64
    lr = 1e-3 * batch_size / 64 if transformer else of_resnets
    return 2 * lr if batch_size == 1 else lr
