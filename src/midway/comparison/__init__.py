"""Compare methods on the same images, with labels or without, and recommend one."""

from midway.comparison.recommend import Candidate, Recommendation, recommend
from midway.comparison.result import CompareResult
from midway.comparison.run import compare

__all__ = ["Candidate", "CompareResult", "Recommendation", "compare", "recommend"]
