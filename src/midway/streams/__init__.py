"""Scenarios: which images arrive when, and from which distribution."""

from midway.streams.batch import Batch, Stream, to_tensor
from midway.streams.build import build
from midway.streams.over_time import continual, dirichlet, gradual, recurring
from midway.streams.scenario import Scenario, expand, ratio_sweep
from midway.streams.scenarios import mixture, outlier, pure

__all__ = [
    "Batch",
    "Scenario",
    "Stream",
    "build",
    "continual",
    "dirichlet",
    "expand",
    "gradual",
    "mixture",
    "outlier",
    "pure",
    "ratio_sweep",
    "recurring",
    "to_tensor",
]
