"""Digital: contrast, elastic transform, pixelate, JPEG compression, saturate."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from midway.data.corruptions.pixels import Bytes, Floats, to_bytes, to_unit
from midway.data.corruptions.randomness import Draws
from midway.data.corruptions.registry import Strength, corruption
from midway.data.corruptions.resampling import sample

# ImageNet-C scales its elastic transform by 244, not by its image side 224.
IMAGENET_STRETCH = 244 / 224

benchmark = partial(corruption, purpose="benchmark", category="digital")
tuning = partial(corruption, purpose="tuning", category="digital")


@benchmark(strengths={32: [0.75, 0.5, 0.4, 0.3, 0.15], 64: [0.4, 0.3, 0.2, 0.1, 0.05], 224: [0.4, 0.3, 0.2, 0.1, 0.05]})
def contrast(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Scale the distance of every value to the mean of its channel over the image. Strength: the factor."""
    (factor,) = strength
    # The sum of integers does not depend on the order, hence not on the batch.
    totals = images.sum(axis=(1, 2), keepdims=True, dtype=np.int64)
    means = (totals / (255 * images.shape[1] * images.shape[2])).astype(np.float32)
    values = to_unit(images)
    values -= means
    values *= np.float32(factor)
    values += means
    return to_bytes(values)


@benchmark(
    strengths={
        32: ((0, 0, 0.08, 1), (0.05, 0.2, 0.07, 1), (0.08, 0.06, 0.06, 1), (0.1, 0.04, 0.05, 1), (0.1, 0.03, 0.03, 1)),
        64: ((0, 0, 0.08, 1), (0.05, 0.3, 0.06, 1), (0.1, 0.08, 0.06, 1), (0.1, 0.03, 0.03, 1), (0.16, 0.03, 0.02, 1)),
        224: (
            (2, 0.7, 0.1, IMAGENET_STRETCH),
            (2, 0.08, 0.2, IMAGENET_STRETCH),
            (0.05, 0.01, 0.02, IMAGENET_STRETCH),
            (0.07, 0.01, 0.02, IMAGENET_STRETCH),
            (0.12, 0.01, 0.02, IMAGENET_STRETCH),
        ),
    }
)
def elastic_transform(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """A random affine map, then a smooth random displacement.

    Three points around the centre are displaced at random and define the affine map; then every pixel is displaced by
    a smoothed random field (both bilinear, edges mirrored). At the published sizes all lengths are the published
    ones; for other sizes they are proportional to the shorter side.

    Strength: size of the field, its smoothing sigma, jitter of the points, all in sides; factor of the side.
    """
    from scipy import ndimage  # slow to import

    size, sigma, jitter, stretch = strength
    side = min(images.shape[1:3]) * stretch
    corners = (draws.uniform((3, 2)).astype(np.float64) * 2 - 1) * (jitter * side)
    moved = _affine(to_unit(images), corners)
    field = draws.uniform((2, *images.shape[1:3])) * np.float32(2) - np.float32(1)
    if size:
        spread = sigma * side
        field = ndimage.gaussian_filter(field, (0, 0, spread, spread), mode="reflect", truncate=3)
        field *= np.float32(size * side)
        rows, columns = np.indices(images.shape[1:3], dtype=np.float32)
        moved = sample(moved, rows + field[:, 1], columns + field[:, 0], "symmetric")
    return to_bytes(moved)


def _affine(images: Floats, jitter: NDArray[np.float64]) -> Floats:
    """Apply the affine map that displaces three points of each image by the jitter (n, 3, 2), right and down."""
    height, width = images.shape[1:3]
    centre = np.array([width // 2, height // 2])
    arm = max(min(height, width) // 3, 1)
    points = centre + arm * np.array([[1, 1], [1, -1], [-1, -1]])
    # The inverse map, from the displaced points back: it gives the source of each pixel of the result.
    homogeneous = np.concatenate([points + jitter, np.ones((len(images), 3, 1))], axis=2)
    back = np.linalg.solve(homogeneous, np.broadcast_to(points.astype(np.float64), jitter.shape))
    rows, columns = np.indices((height, width), dtype=np.float64)
    right, down = (
        columns * back[:, 0, axis, None, None] + rows * back[:, 1, axis, None, None] + back[:, 2, axis, None, None]
        for axis in (0, 1)
    )
    return sample(images, down.astype(np.float32), right.astype(np.float32), "reflect")


@benchmark(
    strengths={32: [0.95, 0.9, 0.85, 0.75, 0.65], 64: [0.9, 0.8, 0.7, 0.6, 0.5], 224: [0.6, 0.5, 0.4, 0.3, 0.25]}
)
def pixelate(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Shrink and enlarge, both with a box filter. Strength: factor of the sides."""
    (factor,) = strength
    height, width = images.shape[1:3]
    small = max(int(width * factor), 1), max(int(height * factor), 1)
    box = Image.Resampling.BOX
    return _with_pillow(images, lambda image: image.resize(small, box).resize((width, height), box))


@benchmark(strengths={32: [80, 65, 58, 50, 40], 64: [65, 58, 50, 40, 25], 224: [25, 18, 15, 10, 7]})
def jpeg_compression(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Encode as JPEG and decode. Strength: JPEG quality."""
    (quality,) = strength

    def decoded(image: Image.Image) -> Image.Image:
        file = io.BytesIO()
        image.save(file, "JPEG", quality=int(quality))
        return Image.open(file)

    return _with_pillow(images, decoded)


def _with_pillow(images: Bytes, function: Callable[[Image.Image], Image.Image]) -> Bytes:
    """Apply a function to each image; Pillow takes (H, W, 3), or (H, W) for one channel."""
    plain = images[..., 0] if images.shape[-1] == 1 else images
    results = [np.asarray(function(Image.fromarray(image))) for image in plain]
    return np.stack(results).reshape(images.shape)


@tuning(
    strengths={
        32: ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
        64: ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (30, 0.2)),
        224: ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
    }
)
def saturate(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Change the HSV saturation, not hue and value. Strength: factor, summand.

    Scaling the distances to the largest channel scales the saturation alone. A grey pixel has hue 0 by convention, so
    a summand makes it reddish, as published. A one-channel image has no saturation and is returned unchanged.
    """
    factor, added = strength
    if images.shape[-1] == 1:
        return images.copy()
    colours = to_unit(images)
    value = colours.max(axis=-1, keepdims=True)
    spread = value - colours.min(axis=-1, keepdims=True)
    is_grey = spread == 0
    saturation = spread / np.where(value > 0, value, np.float32(1))
    target = np.clip(saturation * np.float32(factor) + np.float32(added), 0, 1)
    scale = target * value / np.where(is_grey, np.float32(1), spread)
    lack = value - colours
    lack[..., 1:] += is_grey  # hue 0 is red
    return to_bytes(value - lack * scale)
