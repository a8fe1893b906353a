"""A spectral filter for image gradients: frequencies that are weak in the images change less.

The gradient of a network with respect to an image is largest where normalisation amplifies most: at the frequencies
that the images of the batch hardly contain, such as fine detail of blurred images, or all frequencies of images with
low contrast. Plain gradient steps add noise at these frequencies until the image is lost in it.

Let x = h * s be a source image s filtered by h, with transfer function H. In terms of the source image, the energy is
E(h * s), and its gradient with respect to S(f) is conj(H(f)) G(f), where G is the gradient with respect to X(f). A
gradient step on s, S -> S - a conj(H) G, changes x = h * s by H times that: X -> X - a |H|^2 G. So the step that the
source image would take is a step of x along |H|^2 times its gradient, frequency by frequency. |H|^2 is the power of the
images relative to that of natural images:

    R(f) = min(1, P(f) / P_natural(f)).

P is the mean power of the batch in the cosine transform (whose mirrored edges add no power). In a batch of several
kinds of images, P is the mean power of the same kind: the fine detail of blurred images is weak, although that of noisy
images in the batch is strong. P_natural falls with the square of the frequency and belongs to images with a standard
deviation of 0.25, the usual one of photographs. Noise adds power, so noisy images are filtered little, also at the
frequencies of the noise.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

NATURAL_DEVIATION = 0.25


def cosine_transform(size: int) -> Tensor:
    """Return the orthonormal matrix of the cosine transform (DCT-II), one row for each frequency."""
    frequency, pixel = torch.arange(size, dtype=torch.float64)[:, None], torch.arange(size, dtype=torch.float64)
    matrix = torch.cos(math.pi * (2 * pixel + 1) * frequency / (2 * size)) * math.sqrt(2 / size)
    matrix[0] /= math.sqrt(2)
    return matrix.float()


def natural_power(height: int, width: int) -> Tensor:
    """Return the power of natural images at each frequency of the cosine transform, (height, width)."""
    rows, columns = torch.arange(height)[:, None] / height, torch.arange(width) / width
    power = 1 / (rows**2 + columns**2)
    power[0, 0] = 0
    power *= NATURAL_DEVIATION**2 / power.mean()
    power[0, 0] = power.max()
    return power


class SpectralFilter:
    """Multiplies gradients by R(f), the power of a batch (N, C, H, W) in [0, 1] relative to that of natural images.

    Args:
        images: The batch.
        shares: The share of each image in the mean power that each image is filtered with, (N, N); None: equal shares.

    Example:
        >>> import midway, torch
        >>> grey = torch.full((2, 3, 8, 8), 0.5)
        >>> midway.sampling.SpectralFilter(grey)(torch.rand(2, 3, 8, 8)).abs().max()  # no contrast, no change
        tensor(0.)
    """

    def __init__(self, images: Tensor, shares: Tensor | None = None) -> None:
        height, width = images.shape[2:]
        self.rows, self.columns = (cosine_transform(size).to(images) for size in (height, width))
        natural = natural_power(height, width).to(images)
        power = self._transform(images - images.mean(dim=(2, 3), keepdim=True)).square().mean(dim=1)
        if shares is None:
            power = power.mean(dim=0, keepdim=True)
        else:
            power = (shares.to(power) @ power.flatten(1)).view_as(power)
        self.gain = (power / natural).clamp(max=1)[:, None]
        # The mean of the images was subtracted: use the total power.
        self.gain[..., 0, 0] = (power.sum(dim=(1, 2)) / natural.sum()).clamp(max=1)[:, None]

    def __call__(self, gradient: Tensor) -> Tensor:
        """Return the filtered gradient."""
        filtered = self.rows.T @ (self._transform(gradient) * self.gain) @ self.columns
        return filtered.contiguous(memory_format=torch.channels_last) if gradient.shape[1] > 1 else filtered

    def _transform(self, images: Tensor) -> Tensor:
        return self.rows @ images @ self.columns.T
