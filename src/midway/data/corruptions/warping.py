"""Bilinear sampling of a batch of images at places of their own."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from midway.data.corruptions.pixels import Floats

# How pixels beyond the edge are found, in numpy's words: "reflect" does not repeat the edge pixel, "symmetric" does.
Border = Literal["reflect", "symmetric"]


def sample(images: Floats, down: Floats, right: Floats, border: Border) -> Floats:
    """Read each image at real-valued places, bilinear between pixels.

    Args:
        images: (n, H, W, C).
        down: The row of each place, (n, H, W).
        right: The column of each place, (n, H, W).
        border: How the image goes on beyond its edge.

    Returns:
        The values (n, H, W, C).
    """
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


def _neighbours(places: Floats, size: int, border: Border) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Return the pixel before and after each place along one axis, and the share (..., 1) of the one after."""
    furthest = 4 * size
    places = np.clip(places, -furthest, size - 1 + furthest)
    before = np.floor(places)
    share = (places - before)[..., None]
    # The first table entry stands for the pixel at -furthest.
    table = np.pad(np.arange(size), (furthest, furthest + 1), mode=border)
    position = before.astype(np.intp)
    position += furthest
    return table.take(position), table[1:].take(position), share
