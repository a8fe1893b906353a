"""Metrics: what is measured of a method on a stream, each registered under its name."""

from midway.metrics.classification import (
    accuracy,
    average_accuracy,
    calibration_error,
    mean_corruption_error,
    negative_log_likelihood,
)
from midway.metrics.label_free import SCORES, compute_scores, score
from midway.metrics.registry import METRICS, Answers, Metric, compute, metric

__all__ = [
    "METRICS",
    "SCORES",
    "Answers",
    "Metric",
    "accuracy",
    "average_accuracy",
    "calibration_error",
    "compute",
    "compute_scores",
    "mean_corruption_error",
    "metric",
    "negative_log_likelihood",
    "score",
]
