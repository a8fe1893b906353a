"""Scenarios: which images arrive when, and from which distribution."""

from midway.streams.batch import Batch, Stream, to_tensor
from midway.streams.scenarios import mixture, outlier, pure

__all__ = ["Batch", "Stream", "mixture", "outlier", "pure", "to_tensor"]
