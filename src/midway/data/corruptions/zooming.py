"""Zooming into the centre of an image, as a sparse matrix over its pixels."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from midway.data.corruptions.pixels import Floats


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
    entries, sources = [], []
    for factor in factors:
        down, down_share = _axis(height, factor)
        right, right_share = _axis(width, factor)
        # (H, W, 2, 2): the four pixels each one is mixed from.
        sources.append(down[:, None, :, None] * width + right[None, :, None, :])
        entries.append(down_share[:, None, :, None] * right_share[None, :, None, :] / len(factors))
    pixels = np.broadcast_to(np.arange(height * width).repeat(4), (len(factors), height * width * 4))
    where = pixels.ravel(), np.concatenate(sources).ravel()
    weights = np.concatenate(entries).ravel().astype(np.float32)
    return sparse.coo_array((weights, where), shape=(height * width, height * width)).tocsr()


def _axis(size: int, factor: float) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Stretch the middle of one axis so that its ends stay on pixel centres.

    Returns:
        The two old places that each new one is mixed from, and their shares, both (size, 2).
    """
    kept = int(np.ceil(size / factor))
    stretched = round(kept * factor)
    trimmed = (stretched - size) // 2
    places = (trimmed + np.arange(size)) * ((kept - 1) / max(stretched - 1, 1))
    low = np.minimum(places.astype(np.intp), kept - 1)
    share = places - low
    neighbours = np.stack([low, np.minimum(low + 1, kept - 1)], axis=1)
    return neighbours + (size - kept) // 2, np.stack([1 - share, share], axis=1)
