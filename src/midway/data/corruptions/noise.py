"""Noise: gaussian, shot, impulse, speckle."""

from __future__ import annotations

from functools import partial

import numpy as np

from midway.data.corruptions.pixels import Bytes, to_bytes, to_unit
from midway.data.corruptions.randomness import Draws
from midway.data.corruptions.registry import Strength, corruption

benchmark = partial(corruption, purpose="benchmark", category="noise")
tuning = partial(corruption, purpose="tuning", category="noise")


@benchmark(
    strengths={
        32: [0.04, 0.06, 0.08, 0.09, 0.10],
        64: [0.04, 0.08, 0.12, 0.15, 0.18],
        224: [0.08, 0.12, 0.18, 0.26, 0.38],
    }
)
def gaussian_noise(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Add normal noise (low light, a hot sensor). Strength: standard deviation."""
    (deviation,) = strength
    noise = draws.normal(images.shape[1:])
    noise *= np.float32(deviation)
    noise += to_unit(images)
    return to_bytes(noise)


@benchmark(strengths={32: [500, 250, 100, 75, 50], 64: [250, 100, 50, 30, 15], 224: [60, 25, 12, 5, 3]})
def shot_noise(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Replace each value by a Poisson count of light (few photons). Strength: events at full white."""
    (events,) = strength
    counts = draws.poisson(to_unit(images) * np.float32(events))
    counts /= np.float32(events)
    return to_bytes(counts)


@benchmark(
    strengths={
        32: [0.01, 0.02, 0.03, 0.05, 0.07],
        64: [0.01, 0.02, 0.05, 0.08, 0.14],
        224: [0.03, 0.06, 0.09, 0.17, 0.27],
    }
)
def impulse_noise(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Set values to black or white, each channel separately (bit errors). Strength: the share of values set."""
    (share,) = strength
    draw = draws.uniform(images.shape[1:])
    noisy = images.copy()
    noisy[draw < share / 2] = 0
    noisy[draw >= 1 - share / 2] = 255
    return noisy


@tuning(
    strengths={32: [0.06, 0.1, 0.12, 0.16, 0.2], 64: [0.15, 0.2, 0.25, 0.3, 0.35], 224: [0.15, 0.2, 0.35, 0.45, 0.6]}
)
def speckle_noise(images: Bytes, strength: Strength, draws: Draws) -> Bytes:
    """Add normal noise in proportion to each value. Strength: standard deviation at full white."""
    (deviation,) = strength
    noise = draws.normal(images.shape[1:])
    noise *= np.float32(deviation)
    noise += np.float32(1)
    noise *= to_unit(images)
    return to_bytes(noise)
