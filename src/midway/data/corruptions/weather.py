"""Weather: snow, frost, fog, brightness; spatter has a file of its own."""

from __future__ import annotations

import numpy as np

from midway.data.corruptions.overlays import OVERLAYS, overlay
from midway.data.corruptions.pixels import Bytes, grey, to_bytes, to_unit
from midway.data.corruptions.plasma import plasma
from midway.data.corruptions.randomness import Draws
from midway.data.corruptions.streaks import streak
from midway.data.corruptions.strengths import Strength
from midway.data.corruptions.zooming import mean_zoom


def snow(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Whiten the image and let flakes fall over it, blown along an angle between -135 and -45 degrees.

    Strength: mean and standard deviation of the normal flakes, zoom into them, threshold below which there is none,
    radius and sigma of the streak in pixels, share of the image that is not whitened.
    """
    mean, deviation, zoom, threshold, radius, sigma, kept = strength
    layer = draws.normal((*images.shape[1:3], 1)) * np.float32(deviation) + np.float32(mean)
    layer = mean_zoom(layer, (zoom,))
    layer[layer < threshold] = 0
    angles = draws.uniform() * np.float32(90) - np.float32(135)
    flakes = to_unit(streak(to_bytes(layer), angles, radius=int(radius), sigma=sigma))

    snowy = to_unit(images)
    white = np.maximum(snowy, grey(snowy) * np.float32(1.5) + np.float32(0.5))
    snowy *= np.float32(kept)
    white *= np.float32(1 - kept)
    snowy += white
    snowy += flakes
    snowy += flakes[:, ::-1, ::-1]
    return to_bytes(snowy)


def frost(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Lay a random piece of a photograph of ice over the image.

    A photograph too small for the image is enlarged; a greyscale image gets the photograph's luma.
    Strength: weight of the image, weight of the ice, scale of the photograph.
    """
    image_weight, ice_weight, scale = strength
    height, width, channels = images.shape[1:]
    which = draws.integers(0, len(OVERLAYS)).tolist()
    down, right = draws.uniform((2,)).astype(np.float64).T
    ice = np.empty((*images.shape[:3], 3), dtype=np.uint8)
    for i, number in enumerate(which):
        photograph = overlay(number, scale, height, width)
        top = int(down[i] * max(photograph.shape[0] - height, 1))
        left = int(right[i] * max(photograph.shape[1] - width, 1))
        ice[i] = photograph[top : top + height, left : left + width]
    layer = to_unit(ice) if channels == 3 else grey(to_unit(ice))
    layer *= np.float32(ice_weight)
    layer += to_unit(images) * np.float32(image_weight)
    return to_bytes(layer)


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


def brightness(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Raise the HSV value, hue and saturation as they are. Strength: what is added to the value.

    Hue and saturation depend on the ratios between the channels only, so the new value over the old one scales all
    three; black, which has no ratios, becomes grey.
    """
    (added,) = strength
    colours = to_unit(images)
    value = colours.max(axis=-1, keepdims=True)
    brighter = np.minimum(value + np.float32(added), np.float32(1))
    black = value == 0
    scale = brighter / np.where(black, np.float32(1), value)
    return to_bytes(np.where(black, brighter, colours * scale))
