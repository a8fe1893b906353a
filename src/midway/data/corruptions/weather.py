"""Weather: snow, frost, fog, brightness."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from midway.data.corruptions.pixels import Bytes, Floats, grey, to_bytes, to_unit
from midway.data.corruptions.randomness import Draws
from midway.data.corruptions.registry import Strength, corruption
from midway.data.corruptions.resampling import mean_zoom, streak

FROST_FOLDER = Path(__file__).parent.parent / "assets" / "frost"
FROST_PHOTOGRAPHS = ("frost1", "frost2", "frost2", "frost4", "frost5")  # as published, the third is the second again
SMALL_SCALE = 0.2
FIRST_WIBBLE = 100.0

benchmark = partial(corruption, purpose="benchmark", category="weather")


@benchmark(
    strengths={
        32: (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
        64: (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.8),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.8),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.7),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.65),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.6),
        ),
        224: (
            (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
            (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
            (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
            (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
            (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
        ),
    }
)
def snow(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Whiten the image and add flakes, blurred along an angle between -135 and -45 degrees.

    Strength: mean and standard deviation of the normal flakes, zoom into them, threshold below which they are removed,
    radius and sigma of the streak in pixels, weight of the image that is not whitened.
    """
    mean, deviation, zoom, threshold, radius, sigma, image_weight = strength
    layer = draws.normal((*images.shape[1:3], 1)) * np.float32(deviation) + np.float32(mean)
    layer = mean_zoom(layer, (zoom,))
    layer[layer < threshold] = 0
    angles = draws.uniform() * np.float32(90) - np.float32(135)
    flakes = to_unit(streak(to_bytes(layer), angles, radius=int(radius), sigma=sigma))

    snowy = to_unit(images)
    white = np.maximum(snowy, grey(snowy) * np.float32(1.5) + np.float32(0.5))
    snowy *= np.float32(image_weight)
    white *= np.float32(1 - image_weight)
    snowy += white
    snowy += flakes
    snowy += flakes[:, ::-1, ::-1]
    return to_bytes(snowy)


