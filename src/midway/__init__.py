"""Midway: test-time adaptation for any PyTorch classifier.

A trained classifier meets shifted test data, and both move until they meet in the middle.

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

from midway import cost, data, functional, methods, metrics, models, sampling, significance, streams, testing
from midway._version import __version__
from midway.bench import Result, evaluate
from midway.data import corrupt
from midway.methods import (
    BN,
    DUA,
    EATA,
    LAME,
    MEMO,
    MITA,
    PL,
    SAR,
    SHOT,
    T3A,
    TEA,
    Episodic,
    Guarded,
    Method,
    Source,
    Tent,
    adapt,
    kindred,
)
from midway.sampling import sample_images

__all__ = [
    "BN",
    "DUA",
    "EATA",
    "LAME",
    "MEMO",
    "MITA",
    "PL",
    "SAR",
    "SHOT",
    "T3A",
    "TEA",
    "Episodic",
    "Guarded",
    "Method",
    "Result",
    "Source",
    "Tent",
    "__version__",
    "adapt",
    "corrupt",
    "cost",
    "data",
    "evaluate",
    "functional",
    "kindred",
    "methods",
    "metrics",
    "models",
    "sample_images",
    "sampling",
    "significance",
    "streams",
    "testing",
]
