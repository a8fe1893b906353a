"""Step sizes by the number of images in a batch, as SAR and DeYO use them for ImageNet."""

from __future__ import annotations

from midway.adaptation.problem import Problem


def published_lr(problem: Problem) -> float:
    """Return the step size of SAR and DeYO for ImageNet, as published.

    Transformers: 1e-3 per 64 images. ResNets: 2.5e-4 from 32 images on, twice the proportional part of it below. For
    single images both are doubled.

    Example:
        >>> from midway.adaptation.problem import IMAGENET_SIZE
        >>> from midway.adaptation.step_sizes import published_lr
        >>> published_lr(IMAGENET_SIZE), published_lr(IMAGENET_SIZE._replace(is_transformer=True))
        (0.00025, 0.001)
    """
    of_resnets = 2.5e-4 if problem.batch_size >= 32 else 5e-4 * problem.batch_size / 64
    lr = 1e-3 * problem.batch_size / 64 if problem.is_transformer else of_resnets
    return 2 * lr if problem.batch_size == 1 else lr
