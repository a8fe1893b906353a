"""Blur: defocus, frosted glass, motion, zoom, gaussian."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from midway.data.corruptions.pixels import Bytes, smooth, to_bytes, to_unit
from midway.data.corruptions.randomness import Draws
from midway.data.corruptions.registry import Strength, corruption
from midway.data.corruptions.resampling import mean_zoom, streak

benchmark = partial(corruption, purpose="benchmark", category="blur")
tuning = partial(corruption, purpose="tuning", category="blur")


@benchmark(
    strengths={
        32: ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
        64: ((0.5, 0.6), (1, 0.1), (1.5, 0.1), (2.5, 0.01), (3, 0.1)),
        224: ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    }
)
def defocus_blur(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Average over a disk (a lens out of focus). Strength: radius in pixels, sigma that softens the disk's rim."""
    from scipy import ndimage  # slow to import

    radius, softness = strength
    kernel = disk(radius, softness)
    return to_bytes(ndimage.correlate(to_unit(images), kernel[None, :, :, None], mode="mirror"))


def disk(radius: float, softness: float) -> NDArray[np.float64]:
    """Return a disk of weights that sum to 1, softened by a Gaussian of 3 x 3 taps (5 x 5 beyond radius 8).

    The published grid ends at radius 8, or at the radius if it is larger, and mirrors the disk there, so the softened
    weights of radius 8 and 10 sum to 1.01. Rows and columns of zeros around a smaller disk are removed.
    """
    from scipy import ndimage  # slow to import

    half = 8 if radius <= 8 else int(radius)
    taps = 1 if radius <= 8 else 2
    line = np.arange(-half, half + 1)
    inside = (line[:, None] ** 2 + line[None, :] ** 2 <= radius**2).astype(np.float64)
    rim = np.exp(-(np.arange(-taps, taps + 1) ** 2) / (2 * softness**2))
    rim /= rim.sum()
    soft: NDArray[np.float64] = inside / inside.sum()
    for axis in (0, 1):
        soft = ndimage.correlate1d(soft, rim, axis=axis, mode="mirror")
    margin = half - min(half, int(radius) + taps)
    return soft[margin : len(line) - margin, margin : len(line) - margin]


@tuning(strengths={32: [0.4, 0.6, 0.7, 0.8, 1], 64: [0.5, 0.75, 1, 1.25, 1.5], 224: [1, 2, 3, 4, 6]})
def gaussian_blur(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Smooth with a Gaussian. Strength: sigma in pixels."""
    (sigma,) = strength
    return to_bytes(smooth(to_unit(images), sigma))


@benchmark(
    strengths={
        32: ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
        64: ((0.1, 1, 1), (0.5, 1, 1), (0.6, 1, 2), (0.7, 2, 1), (0.9, 2, 2)),
        224: ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    }
)
def glass_blur(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Frosted glass: smooth, replace every pixel by a near one, smooth again.

    The published loop visits the pixels from the last to the first and is meant to exchange each with a random near
    one. Its exchange is a copy, because the second assignment reads the result of the first. A later pixel may copy
    from a pixel that was itself overwritten, so the source of each colour is a chain of steps; the chains of a batch
    are followed together by doubling. The result equals that of the loop, bit for bit.

    Strength: sigma in pixels, largest offset in pixels, number of passes over the image.
    """
    sigma, reach, passes = strength[0], int(strength[1]), int(strength[2])
    count, height, width, channels = images.shape
    smoothed = to_bytes(smooth(to_unit(images), sigma))
    rows, columns = max(height - 2 * reach, 0), max(width - 2 * reach, 0)
    offsets = draws.integers(-reach, reach, (passes, rows, columns, 2))

    origin = np.arange(count * height * width)
    for step in range(passes):
        origin = origin[_sources(offsets[:, step], height, width, reach)]
    shuffled = smoothed.reshape(-1, channels).take(origin, axis=0).reshape(images.shape)
    return to_bytes(smooth(to_unit(shuffled), sigma))


def _sources(offsets: NDArray[np.int16], height: int, width: int, reach: int) -> NDArray[np.intp]:
    """Return the source of each pixel of the batch after a pass, as flat indices (n * H * W,).

    ``offsets`` (n, rows, columns, 2), right and down, are those of the sources of the inner pixels, which are more than
    ``reach`` from the top left and at least that from the end.
    """
    count, rows, columns = offsets.shape[:3]
    indices = np.arange(count * height * width)
    sources = indices.copy()
    inner = sources.reshape(count, height, width)[:, reach + 1 :, reach + 1 :][:, :rows, :columns]
    inner += offsets[..., 1] * np.intp(width) + offsets[..., 0]
    if reach == 1:  # every source is to the left or above, and not overwritten yet
        return sources
    earlier = np.maximum(sources, indices)  # the pass goes backwards: larger indices are overwritten first
    while True:
        further = earlier.take(earlier)
        if np.array_equal(further, earlier):
            return sources.take(earlier)
        earlier = further


@benchmark(
    strengths={
        32: ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
        64: ((10, 1), (10, 1.5), (10, 2), (10, 2.5), (12, 3)),
        224: ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    }
)
def motion_blur(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Streak along an angle between -45 and 45 degrees (a moving camera). Strength: radius, sigma in pixels."""
    radius, sigma = strength
    angles = draws.uniform() * np.float32(90) - np.float32(45)
    return streak(images, angles, radius=int(radius), sigma=sigma)


@benchmark(
    strengths={
        32: ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
        64: ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
        224: ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
    }
)
def zoom_blur(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Average the image with zooms into its centre (a camera moving forward). Strength: zoom factors' end, step."""
    end, step = strength
    factors = np.arange(1, end, step).tolist()
    return to_bytes(mean_zoom(to_unit(images), (1.0, *factors)))
