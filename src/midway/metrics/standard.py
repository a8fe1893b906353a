"""The metrics of every run: accuracy, calibration, and what a batch costs."""

from __future__ import annotations

from statistics import fmean

from midway.metrics import classification
from midway.metrics.registry import Predictions, metric


@metric("accuracy", unit="%", better="higher", digits=1, by_group=True)
def accuracy(predictions: Predictions) -> float:
    """Percentage of correct predictions."""
    return classification.accuracy(predictions.predicted, predictions.labels)


@metric("NLL", better="lower", digits=2, by_group=True)
def nll(predictions: Predictions) -> float:
    """Mean negative log-likelihood of the true class."""
    return classification.negative_log_likelihood(predictions.logits, predictions.labels)


@metric("calibration error", unit="%", better="lower", digits=1, by_group=True)
def calibration_error(predictions: Predictions) -> float:
    """Expected calibration error over 15 bins."""
    return classification.calibration_error(predictions.logits, predictions.labels)


@metric("seconds per batch", better="lower", digits=2, repeatable=False, needs="cost")
def seconds_per_batch(predictions: Predictions) -> float | None:
    """Mean seconds of a batch.

    The first batch is left out, as counting operations slows it down, unless it takes several times as long as the
    others: then the method does its work in the first batch, as DUA does.
    """
    times = predictions.batch_seconds
    others = times[1:]
    if not times:
        return None
    return fmean(others if predictions.cost and others and times[0] < 3 * fmean(others) else times)


@metric("GFLOPs per image", better="lower", digits=2, needs="cost")
def gflops(predictions: Predictions) -> float | None:
    """Billions of floating-point operations an image, backward passes included."""
    total, images = predictions.cost.get("flops_total"), predictions.cost.get("images")
    return None if total is None or not images else total / images / 1e9


@metric("GFLOPs per image, forward", better="lower", digits=2, needs="cost")
def gflops_forward(predictions: Predictions) -> float | None:
    """Billions of floating-point operations an image in forward passes."""
    total, images = predictions.cost.get("flops_forward"), predictions.cost.get("images")
    return None if total is None or not images else total / images / 1e9


@metric("forward passes", better="lower", digits=2, needs="cost")
def forward_passes(predictions: Predictions) -> float | None:
    """Images sent through a network for each image of the batch."""
    return predictions.cost.get("forward_passes")


@metric("backward passes", better="lower", digits=2, needs="cost")
def backward_passes(predictions: Predictions) -> float | None:
    """Images whose gradient comes back through a network for each image of the batch."""
    return predictions.cost.get("backward_passes")


@metric("parameters", digits=0, needs="cost")
def parameters(predictions: Predictions) -> float | None:
    """Number of weights in all networks of the method."""
    return predictions.cost.get("parameters")


@metric("trainable parameters", digits=0, needs="cost")
def trainable_parameters(predictions: Predictions) -> float | None:
    """Number of weights that adapt by gradient descent."""
    return predictions.cost.get("trainable_parameters")


@metric("peak memory", unit="MB", better="lower", digits=0, repeatable=False, needs="cost")
def peak_memory_mb(predictions: Predictions) -> float | None:
    """Peak memory of a batch beyond what was in use before it."""
    return predictions.cost.get("peak_memory_mb")
