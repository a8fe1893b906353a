"""Scenarios (recipes) and the streams of batches that they build."""

from midway.streams.correlated import correlated, dirichlet, mixed_correlated, practical
from midway.streams.over_time import continual, gradual, mixed, random_order, recurring, shuffled
from midway.streams.parsing import Scenario, Shifted, build, expand
from midway.streams.registry import SEVERITY, scenario
from midway.streams.scenarios import labels_of, mixture, outlier, pure, source_of
from midway.streams.stream import Batch, Data, Stream, to_tensor
from midway.streams.unequal import imbalanced, long_tailed

__all__ = [
    "SEVERITY",
    "Batch",
    "Data",
    "Scenario",
    "Shifted",
    "Stream",
    "build",
    "continual",
    "correlated",
    "dirichlet",
    "expand",
    "gradual",
    "imbalanced",
    "labels_of",
    "long_tailed",
    "mixed",
    "mixed_correlated",
    "mixture",
    "outlier",
    "practical",
    "pure",
    "random_order",
    "recurring",
    "scenario",
    "shuffled",
    "source_of",
    "to_tensor",
]
