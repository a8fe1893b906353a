"""Sampling images from an energy: Langevin dynamics, replay buffers, random numbers."""

from midway.sampling.langevin import Energy, GradientFilter, LangevinResult, langevin, langevin_step
from midway.sampling.randomness import Randomness
from midway.sampling.replay import ReplayBuffer, UniformNoise
from midway.sampling.spectral_filter import SpectralFilter

__all__ = [
    "Energy",
    "GradientFilter",
    "LangevinResult",
    "Randomness",
    "ReplayBuffer",
    "SpectralFilter",
    "UniformNoise",
    "langevin",
    "langevin_step",
]
