"""Scores without labels: how far a method departs from the source, how certain and how consistent it is."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from midway.functional import entropy
from midway.metrics.registry import Predictions, metric


@metric("changed", unit="%", needs="logits")
def changed(predictions: Predictions) -> float | None:
    """Percentage of predictions that differ from those of the source; neither high nor low is better in itself."""
    if predictions.source is None:
        return None
    return 100 * (predictions.predicted != predictions.source.argmax(dim=1)).double().mean().item()


@metric("mean entropy", better="lower", digits=3, needs="logits")
def mean_entropy(predictions: Predictions) -> float:
    """Mean entropy of the predicted distributions in nats; a network that has collapsed to one class has a low one."""
    return entropy(predictions.logits.double()).mean().item()


@metric("classes used", digits=1, needs="logits")
def classes_used(predictions: Predictions) -> float:
    """Number of equally frequent classes in predictions as diverse as these: e to the entropy of the shares.

    A number near 1 is a collapse: nearly all images get one prediction.
    """
    return math.exp(_class_entropy(predictions.predicted, predictions.logits.shape[1]))


@metric("mirror agreement", unit="%", better="higher", needs="logits")
def mirror_agreement(predictions: Predictions) -> float | None:
    """Percentage of predictions that stay the same if all images are mirrored."""
    if predictions.mirrored is None:
        return None
    return 100 * (predictions.predicted == predictions.mirrored.argmax(dim=1)).double().mean().item()


@metric("information", unit="%", better="higher", needs="logits")
def mirror_information(predictions: Predictions) -> float | None:
    """What a prediction and that for the mirrored image tell of each other, at least; see ``shared_information``."""
    classes = predictions.logits.shape[1]
    if predictions.mirrored is None or classes < 2:
        return None
    return shared_information(predictions.predicted, predictions.mirrored.argmax(dim=1), classes)


@metric("late classes", unit="%", digits=0, needs="logits")
def late_classes(predictions: Predictions) -> float | None:
    """Number of classes used for the last quarter of the images, as a percentage of the source's for the same images.

    A method that collapses does so after some batches, so the whole stream may still look diverse. Few classes alone
    are no collapse: the images may be of few classes, which the source then tells.
    """
    if predictions.source is None:
        return None
    classes, start = predictions.logits.shape[1], 3 * len(predictions.logits) // 4
    own = _class_entropy(predictions.predicted[start:], classes)
    return 100 * math.exp(own - _class_entropy(predictions.source[start:].argmax(dim=1), classes))


def shared_information(predictions: Tensor, others: Tensor, classes: int) -> float:
    """Return what two predictions for the same images tell of each other, at least, as a percentage of ln C.

    With the entropy H of the shares of classes among ``predictions`` and the share e of images with two different
    predictions, the mutual information of both is at least H - h(e) - e ln(C - 1) (Fano's inequality; h is the entropy
    of a coin with probability e). 100 are equal predictions, with all classes equally often. Predictions of one class
    have at most 0, those at random less than 0.

    Args:
        predictions: int64 (N,), the predicted classes.
        others: int64 (N,), other predictions for the same images.
        classes: Number of classes C, at least 2.

    Example:
        >>> import torch
        >>> shared_information(torch.tensor([0, 1, 0, 1]), torch.tensor([0, 1, 0, 1]), 2)
        100.0
    """
    e = (predictions != others).double().mean().item()
    e = min(e, 1 - 1 / classes)  # the bound would rise again for predictions that differ more often than by chance
    uncertainty = sum(-share * math.log(share) for share in (e, 1 - e) if share > 0) + e * math.log(classes - 1)
    return 100 * (_class_entropy(predictions, classes) - uncertainty) / math.log(classes)


def _class_entropy(predictions: Tensor, classes: int) -> float:
    """Return the entropy of the shares of classes among predictions, in nats."""
    shares = torch.bincount(predictions, minlength=classes).double() / len(predictions)
    return entropy(shares.log().unsqueeze(0)).item()
