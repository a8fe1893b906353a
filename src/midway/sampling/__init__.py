"""Drawing images from the distribution of a model."""

from midway.sampling.images import sample_images
from midway.sampling.langevin import Energy, Measure, Walk, langevin, move
from midway.sampling.randomness import Randomness
from midway.sampling.replay import ReplayBuffer
from midway.sampling.spectrum import NaturalMeasure

__all__ = [
    "Energy",
    "Measure",
    "NaturalMeasure",
    "Randomness",
    "ReplayBuffer",
    "Walk",
    "langevin",
    "move",
    "sample_images",
]
