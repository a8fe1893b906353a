"""Moving images towards the data of a diffusion model: noise, then guided reverse steps (DDA)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

Predict = Callable[[Tensor, Tensor], tuple[Tensor, Tensor | None]]
"""(noisy images, noise levels) -> the noise, and where the variances lie between the smallest and the largest."""


def low_pass(images: Tensor, factor: int) -> Tensor:
    """Shrink images by a factor and enlarge them again (bicubic, antialiased), which leaves the coarse structures.

    Example:
        >>> import torch
        >>> from midway.sampling.diffusion import low_pass
        >>> checkers = (torch.arange(8)[:, None] + torch.arange(8)).remainder(2).float().expand(1, 3, 8, 8)
        >>> low_pass(checkers, 4).std().item() < 0.05 * checkers.std().item()
        True
    """
    height, width = images.shape[-2:]
    size = (-(-height // factor), -(-width // factor))
    small = F.interpolate(images, size, mode="bicubic", antialias=True)
    return F.interpolate(small, (height, width), mode="bicubic", antialias=True)


@dataclass(frozen=True)
class Respaced:
    """Some of the noise levels of a schedule, as a schedule of their own (Nichol and Dhariwal, ICML 2021).

    Attributes:
        levels: The noise levels, increasing: what the network is called with.
        shares: The share of the image's variance that is left at each of them, float64.

    Example:
        >>> import torch
        >>> respaced = Respaced.of(torch.tensor([0.9, 0.7, 0.5, 0.3, 0.1]), 3)
        >>> respaced.levels, [round(share, 1) for share in respaced.shares]
        ((0, 2, 4), [0.9, 0.5, 0.1])
    """

    levels: tuple[int, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, alphas_cumprod: Tensor, count: int) -> Respaced:
        """Choose levels at equal distances, the first and the last among them."""
        if not 2 <= count <= len(alphas_cumprod):
            raise ValueError(f"respacing must be from 2 to the {len(alphas_cumprod)} noise levels, got {count}.")
        stride = (len(alphas_cumprod) - 1) / (count - 1)
        levels = tuple(round(stride * index) for index in range(count))
        return cls(levels, tuple(alphas_cumprod.double()[list(levels)].tolist()))

    def posterior(self, index: int) -> tuple[float, float, float, float]:
        """Return how the step to the level below mixes image and noisy image, and its smallest and largest variance.

        Given the image x0 and x at a level, the level below it is normal with mean a x0 + b x and the smallest
        variance; a model that does not know x0 exactly needs a variance between that and the largest.
        """
        share, below = self.shares[index], self.shares[index - 1] if index else 1.0
        beta = 1 - share / below
        left = beta / (1 - share)
        return below**0.5 * left, (share / below) ** 0.5 * (1 - below) / (1 - share), (1 - below) * left, beta


def purify(
    images: Tensor,
    predict: Predict,
    schedule: Respaced,
    noise: Tensor,
    *,
    scale: float,
    factor: int,
    start: float | None = None,
) -> Tensor:
    """Mix images with noise and remove it step by step, guided by their coarse structures (Gao et al., CVPR 2023).

    After each reverse step the images move by ``scale`` times the gradient that brings the low-pass filter of the
    predicted image nearer to that of the given one; the gradient passes through the network. The norm is computed for
    each image, so images do not affect each other.

    Args:
        images: Images (N, C, H, W) in [-1, 1].
        predict: The noise-predicting network.
        schedule: The noise levels.
        noise: Normal numbers (N, steps, C, H, W): the images are mixed with the first at the level ``steps - 1`` of the
            schedule, and each of the ``steps`` reverse steps but the last adds one more.
        scale: Strength of the guidance; 0 computes no gradient.
        factor: Factor of the low-pass filter.
        start: Share of the image's variance that the mixture with noise keeps; None is that of the first reverse step.

    Example:
        >>> import torch
        >>> from midway.sampling.diffusion import Respaced, purify
        >>> images, noise = torch.zeros(1, 3, 8, 8), torch.randn(1, 2, 3, 8, 8)
        >>> schedule = Respaced.of(torch.linspace(0.9, 0.1, 9), 5)
        >>> perfect = lambda noisy, t: (noisy / torch.linspace(0.1, 0.9, 9)[t].sqrt()[:, None, None, None], None)
        >>> purify(images, perfect, schedule, noise, scale=1.0, factor=4).abs().max().item() < 1e-5
        True
    """
    start = schedule.shares[noise.shape[1] - 1] if start is None else start
    coarse = low_pass(images, factor)
    noisy = start**0.5 * images + (1 - start) ** 0.5 * noise[:, 0]
    for index in reversed(range(noise.shape[1])):
        share = schedule.shares[index]
        with torch.set_grad_enabled(scale > 0):
            noisy = noisy.detach().requires_grad_(scale > 0)
            level = torch.full((len(images),), schedule.levels[index], device=images.device)
            predicted, between = predict(noisy, level)
            clean = ((noisy - (1 - share) ** 0.5 * predicted) / share**0.5).clamp(-1, 1)
            if scale > 0:
                distance = torch.linalg.vector_norm((coarse - low_pass(clean, factor)).flatten(1), dim=1)
                (pull,) = torch.autograd.grad(distance.sum(), noisy)
        with torch.no_grad():
            of_clean, of_noisy, smallest, largest = schedule.posterior(index)
            noisy = of_clean * clean + of_noisy * noisy
            if index and between is None:
                noisy += smallest**0.5 * noise[:, -index]
            elif index and between is not None:
                noisy += smallest**0.5 * (largest / smallest) ** (between / 2) * noise[:, -index]
            if scale > 0:
                noisy -= scale * pull
    adapted: Tensor = noisy.detach().clamp(-1, 1)
    return adapted
