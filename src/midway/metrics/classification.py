"""Accuracy, likelihood and calibration from predictions and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import torch.nn.functional as F
from torch import Tensor


def accuracy(predictions: Tensor, labels: Tensor) -> float:
    """Return the percentage of predicted classes (N,) that equal the labels (N,); NaN if there are none.

    Example:
        >>> import midway, torch
        >>> midway.metrics.accuracy(torch.tensor([1, 2, 3, 4]), torch.tensor([1, 2, 3, 0]))
        75.0
    """
    if predictions.shape != labels.shape:
        raise ValueError(f"{tuple(predictions.shape)} predictions for {tuple(labels.shape)} labels.")
    if labels.numel() == 0:
        return float("nan")
    return 100 * (predictions == labels).sum().item() / labels.numel()


def negative_log_likelihood(logits: Tensor, labels: Tensor) -> float:
    """Return the mean of -ln p(label) from logits or log-probabilities (N, C); NaN if there are no images.

    Example:
        >>> import midway, torch
        >>> round(midway.metrics.negative_log_likelihood(torch.zeros(3, 4), torch.tensor([0, 1, 3])), 4)  # ln 4
        1.3863
    """
    _check_logits(logits, labels)
    return F.cross_entropy(logits.double(), labels).item() if len(labels) else float("nan")


def calibration_error(logits: Tensor, labels: Tensor, *, bins: int = 15) -> float:
    """Return the expected calibration error in percent (Guo et al., ICML 2017); NaN if there are no images.

    The images are sorted by the probability of their predicted class into bins of equal width, whose upper edges
    belong to them. The distance between mean confidence and accuracy of a bin counts by its share of the images.

    Example:
        >>> import midway, torch
        >>> midway.metrics.calibration_error(torch.zeros(4, 2), torch.tensor([0, 0, 0, 1]))  # right in 3 of 4
        25.0
    """
    _check_logits(logits, labels)
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}.")
    if not len(labels):
        return float("nan")
    confidence, predictions = logits.double().softmax(dim=1).max(dim=1)
    excess = confidence - (predictions == labels).double()
    index = (confidence * bins).ceil().long().clamp(1, bins) - 1
    gaps = excess.new_zeros(bins).index_add(0, index, excess)  # images in a bin x (confidence - accuracy)
    return 100 * gaps.abs().sum().item() / len(labels)


def average_accuracy(accuracies: Mapping[str, Sequence[float]]) -> float:
    """Return the mean of accuracies in percent, corruption -> one for each severity, over both.

    Example:
        >>> from midway.metrics import average_accuracy
        >>> average_accuracy({"fog": [90.0, 70.0], "snow": [60.0, 40.0]})
        65.0
    """
    _check_severities(accuracies)
    return fmean(fmean(row) for row in accuracies.values())


def mean_corruption_error(accuracies: Mapping[str, Sequence[float]], source: Mapping[str, Sequence[float]]) -> float:
    """Return the error relative to that of the unadapted source, in percent: 100 is no better than Source.

    For each corruption the error summed over severities is divided by the source's; the mean over corruptions is the
    mCE as the MITA paper reports it. Both arguments are accuracies in percent, corruption -> one for each severity.

    Example:
        >>> from midway.metrics import mean_corruption_error
        >>> mean_corruption_error({"fog": [90.0], "snow": [60.0]}, source={"fog": [80.0], "snow": [60.0]})
        75.0
    """
    _check_severities(accuracies)
    if accuracies.keys() != source.keys():
        differing = ", ".join(sorted(accuracies.keys() ^ source.keys()))
        raise ValueError(f"both need the same corruptions, only one has: {differing}.")
    ratios = []
    for corruption, row in accuracies.items():
        if len(row) != len(source[corruption]):
            raise ValueError(f"{corruption}: {len(row)} severities, but {len(source[corruption])} of the source.")
        if not (least := sum(100 - value for value in source[corruption])):
            raise ValueError(f"{corruption}: the source makes no error, nothing can be relative to it; leave it out.")
        ratios.append(sum(100 - value for value in row) / least)
    return 100 * fmean(ratios)


def _check_logits(logits: Tensor, labels: Tensor) -> None:
    if logits.ndim != 2 or labels.shape != logits.shape[:1]:
        raise ValueError(f"logits must be (N, C) and labels (N,), got {tuple(logits.shape)} and {tuple(labels.shape)}.")


def _check_severities(accuracies: Mapping[str, Sequence[float]]) -> None:
    if not accuracies or len({len(row) for row in accuracies.values()} | {0}) != 2:
        counts = {corruption: len(row) for corruption, row in accuracies.items()}
        raise ValueError(f"every corruption needs the same number of severities, at least one, got {counts}.")
