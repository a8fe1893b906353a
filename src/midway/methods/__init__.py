"""Test-time adaptation, one paper a file.

Each file registers its class in ``METHODS``; ``_classes`` (generated) imports them by name.
"""

from midway.adaptation.about import About
from midway.adaptation.adapt import adapt, preset
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.clustered import clustered
from midway.adaptation.classifier import AdaptiveClassifier
from midway.adaptation.nonfinite import NonFiniteError
from midway.adaptation.registry import METHODS, find, hyperparameters, names, register
from midway.methods import _classes
from midway.methods._classes import *  # noqa: F403

__all__ = [
    "METHODS",
    "About",
    "AdaptiveClassifier",
    "Method",
    "NonFiniteError",
    "adapt",
    "clustered",
    "find",
    "hyperparameters",
    "names",
    "preset",
    "register",
]
__all__ += _classes.__all__