@benchmark(
    strengths={
        32: ((1, 0.2, 0.2), (1, 0.3, 0.2), (0.9, 0.4, 0.2), (0.85, 0.4, 0.2), (0.75, 0.45, 0.2)),
        64: ((1, 0.3, 0.3), (0.9, 0.4, 0.3), (0.8, 0.45, 0.3), (0.75, 0.5, 0.3), (0.7, 0.55, 0.3)),
        224: ((1, 0.4, 1), (0.8, 0.6, 1), (0.7, 0.7, 1), (0.65, 0.7, 1), (0.6, 0.75, 1)),
    }
)
def frost(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Add a random crop of a photograph of ice to the image.

    A photograph too small for the image is enlarged; a greyscale image gets the photograph's luma.
    Strength: weight of the image, weight of the ice, scale of the photograph.
    """
    image_weight, ice_weight, scale = strength
    height, width, channels = images.shape[1:]
    which = draws.integers(0, len(FROST_PHOTOGRAPHS)).tolist()
    down, right = draws.uniform((2,)).astype(np.float64).T
    ice = np.empty((*images.shape[:3], 3), dtype=np.uint8)
    for i, number in enumerate(which):
        photograph = frost_photograph(number, scale, height, width)
        top = int(down[i] * max(photograph.shape[0] - height, 1))
        left = int(right[i] * max(photograph.shape[1] - width, 1))
        ice[i] = photograph[top : top + height, left : left + width]
    layer = to_unit(ice) if channels == 3 else grey(to_unit(ice))
    layer *= np.float32(ice_weight)
    layer += to_unit(images) * np.float32(image_weight)
    return to_bytes(layer)


@lru_cache(maxsize=32)
def frost_photograph(number: int, scale: float, height: int, width: int) -> Bytes:
    """Return a frost photograph (h, w, 3), scaled, and enlarged if it is smaller than a crop.

    The photographs at scale 0.2, which CIFAR-C uses, are stored without loss; the full ones as JPEG files.
    """
    ending = "_small.png" if scale == SMALL_SCALE else ".jpg"
    with Image.open(FROST_FOLDER / f"{FROST_PHOTOGRAPHS[number]}{ending}") as file:
        photograph = np.array(file.convert("RGB"), dtype=np.uint8)
    if scale not in (SMALL_SCALE, 1):
        size = round(photograph.shape[0] * scale), round(photograph.shape[1] * scale)
        photograph = _resize(photograph, size, 1 / scale)
    larger = max(height / photograph.shape[0], width / photograph.shape[1])
    if larger > 1:
        size = max(height, round(photograph.shape[0] * larger)), max(width, round(photograph.shape[1] * larger))
        photograph = _resize(photograph, size, 1 / larger)
    photograph.flags.writeable = False
    return photograph


def _resize(image: Bytes, size: tuple[int, int], step: float) -> Bytes:
    """Sample every ``step`` pixels, bilinear without smoothing, as OpenCV's default resize does."""
    values = image.astype(np.float64)
    for axis in (0, 1):
        coordinates = np.clip((np.arange(size[axis]) + 0.5) * step - 0.5, 0, image.shape[axis] - 1)
        low = coordinates.astype(np.intp)
        high = np.minimum(low + 1, image.shape[axis] - 1)
        share = np.expand_dims(coordinates - low, (1, 2) if axis == 0 else (0, 2))
        values = values.take(low, axis=axis) * (1 - share) + values.take(high, axis=axis) * share
    rounded: NDArray[np.float64] = np.round(values)
    return rounded.astype(np.uint8)


@benchmark(
    strengths={
        32: ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
        64: ((0.4, 3), (0.7, 3), (1, 2.5), (1.5, 2), (2, 1.75)),
        224: ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    }
)
def fog(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Add clouds, then scale back to the image's own range. Strength: amount, wibble decay of the clouds."""
    amount, decay = strength
    height, width = images.shape[1:3]
    side = 1 << (max(height, width) - 1).bit_length()
    clouds = plasma(draws.uniform((side * side,)), decay)[:, :height, :width, None]
    foggy = to_unit(images)
    brightest = foggy.max(axis=(1, 2, 3), keepdims=True)
    foggy += clouds * np.float32(amount)
    foggy *= brightest / (brightest + np.float32(amount))
    return to_bytes(foggy)


def plasma(noise: Floats, wibble_decay: float) -> Floats:
    """Return plasma fractals (n, side, side) from 0 to 1 by the diamond-square method.

    The maps are periodic. At each scale the centre of every square and then of every diamond is the mean of its
    corners plus a random wibble; the size of the wibble, squared as published, is divided by ``wibble_decay`` from one
    scale to the next. The uniform noise (n, side * side), the side a power of two, is used in order: at each scale the
    squares, the diamonds right of the corners, the diamonds below them, each row by row.
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
        centre, right, below = blocks.swapaxes(0, 1)
        used += 3 * cells * cells

        pairs = corners + np.roll(corners, -1, axis=1)
        centres[...] = (pairs + np.roll(pairs, -1, axis=2)) / 4 + centre
        rights[...] = (centres + np.roll(centres, 1, axis=1) + (corners + np.roll(corners, -1, axis=2))) / 4 + right
        belows[...] = (centres + np.roll(centres, 1, axis=2) + (corners + np.roll(corners, -1, axis=1))) / 4 + below
        step, wibble = half, wibble / wibble_decay
    clouds -= clouds.min(axis=(1, 2), keepdims=True)
    clouds /= np.maximum(clouds.max(axis=(1, 2), keepdims=True), np.finfo(np.float32).tiny)
    return clouds


@benchmark(strengths={32: [0.05, 0.1, 0.15, 0.2, 0.3], 64: [0.1, 0.2, 0.3, 0.4, 0.5], 224: [0.1, 0.2, 0.3, 0.4, 0.5]})
def brightness(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Raise the HSV value, not hue and saturation. Strength: summand of the value.

    Hue and saturation depend only on the ratios of the channels, so all three are scaled by the new value over the old
    one; black becomes grey.
    """
    (added,) = strength
    colours = to_unit(images)
    value = colours.max(axis=-1, keepdims=True)
    brighter = np.minimum(value + np.float32(added), np.float32(1))
    black = value == 0
    scale = brighter / np.where(black, np.float32(1), value)
    return to_bytes(np.where(black, brighter, colours * scale))
