"""Test-time adaptation, one paper a file.

The classes are in the registry ``METHODS``; ``midway._classes`` imports them by name.
"""

from midway import _classes
from midway._classes import *  # noqa: F403
from midway.adaptation.about import About
from midway.adaptation.adapt import adapt
from midway.adaptation.base import Method
from midway.adaptation.clustered import clustered
from midway.adaptation.presets import preset
from midway.adaptation.registry import METHODS, find, hyperparameters, names, register

__all__ = ["METHODS", "About", "Method", "adapt", "clustered", "find", "hyperparameters", "names", "preset", "register"]
__all__ += _classes.__all__
