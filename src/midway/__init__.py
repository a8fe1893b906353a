"""Midway: test-time adaptation for any PyTorch classifier.

Midway adapts a trained classifier, and with MITA also the input images, to shifted test data, without labels or
training data.

Example:
    >>> import midway
    >>> model = midway.models.load("wrn16_2.cifar10")
    >>> data = midway.data.load("cifar10-mini").first(400)
    >>> stream = midway.streams.pure(data, "gaussian_noise")
    >>> source = midway.evaluate(midway.Source(model), stream)
    >>> tent = midway.evaluate(midway.Tent(model), stream)
    >>> tent.accuracy > source.accuracy
    True
"""

import importlib
import logging
from types import ModuleType

from midway import cost, data, functional, methods, metrics, models, sampling, significance, streams, testing
from midway._version import __version__
from midway.adaptation.adapt import adapt
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.clustered import clustered
from midway.adaptation.classifier import AdaptiveClassifier
from midway.adaptation.samples import sample_images
from midway.bench import Result, evaluate
from midway.comparison import CompareResult, Recommendation, compare, recommend
from midway.data import corrupt
from midway.methods import _classes
from midway.methods._classes import *  # noqa: F403

__all__ = [
    "AdaptiveClassifier",
    "CompareResult",
    "Method",
    "Recommendation",
    "Result",
    "__version__",
    "adapt",
    "clustered",
    "compare",
    "corrupt",
    "cost",
    "data",
    "evaluate",
    "functional",
    "methods",
    "metrics",
    "models",
    "recommend",
    "sample_images",
    "sampling",
    "significance",
    "streams",
    "testing",
]
__all__ += _classes.__all__


def __getattr__(name: str) -> ModuleType:
    """Import ``midway.report``, ``midway.tune`` and ``midway.bench`` when they are first used."""
    if name in ("bench", "report", "tune"):
        return importlib.import_module(f"midway.{name}")
    raise AttributeError(f"module 'midway' has no attribute {name!r}")


logging.getLogger("midway").addHandler(logging.NullHandler())  # silent unless the program configures logging
