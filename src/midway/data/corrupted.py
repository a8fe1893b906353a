"""Apply a corruption to a batch of images, or to images when they are read."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from midway._workers import count_processors
from midway.data.corruptions.pixels import Bytes
from midway.data.corruptions.randomness import Draws, random_key
from midway.data.corruptions.registry import REGISTRY, SIZES, closest_size
from midway.data.image_set import ImageArray, check_pixels

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
    """Return a corrupted copy of a batch of images, as in CIFAR-C, Tiny-ImageNet-C or ImageNet-C.

    The randomness of an image depends on the seed, the name, the severity and the image's index, never on the other
    images of the batch: a subset or another order gives the same images. Large batches are processed by as many
    threads as there are processors (or ``OMP_NUM_THREADS``); the result does not depend on their number.

    Args:
        images: uint8 (N, H, W, 3), or (N, H, W, 1) for greyscale.
        name: One of ``corruption_names()``.
        severity: 1 to 5.
        seed: Any integer.
        indices: The identity of each image, integers from 0, (N,). Default: 0 to N - 1.
        strengths: 32, 64 or 224: use the strengths of CIFAR-C, Tiny-ImageNet-C or ImageNet-C. Default: by the shorter
            side of the images, at most 48 pixels the first, at most 144 the second, else the third.

    Example:
        >>> import numpy as np
        >>> from midway.data import corrupt
        >>> images = np.full((4, 32, 32, 3), 128, np.uint8)
        >>> noisy = corrupt(images, "gaussian_noise", severity=3)
        >>> noisy.shape, bool((corrupt(images[2:], "gaussian_noise", severity=3, indices=[2, 3]) == noisy[2:]).all())
        ((4, 32, 32, 3), True)
    """
    images = np.ascontiguousarray(images)
    check_pixels(images, name)
    if 0 in images.shape[1:]:
        raise ValueError(f"images must have at least one pixel, got shape {images.shape}.")
    corruption = REGISTRY[name]
    check_severity(severity)
    identities = _checked_indices(indices, len(images))
    if strengths not in (None, *SIZES):
        raise ValueError(f"strengths must be 32, 64, 224 or None (by image size), got {strengths!r}.")
    if not images.size:
        return images.copy()

    strength = corruption.strength(strengths or closest_size(*images.shape[1:3]), severity)
    key = random_key(name, int(severity), int(seed))
    corrupted = np.empty_like(images)
    per_chunk = max(1, VALUES_PER_CHUNK // images[0].size)
    chunks = [slice(start, start + per_chunk) for start in range(0, len(images), per_chunk)]

    def work(chunk: slice) -> None:
        corrupted[chunk] = corruption.function(images[chunk], strength, Draws(key, identities[chunk]))

    with ThreadPoolExecutor(min(len(chunks), _processors())) as pool:
        list(pool.map(work, chunks))  # raises errors
    return corrupted


class CorruptedImages:
    """An array of images under a corruption: ``images[indices]`` corrupts those images; nothing is cached.

    The images may be lazy; the other arguments are those of ``corrupt``. Image i looks the same in every batch.

    Example:
        >>> import numpy as np
        >>> from midway.data import CorruptedImages
        >>> clean = np.full((10, 32, 32, 3), 128, np.uint8)
        >>> noisy = CorruptedImages(clean, "gaussian_noise", severity=3)
        >>> noisy.shape, bool((noisy[[7]] == noisy[5:9][2:3]).all())
        ((10, 32, 32, 3), True)
    """

    def __init__(self, images: ImageArray, name: str, severity: int = 5, seed: int = 0) -> None:
        REGISTRY[name]  # raises if it is unknown
        check_severity(severity)
        self.images, self.name, self.severity, self.seed = images, name, severity, seed
        self.shape = tuple(images.shape)

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        return f"CorruptedImages({self.images!r}, {self.name!r}, severity={self.severity}, seed={self.seed})"

    def __getitem__(self, index: Any, /) -> NDArray[np.uint8]:
        """Corrupt the images at an integer, a slice, or an array of integers or Booleans."""
        indices = np.arange(len(self))[index]
        flat = np.atleast_1d(indices)
        if not len(flat):
            return np.empty((0, *self.shape[1:]), np.uint8)
        clean = np.asarray(self.images[flat])
        images = corrupt(clean, self.name, severity=self.severity, seed=self.seed, indices=flat)
        return images if indices.ndim else images[0]


def check_severity(severity: int) -> None:
    """Raise ValueError unless a severity is an integer from 1 to 5."""
    if severity not in (1, 2, 3, 4, 5):
        raise ValueError(f"severity must be an integer from 1 to 5, got {severity!r}.")


def _checked_indices(indices: ArrayLike | None, count: int) -> NDArray[np.uint64]:
    if indices is None:
        return np.arange(count, dtype=np.uint64)
    numbers = np.asarray(indices)
    if numbers.shape != (count,):
        raise ValueError(f"indices must have one number per image, shape ({count},), got {numbers.shape}.")
    if count and not np.issubdtype(numbers.dtype, np.integer):
        raise TypeError(f"indices must be integers, got {numbers.dtype}.")
    if count and numbers.min() < 0:
        raise ValueError(f"indices must not be negative, got {numbers.min()}.")
    return numbers.astype(np.uint64)


def _processors() -> int:
    """Return the number of threads to start."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return count_processors()
