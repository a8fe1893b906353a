"""The frost photographs."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from midway.data.corruptions.pixels import Bytes

FOLDER = Path(__file__).parent.parent / "assets" / "frost"
OVERLAYS = ("frost1", "frost2", "frost2", "frost4", "frost5")  # the published third picture is the second again
SMALL_SCALE = 0.2


@lru_cache(maxsize=32)
def overlay(number: int, scale: float, height: int, width: int) -> Bytes:
    """Return a frost photograph (h, w, 3), scaled, and enlarged where a crop of this size would not fit.

    The photographs at scale 0.2, which CIFAR-C uses, are stored without loss; the full ones as JPEG files.

    Args:
        number: Which photograph, 0 to 4.
        scale: Of the published generator: 0.2 for 32 px, 0.3 for 64 px, 1 for 224 px.
        height: Least height.
        width: Least width.
    """
    if scale == SMALL_SCALE:
        photograph = _read(f"{OVERLAYS[number]}_small.png")
    else:
        photograph = _read(f"{OVERLAYS[number]}.jpg")
        if scale != 1:
            size = round(photograph.shape[0] * scale), round(photograph.shape[1] * scale)
            photograph = _resize(photograph, size, 1 / scale)
    larger = max(height / photograph.shape[0], width / photograph.shape[1])
    if larger > 1:
        size = max(height, round(photograph.shape[0] * larger)), max(width, round(photograph.shape[1] * larger))
        photograph = _resize(photograph, size, 1 / larger)
    photograph.flags.writeable = False
    return photograph


def _read(name: str) -> Bytes:
    with Image.open(FOLDER / name) as file:
        return np.array(file.convert("RGB"), dtype=np.uint8)


def _resize(image: Bytes, size: tuple[int, int], step: float) -> Bytes:
    """Sample every `step` pixels, bilinear and without smoothing first, as OpenCV's default resize does."""
    values = image.astype(np.float64)
    for axis in (0, 1):
        places = np.clip((np.arange(size[axis]) + 0.5) * step - 0.5, 0, image.shape[axis] - 1)
        low = places.astype(np.intp)
        high = np.minimum(low + 1, image.shape[axis] - 1)
        share = np.expand_dims(places - low, (1, 2) if axis == 0 else (0, 2))
        values = values.take(low, axis=axis) * (1 - share) + values.take(high, axis=axis) * share
    rounded: NDArray[np.float64] = np.round(values)
    return rounded.astype(np.uint8)
