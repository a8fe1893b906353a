"""Run methods over streams and keep what comes out."""

from midway.bench.comparison import Comparison
from midway.bench.evaluate import Result, evaluate

__all__ = ["Comparison", "Result", "evaluate"]
