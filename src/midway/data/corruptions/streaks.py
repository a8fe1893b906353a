"""ImageMagick's motion blur: a one-sided Gaussian streak along an angle."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from midway.data.corruptions.pixels import Bytes

LIGHTEST_TAP = 1e-7  # a tap below this share cannot move an 8-bit value


def streak(images: Bytes, angles: NDArray[np.float32], *, radius: int, sigma: float) -> Bytes:
    """Blur each image along its own angle.

    A pixel becomes the weighted mean of the 2 * radius + 1 pixels from itself onwards in the direction
    (cos angle, sin angle), x to the right and y down. The weights are half a Gaussian; places are rounded to whole
    pixels, halves towards smaller numbers; pixels beyond the edge repeat the edge; the mean is rounded to 8 bits.

    Args:
        images: (n, H, W, C).
        angles: (n,), degrees.
        radius: In pixels.
        sigma: In pixels.

    Returns:
        The blurred images (n, H, W, C).
    """
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights /= weights.sum()
    weights = weights[weights > LIGHTEST_TAP]
    reach = len(weights) - 1
    shifts = _shifts(angles, len(weights))

    height, width = images.shape[1:3]
    rows = np.clip(np.arange(-reach, height + reach), 0, height - 1)
    columns = np.clip(np.arange(-reach, width + reach), 0, width - 1)
    padded = images.take(rows, axis=1).take(columns, axis=2)

    blurred = np.empty_like(images)
    # Rounding leaves few distinct streaks: images that share one are blurred together.
    patterns, members = np.unique(shifts.reshape(len(images), -1), axis=0, return_inverse=True)
    order = np.argsort(members, kind="stable")
    ends = np.cumsum(np.bincount(members, minlength=len(patterns)))
    for pattern, group in zip(patterns, np.split(order, ends[:-1]), strict=True):
        source = padded[group].astype(np.float32)
        total = np.full((len(group), *images.shape[1:]), 0.5, dtype=np.float32)
        term = np.empty_like(total)
        for (down, right), weight in _merged(pattern.reshape(-1, 2), weights).items():
            top, left = reach + down, reach + right
            np.multiply(source[:, top : top + height, left : left + width], np.float32(weight), out=term)
            total += term
        blurred[group] = total.astype(np.uint8)
    return blurred


def _shifts(angles: NDArray[np.float32], taps: int) -> NDArray[np.int16]:
    """Return how far down and right each tap of each image lies, (n, taps, 2)."""
    # math, not numpy: vectorised sines may differ in the last bit with the batch size.
    directions = np.array([(math.sin(math.radians(a)), math.cos(math.radians(a))) for a in angles.tolist()])
    places = directions.reshape(-1, 1, 2) * np.arange(taps)[None, :, None]
    return np.asarray(np.ceil(places - 0.5), dtype=np.int16)


def _merged(pattern: NDArray[np.int16], weights: NDArray[np.float64]) -> dict[tuple[int, int], float]:
    """Add up the weights of taps that fall on the same pixel."""
    merged: dict[tuple[int, int], float] = {}
    for (down, right), weight in zip(pattern.tolist(), weights.tolist(), strict=True):
        merged[down, right] = merged.get((down, right), 0.0) + weight
    return merged
