"""The metrics of every run: accuracy, calibration, what a batch costs, and the means over streams."""

from __future__ import annotations

from statistics import fmean

from midway.metrics import classification
from midway.metrics.registry import Answers, metric


@metric("accuracy", unit="%", better="higher", digits=1, by_group=True)
def accuracy(answers: Answers) -> float:
    """Percentage of correct predictions."""
    return classification.accuracy(answers.predictions, answers.labels)


@metric("NLL", better="lower", digits=2, by_group=True)
def nll(answers: Answers) -> float:
    """Mean negative log-likelihood of the true class."""
    return classification.negative_log_likelihood(answers.logits, answers.labels)


@metric("calibration error", unit="%", better="lower", digits=1, by_group=True)
def calibration_error(answers: Answers) -> float:
    """Expected calibration error over 15 bins."""
    return classification.calibration_error(answers.logits, answers.labels)


@metric("seconds per batch", better="lower", digits=2, repeatable=False, needs_labels=False)
def seconds_per_batch(answers: Answers) -> float | None:
    """Mean seconds of a batch.

    The first batch is left out, as counting operations slows it down, unless it takes several times as long as the
    others: then the method does its work in the first batch, as DUA does.
    """
    times = answers.batch_seconds
    others = times[1:]
    if not times:
        return None
    return fmean(others if answers.cost and others and times[0] < 3 * fmean(others) else times)


@metric("GFLOPs per image", better="lower", digits=2, needs_labels=False)
def gflops(answers: Answers) -> float | None:
    """Billions of floating-point operations an image, backward passes included."""
    total, images = answers.cost.get("flops_total"), answers.cost.get("images")
    return None if total is None or not images else total / images / 1e9


@metric("GFLOPs per image, forward", better="lower", digits=2, needs_labels=False)
def gflops_forward(answers: Answers) -> float | None:
    """Billions of floating-point operations an image in forward passes."""
    total, images = answers.cost.get("flops_forward"), answers.cost.get("images")
    return None if total is None or not images else total / images / 1e9


@metric("forward passes", better="lower", digits=2, needs_labels=False)
def forward_passes(answers: Answers) -> float | None:
    """Images sent through a network for each image of the batch."""
    return answers.cost.get("forward_passes")


@metric("backward passes", better="lower", digits=2, needs_labels=False)
def backward_passes(answers: Answers) -> float | None:
    """Images whose gradient comes back through a network for each image of the batch."""
    return answers.cost.get("backward_passes")


@metric("parameters", digits=0, needs_labels=False)
def parameters(answers: Answers) -> float | None:
    """Number of weights in all networks of the method."""
    return answers.cost.get("parameters")


@metric("trainable parameters", digits=0, needs_labels=False)
def trainable_parameters(answers: Answers) -> float | None:
    """Number of weights that adapt by gradient descent."""
    return answers.cost.get("trainable_parameters")


@metric("peak memory", unit="MB", better="lower", digits=0, repeatable=False, needs_labels=False)
def peak_memory_mb(answers: Answers) -> float | None:
    """Peak memory of a batch beyond what was in use before it."""
    return answers.cost.get("peak_memory_mb")


# Tables compute these from the accuracies of several streams.


@metric("mean accuracy", unit="%", better="higher", digits=2)
def mean_accuracy(answers: Answers) -> None:
    """Mean accuracy over corruptions and severities; see ``midway.metrics.average_accuracy``."""


@metric("mean error", unit="%", better="lower", digits=2)
def mean_error(answers: Answers) -> None:
    """Percentage of wrong predictions, averaged over several streams."""


@metric("mCE", unit="%", better="lower", digits=2)
def mce(answers: Answers) -> None:
    """Mean corruption error relative to Source; see ``midway.metrics.mean_corruption_error``."""
