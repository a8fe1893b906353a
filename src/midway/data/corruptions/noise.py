"""Noise: gaussian, shot, impulse, speckle."""

from __future__ import annotations

import numpy as np

from midway.data.corruptions.pixels import Bytes, to_bytes, to_unit
from midway.data.corruptions.randomness import Draws
from midway.data.corruptions.strengths import Strength


def gaussian_noise(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Add normal noise (low light, a hot sensor). Strength: standard deviation."""
    (deviation,) = strength
    noise = draws.normal(images.shape[1:])
    noise *= np.float32(deviation)
    noise += to_unit(images)
    return to_bytes(noise)


def shot_noise(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Replace each value by a Poisson count of light (few photons). Strength: events at full white."""
    (events,) = strength
    counts = draws.poisson(to_unit(images) * np.float32(events))
    counts /= np.float32(events)
    return to_bytes(counts)


def impulse_noise(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Turn values to black or white, each channel on its own (bit errors). Strength: the share of values turned."""
    (share,) = strength
    lot = draws.uniform(images.shape[1:])
    noisy = images.copy()
    noisy[lot < share / 2] = 0
    noisy[lot >= 1 - share / 2] = 255
    return noisy


def speckle_noise(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Add normal noise in proportion to each value. Strength: standard deviation at full white."""
    (deviation,) = strength
    noise = draws.normal(images.shape[1:])
    noise *= np.float32(deviation)
    noise += np.float32(1)
    noise *= to_unit(images)
    return to_bytes(noise)
