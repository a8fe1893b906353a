"""Clean images that are corrupted when they are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from midway.data.corruptions import ALL_CORRUPTIONS, corrupt
from midway.data.image_set import ImageArray
from midway.suggest import unknown


class CorruptedImages:
    """An array of images under a corruption: ``images[indices]`` corrupts those, and nothing is kept.

    Image i looks the same whatever else is asked for with it, because its random numbers come from the seed and its
    place.

    Args:
        images: The clean images, in memory or lazy.
        name: One of ``midway.data.ALL_CORRUPTIONS``.
        severity: 1 (weak) to 5 (strong).
        seed: Another seed, another draw of the random corruptions.

    Example:
        >>> import numpy as np
        >>> from midway.data import CorruptedImages
        >>> clean = np.full((10, 32, 32, 3), 128, np.uint8)
        >>> noisy = CorruptedImages(clean, "gaussian_noise", severity=3)
        >>> noisy.shape, bool((noisy[[7]] == noisy[5:9][2:3]).all())
        ((10, 32, 32, 3), True)
    """

    def __init__(self, images: ImageArray, name: str, severity: int = 5, seed: int = 0) -> None:
        if name not in ALL_CORRUPTIONS:
            raise ValueError(unknown("corruption", name, ALL_CORRUPTIONS))
        check_severity(severity)
        self.images, self.name, self.severity, self.seed = images, name, severity, seed

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of images, height, width, channels."""
        return tuple(self.images.shape)

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        return f"CorruptedImages({self.images!r}, {self.name!r}, severity={self.severity}, seed={self.seed})"

    def __getitem__(self, index: Any, /) -> NDArray[np.uint8]:
        """Corrupt the images at an integer, a slice, or an array of integers or truth values."""
        places = np.arange(len(self))[index]
        flat = np.atleast_1d(places)
        if not len(flat):
            return np.empty((0, *self.shape[1:]), np.uint8)
        clean = np.asarray(self.images[flat])
        images = corrupt(clean, self.name, severity=self.severity, seed=self.seed, indices=flat)
        return images if places.ndim else images[0]


def check_severity(severity: int) -> None:
    """Raise unless a severity is one of 1 to 5."""
    if severity not in range(1, 6):
        raise ValueError(f"severity is {severity}, expected a whole number from 1 to 5.")
