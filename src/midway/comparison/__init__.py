"""Compare methods on the same images, with labels or without."""

from midway.comparison.result import CompareResult
from midway.comparison.run import compare

__all__ = ["CompareResult", "compare"]
