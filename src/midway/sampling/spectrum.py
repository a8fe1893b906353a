"""Where images have what natural images have: a measure for moving them.

A network's gradient with respect to an image is largest where its normalisation enlarges most: in what the images of
the batch hardly have, fine detail if they are blurred, everything if they have little contrast. Followed pixel by
pixel, it drowns them in it. If the images are those of the source, filtered by some H, then a step that the source's
images would take becomes a step along |H|^2 times the gradient, frequency by frequency; and |H|^2 is how much power the
images have, beside natural ones:

    R(f) = min(1, P(f) / P_natural(f)).

P is the mean power of the batch in the cosine transform (whose mirrored edges make no power of their own), P_natural
falls with the square of the frequency and belongs to images with a standard deviation of 0.25, the usual one of photos.
Noise adds power, so noisy images move freely, also where the noise is.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

NATURAL_DEVIATION = 0.25


def cosine_transform(size: int) -> Tensor:
    """Return the orthonormal matrix of the cosine transform (DCT-II), a row a frequency.

    Example:
        >>> from midway.sampling.spectrum import cosine_transform
        >>> transform = cosine_transform(4)
        >>> import torch
        >>> (transform @ transform.T).allclose(torch.eye(4), atol=1e-6)
        True
    """
    frequency, place = torch.arange(size, dtype=torch.float64)[:, None], torch.arange(size, dtype=torch.float64)
    matrix = torch.cos(math.pi * (2 * place + 1) * frequency / (2 * size)) * math.sqrt(2 / size)
    matrix[0] /= math.sqrt(2)
    return matrix.float()


def natural_power(height: int, width: int) -> Tensor:
    """Return the power that natural images have at each frequency of the cosine transform, (height, width).

    Example:
        >>> from midway.sampling.spectrum import natural_power
        >>> power = natural_power(32, 32)
        >>> round(power.flatten()[1:].mean().item() * 1023 / 1024, 4), (power[0, 2] / power[0, 4]).item()
        (0.0625, 4.0)
    """
    down, across = torch.arange(height)[:, None] / height, torch.arange(width) / width
    power = 1 / (down**2 + across**2)
    power[0, 0] = 0
    power *= NATURAL_DEVIATION**2 / power.mean()
    power[0, 0] = power.max()
    return power


class NaturalMeasure:
    """Weighs gradients by what the images of a batch have at each frequency, beside natural ones.

    Args:
        images: The batch, (N, C, H, W) in [0, 1].

    Example:
        >>> import torch
        >>> from midway.sampling.spectrum import NaturalMeasure
        >>> grey = torch.full((2, 3, 8, 8), 0.5)
        >>> NaturalMeasure(grey)(torch.rand(2, 3, 8, 8)).abs().max()  # images without contrast stay as they are
        tensor(0.)
    """

    def __init__(self, images: Tensor) -> None:
        height, width = images.shape[2:]
        self.rows, self.columns = (cosine_transform(size).to(images) for size in (height, width))
        natural = natural_power(height, width).to(images)
        power = self._transformed(images - images.mean(dim=(2, 3), keepdim=True)).square().mean(dim=(0, 1))
        self.share = (power / natural).clamp(max=1)
        self.share[0, 0] = (power.sum() / natural.sum()).clamp(max=1)

    def __call__(self, gradient: Tensor) -> Tensor:
        """Return the gradient, weighed frequency by frequency."""
        weighed = self.rows.T @ (self._transformed(gradient) * self.share) @ self.columns
        return weighed.contiguous(memory_format=torch.channels_last) if gradient.shape[1] > 1 else weighed

    def _transformed(self, images: Tensor) -> Tensor:
        return self.rows @ images @ self.columns.T
