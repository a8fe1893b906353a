"""Operations on the values of images: bytes to numbers from 0 to 1 and back, luma, smoothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

GREY_WEIGHTS = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R BT.601, as in the published generator
ROUNDING_SLACK = np.float32(1 / 1024)  # levels of 255


def to_unit(images: Bytes) -> Floats:
    """Return the images as float32 from 0 to 1."""
    return np.divide(images, np.float32(255), dtype=np.float32)


def to_bytes(images: Floats) -> Bytes:
    """Clip to 0..1 and truncate to 8 bits, as the published generator does; overwrites its argument.

    A thousandth of a level is added first, because of single-precision rounding: a white region stays 255 under a blur
    whose weights sum to 0.9999999.
    """
    images *= np.float32(255)
    images += ROUNDING_SLACK
    np.clip(images, 0, 255, out=images)
    return images.astype(np.uint8)


def grey(images: Floats) -> Floats:
    """Return the luma of images (..., 3) or (..., 1) as (..., 1); a greyscale image is its own luma."""
    if images.shape[-1] == 1:
        return images
    red, green, blue = GREY_WEIGHTS
    # Not a matrix product, which may sum in another order for another batch size.
    luma = images[..., 0] * red + images[..., 1] * green + images[..., 2] * blue
    return np.asarray(luma[..., None], dtype=np.float32)


def smooth(images: Floats, sigma: float) -> Floats:
    """Smooth images (n, H, W, C) or (n, H, W) with a Gaussian cut at four sigma; edge pixels are repeated."""
    from scipy import ndimage  # slow to import

    return np.asarray(ndimage.gaussian_filter(images, sigma, mode="nearest", truncate=4, axes=(1, 2)))
