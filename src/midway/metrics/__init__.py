"""Metrics: what is measured of a method on a stream, each registered under its name."""

from midway.metrics.classification import (
    accuracy,
    average_accuracy,
    calibration_error,
    mean_corruption_error,
    negative_log_likelihood,
)
from midway.metrics.registry import METRICS, Heading, Metric, Predictions, compute, metric

__all__ = [
    "METRICS",
    "Heading",
    "Metric",
    "Predictions",
    "accuracy",
    "average_accuracy",
    "calibration_error",
    "compute",
    "mean_corruption_error",
    "metric",
    "negative_log_likelihood",
]
