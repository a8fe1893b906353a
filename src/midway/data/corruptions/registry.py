"""Corruptions by name, over a batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from midway.data.corruptions import blur, digital, noise, weather
from midway.data.corruptions.pixels import Bytes
from midway.data.corruptions.randomness import Draws, stream_key
from midway.data.corruptions.spatter import spatter
from midway.data.corruptions.strengths import STRENGTH_SETS, STRENGTHS, Strength, closest_set
from midway.suggest import unknown

Corruption = Callable[[Bytes, Strength, Draws], Bytes]
"""Images (n, H, W, C), one severity's strength, the images' random numbers -> new images."""

FUNCTIONS: Mapping[str, Corruption] = MappingProxyType(
    {
        "gaussian_noise": noise.gaussian_noise,
        "shot_noise": noise.shot_noise,
        "impulse_noise": noise.impulse_noise,
        "defocus_blur": blur.defocus_blur,
        "glass_blur": blur.glass_blur,
        "motion_blur": blur.motion_blur,
        "zoom_blur": blur.zoom_blur,
        "snow": weather.snow,
        "frost": weather.frost,
        "fog": weather.fog,
        "brightness": weather.brightness,
        "contrast": digital.contrast,
        "elastic_transform": digital.elastic_transform,
        "pixelate": digital.pixelate,
        "jpeg_compression": digital.jpeg_compression,
        "speckle_noise": noise.speckle_noise,
        "gaussian_blur": blur.gaussian_blur,
        "spatter": spatter,
        "saturate": digital.saturate,
    }
)

ALL_CORRUPTIONS: tuple[str, ...] = tuple(FUNCTIONS)
CORRUPTIONS: tuple[str, ...] = ALL_CORRUPTIONS[:15]
TUNING_CORRUPTIONS: tuple[str, ...] = ALL_CORRUPTIONS[15:]

VALUES_PER_CHUNK = 2**19  # about 170 CIFAR images: temporary arrays stay in the cache


def corrupt(
    images: Bytes,
    name: str,
    *,
    severity: int = 5,
    seed: int = 0,
    indices: ArrayLike | None = None,
    strengths: int | None = None,
) -> Bytes:
    """Corrupt a batch of images as CIFAR-C, Tiny-ImageNet-C or ImageNet-C would.

    The randomness of an image depends on the seed, the name, the severity and the image's index, never on the other
    images of the batch: a subset or another order gives the same images. Large batches are worked on by as many
    threads as there are processors (or ``OMP_NUM_THREADS``); the result does not depend on their number.

    Args:
        images: uint8 (N, H, W, 3), or (N, H, W, 1) for greyscale. Never changed.
        name: One of `ALL_CORRUPTIONS`.
        severity: 1 to 5.
        seed: Any whole number.
        indices: The identity of each image, whole numbers from 0, (N,). Default: 0 to N - 1.
        strengths: 32, 64 or 224: whose strengths to use, CIFAR-C's, Tiny-ImageNet-C's or ImageNet-C's. Default: by the
            shorter side of the images, up to 48 pixels the first, up to 144 the second, else the third.

    Returns:
        New uint8 images of the same shape.

    Raises:
        TypeError: The images are not uint8, or the indices are not whole numbers.
        ValueError: A shape, the name, the severity, an index or the strengths are not as above.

    Example:
        >>> import numpy as np
        >>> from midway.data.corruptions import corrupt
        >>> images = np.full((4, 32, 32, 3), 128, np.uint8)
        >>> noisy = corrupt(images, "gaussian_noise", severity=3)
        >>> noisy.shape, bool((corrupt(images[2:], "gaussian_noise", severity=3, indices=[2, 3]) == noisy[2:]).all())
        ((4, 32, 32, 3), True)
    """
    images = _checked_images(images)
    function = _function(name)
    if severity not in (1, 2, 3, 4, 5):
        raise ValueError(f"severity must be 1, 2, 3, 4 or 5, got {severity!r}.")
    identities = _checked_indices(indices, len(images))
    if strengths is None:
        strengths = closest_set(*images.shape[1:3])
    elif strengths not in STRENGTH_SETS:
        raise ValueError(f"strengths must be 32, 64, 224 or None (by image size), got {strengths!r}.")
    if not images.size:
        return images.copy()

    strength = STRENGTHS[name][strengths][severity - 1]
    key = stream_key(name, int(severity), int(seed))
    corrupted = np.empty_like(images)
    per_chunk = max(1, VALUES_PER_CHUNK // images[0].size)
    chunks = [slice(start, start + per_chunk) for start in range(0, len(images), per_chunk)]

    def work(chunk: slice) -> None:
        corrupted[chunk] = function(images[chunk], strength, Draws(key, identities[chunk]))

    threads = min(len(chunks), _processors())
    if threads == 1:
        for chunk in chunks:
            work(chunk)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, chunks))
    return corrupted


def _function(name: str) -> Corruption:
    if name not in FUNCTIONS:
        raise ValueError(unknown("corruption", str(name), FUNCTIONS))
    return FUNCTIONS[name]


def _checked_images(images: Bytes) -> Bytes:
    images = np.asarray(images)
    if images.dtype != np.uint8:
        raise TypeError(f"images must be uint8 from 0 to 255, got {images.dtype}: convert them first.")
    if images.ndim != 4 or images.shape[-1] not in (1, 3):
        raise ValueError(f"images must have shape (N, H, W, 3) or (N, H, W, 1), got {images.shape}.")
    if 0 in images.shape[1:]:
        raise ValueError(f"images must have at least one pixel, got shape {images.shape}.")
    return np.ascontiguousarray(images)


def _checked_indices(indices: ArrayLike | None, count: int) -> NDArray[np.uint64]:
    if indices is None:
        return np.arange(count, dtype=np.uint64)
    numbers = np.asarray(indices)
    if numbers.shape != (count,):
        raise ValueError(f"indices must hold one number an image, shape ({count},), got {numbers.shape}.")
    if count and not np.issubdtype(numbers.dtype, np.integer):
        raise TypeError(f"indices must be whole numbers, got {numbers.dtype}.")
    if count and numbers.min() < 0:
        raise ValueError(f"indices must not be negative, got {numbers.min()}.")
    return numbers.astype(np.uint64)


def _processors() -> int:
    """Number of threads worth starting."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
