"""Resampling of image batches: bilinear reads, zooms into the centre, motion streaks."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from midway.data.corruptions.pixels import Bytes, Floats

if TYPE_CHECKING:
    from scipy import sparse

LIGHTEST_TAP = 1e-7  # a tap below this share cannot change an 8-bit value

# How pixels beyond the edge are defined, in numpy's terms: "reflect" does not repeat the edge pixel, "symmetric" does.
Border = Literal["reflect", "symmetric"]


def sample(images: Floats, down: Floats, right: Floats, border: Border) -> Floats:
    """Read each image (n, H, W, C) at real-valued coordinates (n, H, W), bilinear between pixels."""
    count, height, width, channels = images.shape
    pixels = images.reshape(-1, channels)
    top, bottom, down_share = _neighbours(down, height, border)
    left, right_column, right_share = _neighbours(right, width, border)
    first = (np.arange(count) * (height * width))[:, None, None]
    top = top * width + first
    bottom = bottom * width + first

    def mix(a: Floats, b: Floats, share: Floats) -> Floats:
        b -= a
        b *= share
        b += a
        return b

    upper = mix(pixels.take(top + left, axis=0), pixels.take(top + right_column, axis=0), right_share)
    lower = mix(pixels.take(bottom + left, axis=0), pixels.take(bottom + right_column, axis=0), right_share)
    return mix(upper, lower, down_share)


def _neighbours(coordinates: Floats, size: int, border: Border) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Return the pixel before and after each coordinate along one axis, and the share (..., 1) of the latter."""
    furthest = 4 * size
    coordinates = np.clip(coordinates, -furthest, size - 1 + furthest)
    before = np.floor(coordinates)
    share = (coordinates - before)[..., None]
    # The first table entry is for the pixel at -furthest.
    table = np.pad(np.arange(size), (furthest, furthest + 1), mode=border)
    position = before.astype(np.intp)
    position += furthest
    return table.take(position), table[1:].take(position), share


def mean_zoom(images: Floats, factors: tuple[float, ...]) -> Floats:
    """Return the mean over several zooms of each image (n, H, W, C), bilinear, centred, trimmed to the same size."""
    count, height, width, channels = images.shape
    # Pixels first: each matrix entry then adds one long contiguous row, the same way for every batch size.
    pixels = images.transpose(1, 2, 0, 3).reshape(height * width, count * channels)
    zoomed = np.asarray(_operator(height, width, factors) @ pixels, dtype=np.float32)
    return np.ascontiguousarray(zoomed.reshape(height, width, count, channels).transpose(2, 0, 1, 3))


@lru_cache(maxsize=16)
def _operator(height: int, width: int, factors: tuple[float, ...]) -> sparse.csr_array[np.float32, tuple[int, int]]:
    """Return the (H * W, H * W) matrix of the mean zoom."""
    from scipy import sparse  # slow to import

    entries, sources = [], []
    for factor in factors:
        down, down_share = _axis(height, factor)
        right, right_share = _axis(width, factor)
        # (H, W, 2, 2): the four source pixels of each pixel.
        sources.append(down[:, None, :, None] * width + right[None, :, None, :])
        entries.append(down_share[:, None, :, None] * right_share[None, :, None, :] / len(factors))
    pixels = np.broadcast_to(np.arange(height * width).repeat(4), (len(factors), height * width * 4))
    where = pixels.ravel(), np.concatenate(sources).ravel()
    weights = np.concatenate(entries).ravel().astype(np.float32)
    return sparse.coo_array((weights, where), shape=(height * width, height * width)).tocsr()


def _axis(size: int, factor: float) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Stretch the middle of one axis; return the two sources of each index and their shares, both (size, 2).

    The ends of the source remain on pixel centres.
    """
    source_size = int(np.ceil(size / factor))
    stretched = round(source_size * factor)
    trimmed = (stretched - size) // 2
    coordinates = (trimmed + np.arange(size)) * ((source_size - 1) / max(stretched - 1, 1))
    low = np.minimum(coordinates.astype(np.intp), source_size - 1)
    share = coordinates - low
    neighbours = np.stack([low, np.minimum(low + 1, source_size - 1)], axis=1)
    return neighbours + (size - source_size) // 2, np.stack([1 - share, share], axis=1)


def streak(images: Bytes, angles: NDArray[np.float32], *, radius: int, sigma: float) -> Bytes:
    """Blur each image (n, H, W, C) along its own angle (n,), in degrees.

    A pixel becomes the weighted mean of the 2 * radius + 1 pixels from itself onwards in the direction
    (cos angle, sin angle), x to the right and y down. The weights are half a Gaussian; coordinates are rounded to
    integers, halves down; pixels beyond the edge repeat the edge; the mean is rounded to 8 bits.
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
    # After rounding there are few distinct streaks: images with the same one are blurred together.
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
    """Return the offset of each tap of each image, down and right, (n, taps, 2)."""
    # math, not numpy: vectorised sines may differ in the last bit with the batch size.
    directions = np.array([(math.sin(math.radians(a)), math.cos(math.radians(a))) for a in angles.tolist()])
    coordinates = directions.reshape(-1, 1, 2) * np.arange(taps)[None, :, None]
    return np.asarray(np.ceil(coordinates - 0.5), dtype=np.int16)


def _merged(pattern: NDArray[np.int16], weights: NDArray[np.float64]) -> dict[tuple[int, int], float]:
    """Return the offsets and the sums of their weights: several taps may have the same offset."""
    merged: dict[tuple[int, int], float] = {}
    for (down, right), weight in zip(pattern.tolist(), weights.tolist(), strict=True):
        merged[down, right] = merged.get((down, right), 0.0) + weight
    return merged
