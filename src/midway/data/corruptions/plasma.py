"""Plasma fractals: random clouds by the diamond-square method."""

from __future__ import annotations

import numpy as np

from midway.data.corruptions.pixels import Floats

FIRST_WIBBLE = 100.0


def plasma(noise: Floats, wibble_decay: float) -> Floats:
    """Turn uniform noise into clouds, a batch at a time.

    The map wraps round. At each scale the centre of every square and then of every diamond becomes the mean of its
    corners plus a random wibble; the size of the wibble, squared as published, falls with the scale.

    Args:
        noise: Uniform in [0, 1), (n, side * side), the side a power of two. Used from the front: at each scale the
            squares, the diamonds right of the corners, the diamonds below them, each row by row.
        wibble_decay: What the wibble is divided by from one scale to the next; larger is smoother.

    Returns:
        Maps (n, side, side) from 0 to 1.
    """
    count, side = len(noise), round(noise.shape[1] ** 0.5)
    wibbles = noise * 2
    wibbles -= 1
    clouds = np.zeros((count, side, side), dtype=np.float32)
    step, wibble, used = side, FIRST_WIBBLE, 0
    while step >= 2:
        half, cells = step // 2, side // step
        corners = clouds[:, ::step, ::step]
        centres = clouds[:, half::step, half::step]
        rights = clouds[:, ::step, half::step]
        belows = clouds[:, half::step, ::step]
        blocks = wibbles[:, used : used + 3 * cells * cells].reshape(count, 3, cells, cells) * np.float32(wibble**2)
        used += 3 * cells * cells

        pairs = corners + np.roll(corners, -1, axis=1)
        centres[...] = (pairs + np.roll(pairs, -1, axis=2)) / 4 + blocks[:, 0]
        rights[...] = (centres + np.roll(centres, 1, axis=1) + (corners + np.roll(corners, -1, axis=2))) / 4 + blocks[
            :, 1
        ]
        belows[...] = (centres + np.roll(centres, 1, axis=2) + (corners + np.roll(corners, -1, axis=1))) / 4 + blocks[
            :, 2
        ]
        step, wibble = half, wibble / wibble_decay
    clouds -= clouds.min(axis=(1, 2), keepdims=True)
    clouds /= np.maximum(clouds.max(axis=(1, 2), keepdims=True), np.finfo(np.float32).tiny)
    return clouds
