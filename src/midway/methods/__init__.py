"""Test-time adaptation, one paper a file.

Each file registers its class in ``METHODS``; ``_classes`` (generated) imports them by name. What a method of your own
is built from is here too: the base class, ``About``, batch statistics, the choice of parameters and search spaces.
"""

from midway.adaptation.about import About
from midway.adaptation.adapt import adapt, preset
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.clustered import clustered
from midway.adaptation.batch_norm.statistics import use_batch_statistics
from midway.adaptation.classifier import AdaptiveClassifier
from midway.adaptation.nonfinite import NonFiniteError
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.adaptation.registry import METHODS, find, hyperparameters, names, register
from midway.adaptation.space import Choice, Integers, LogUniform, Uniform, search_over
from midway.methods import _classes
from midway.methods._classes import *  # noqa: F403

__all__ = [
    "METHODS",
    "About",
    "AdaptiveClassifier",
    "Choice",
    "Integers",
    "LogUniform",
    "Method",
    "NonFiniteError",
    "Uniform",
    "adapt",
    "clustered",
    "find",
    "freeze_all_but",
    "hyperparameters",
    "names",
    "norm_affine",
    "preset",
    "register",
    "search_over",
    "use_batch_statistics",
]
__all__ += _classes.__all__
