"""The spectrum of an image: a short description of its corruption that does not depend much on its content."""

from __future__ import annotations

import itertools
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from midway.sampling.spectral_filter import cosine_transform

BANDS = (0.5, 2, 4, 8, 12, 16, 20, 24, 28, 33, 46)
"""Limits of the radial frequency bands, in half periods over 32 pixels (of an image resized to that)."""

PLANES = 3
GREY = slice(0, len(BANDS) - 1)
"""The features that do not depend on colours."""

COLOURS = slice(len(BANDS) - 1, PLANES * (len(BANDS) - 1))
"""The log powers of the colour planes."""

FEATURES = PLANES * (len(BANDS) - 1) + 1
FLOOR = 1e-6
"""Added to the power: about that of rounding to bytes."""


def spectra(images: Tensor) -> Tensor:
    """Return the log power of images (N, C, H, W) in ten frequency bands of three planes, and their log kurtosis.

    The planes are the mean of the channels and the differences of the first and the last channel from it; a plane that
    an image does not have (one or two channels) is constant. The power is that of the orthonormal cosine transform,
    averaged over the frequencies of a band, so images of different sizes are comparable. The last of the 31 numbers is
    the log kurtosis of the finest detail: noise and sharp edges may have equal power, but edges are rare and strong.

    Example:
        >>> flat, noise = torch.full((1, 3, 32, 32), 0.5), torch.rand(1, 3, 32, 32)
        >>> (spectra(noise) - spectra(flat))[:, :-1].min() > 5
        tensor(True)
    """
    with torch.autocast(images.device.type, enabled=False):  # clusters differ by less than the rounding of bf16
        return _spectra(images.detach().float())


def _spectra(images: Tensor) -> Tensor:
    if images.ndim == 3:  # signals (N, C, L)
        images = images.unsqueeze(2)
    mean = images.mean(dim=1, keepdim=True)
    differences = [images[:, [0]] - mean, images[:, [-1]] - mean] if images.shape[1] > 1 else [mean * 0] * 2
    planes = torch.cat([mean, *differences], dim=1)
    height, width = planes.shape[2:]
    vertical, horizontal = (_cosines(size, planes.device) for size in (height, width))
    power = (vertical @ planes @ horizontal.T).square().flatten(2)
    log_power = (power @ _bands(height, width, planes.device) + FLOOR).log().flatten(1)
    return torch.cat([log_power, log_kurtosis(mean)[:, None]], dim=1)


def log_kurtosis(plane: Tensor) -> Tensor:
    """Return the log kurtosis of the differences between pixels and the mean of their four neighbours, (N,).

    Differences below those of rounding to bytes count as none, so it is constant for images without detail.

    Example:
        >>> noise = torch.randn(1, 1, 64, 64, generator=torch.Generator().manual_seed(0))
        >>> log_kurtosis(noise).exp().round()  # that of a Gaussian
        tensor([3.])
    """
    padded = functional.pad(plane, (1, 1, 1, 1), mode="replicate")
    rows, columns = padded[:, :, 1:-1], padded[..., 1:-1]
    neighbours = (rows[..., :-2] + rows[..., 2:] + columns[:, :, :-2] + columns[:, :, 2:]) / 4
    squares = (plane - neighbours).flatten(1).square()
    kurtosis = squares.square().mean(dim=1) / (squares.mean(dim=1) + FLOOR / 10).square()
    return (kurtosis + 0.1).log()


@lru_cache(maxsize=16)
def _cosines(size: int, device: torch.device) -> Tensor:
    """The orthonormal cosine transform of ``size`` values, as a matrix."""
    return cosine_transform(size).to(device)


@lru_cache(maxsize=16)
def _bands(height: int, width: int, device: torch.device) -> Tensor:
    """The weights that average the frequencies of each band, (height x width, bands)."""
    # Explicit types: the result is cached, and the default type of torch may change.
    rows, columns = ((torch.arange(size) * 32).float() / size for size in (height, width))
    radius = (rows[:, None].square() + columns.square()).sqrt().flatten()
    inside = torch.stack([(radius >= low) & (radius < high) for low, high in itertools.pairwise(BANDS)], dim=1)
    return (inside.float() / inside.sum(dim=0).clamp(min=1)).to(device)
