"""Drawing images from the distribution of a model."""

from midway.sampling.images import sample_images
from midway.sampling.langevin import Energy, Walk, langevin, move
from midway.sampling.randomness import Randomness
from midway.sampling.replay import ReplayBuffer

__all__ = ["Energy", "Randomness", "ReplayBuffer", "Walk", "langevin", "move", "sample_images"]
