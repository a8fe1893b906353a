"""Random numbers per image, independent of the batch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from midway.data.corruptions.pixels import Floats


def random_key(name: str, severity: int, seed: int) -> tuple[int, int]:
    """Return the 128-bit key of all random numbers of one corruption at one severity under one seed."""
    digest = hashlib.blake2b(f"{name}/{severity}/{seed}".encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


class Draws:
    """The random numbers of some images; those of an image do not depend on the other images.

    Philox is counter-based: the key stands for the corruption, severity and seed, the top word of the 256-bit counter
    for the image and the next word for the draw. The numbers of an image depend on nothing else, and starting its
    sequence takes about a microsecond.

    Args:
        key: Two 64-bit words, for the corruption, severity and seed.
        indices: The index of each image, (n,).

    Example:
        >>> from midway.data import Draws
        >>> both, alone = Draws((1, 2), [3, 8]), Draws((1, 2), [8])
        >>> bool((both.normal((2, 2))[1] == alone.normal((2, 2))[0]).all())
        True
    """

    def __init__(self, key: tuple[int, int], indices: ArrayLike) -> None:
        self._key = np.array(key, dtype=np.uint64)
        self._indices = np.asarray(indices, dtype=np.uint64)
        self._calls = 0

    def __len__(self) -> int:
        return len(self._indices)

    def normal(self, shape: tuple[int, ...]) -> Floats:
        """Return standard normal numbers (n, *shape)."""
        numbers = np.empty((len(self), *shape), dtype=np.float32)
        for row, generator in zip(numbers, self._generators(), strict=True):
            generator.standard_normal(dtype=np.float32, out=row)
        return numbers

    def uniform(self, shape: tuple[int, ...] = ()) -> Floats:
        """Return numbers (n, *shape) uniform in [0, 1)."""
        numbers = np.empty((len(self), *(shape or (1,))), dtype=np.float32)
        for row, generator in zip(numbers, self._generators(), strict=True):
            generator.random(dtype=np.float32, out=row)
        return numbers.reshape(len(self), *shape)

    def poisson(self, rates: Floats) -> Floats:
        """Return Poisson counts with the given rates (n, ...)."""
        counts = np.empty_like(rates)
        for row, rate, generator in zip(counts, rates, self._generators(), strict=True):
            row[...] = generator.poisson(rate)
        return counts

    def integers(self, low: int, high: int, shape: tuple[int, ...] = ()) -> NDArray[np.int16]:
        """Return integers (n, *shape) from low to high - 1."""
        numbers = np.empty((len(self), *shape), dtype=np.int16)
        for i, generator in enumerate(self._generators()):
            numbers[i] = generator.integers(low, high, shape, dtype=np.int16)
        return numbers

    def _generators(self) -> Iterator[np.random.Generator]:
        """Yield one generator, set to the start of the sequence of each image in turn."""
        bits = np.random.Philox(key=self._key)
        generator = np.random.Generator(bits)
        start = bits.state
        counter = start["state"]["counter"]
        counter[2] = self._calls
        self._calls += 1
        for index in self._indices:
            counter[3] = index
            bits.state = start
            yield generator
