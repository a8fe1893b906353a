"""Scores of answers without labels: how far a method departs from the source, how certain and how consistent it is."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from midway._registry import Registry
from midway.functional import entropy
from midway.metrics.registry import Answers, Better, Metric

SCORES: Registry[Metric] = Registry("score", group="scores", package="midway.metrics")
"""Every label-free score by name, in the order of registration."""

ScoreFunction = Callable[[Answers], float | None]


def score(
    title: str, *, unit: str = "", better: Better = None, digits: int = 1
) -> Callable[[ScoreFunction], ScoreFunction]:
    """Register a function from answers to a number as a label-free score under the function's name; see ``Metric``.

    The function must not use ``answers.labels``, and returns None where it does not apply. ``midway.compare`` computes
    every score for data without labels.

    Example:
        >>> import torch
        >>> from midway.metrics import SCORES, Answers, score
        >>> @score("confidence", unit="%", better="higher")
        ... def mean_confidence(answers):
        ...     return 100 * answers.logits.softmax(dim=1).amax(dim=1).mean().item()
        >>> SCORES["mean_confidence"].compute(Answers(torch.zeros(3, 2), torch.full((3,), -1), torch.zeros(3)))
        50.0
        >>> SCORES.remove("mean_confidence")
    """

    def register(function: ScoreFunction) -> ScoreFunction:
        name = function.__name__.lstrip("_")
        SCORES.add(name, Metric(name, title, function, unit, better, digits))
        return function

    return register


def compute_scores(answers: Answers) -> dict[str, float]:
    """Compute every label-free score that applies.

    Example:
        >>> import midway, torch
        >>> logits = torch.tensor([[9.0, 0.0], [0.0, 9.0]])
        >>> answers = midway.metrics.Answers(logits, torch.full((2,), -1), torch.zeros(2), source=logits.flip(0))
        >>> midway.metrics.compute_scores(answers)["changed"]
        100.0
    """
    values = {each.name: each.compute(answers) for each in SCORES.values()}
    return {name: value for name, value in values.items() if value is not None}


@score("changed", unit="%")
def changed(answers: Answers) -> float | None:
    """Percentage of answers that differ from those of the source; neither high nor low is better in itself."""
    if answers.source is None:
        return None
    return 100 * (answers.predictions != answers.source.argmax(dim=1)).double().mean().item()


@score("mean entropy", better="lower", digits=3)
def mean_entropy(answers: Answers) -> float:
    """Mean entropy of the predicted distributions in nats; a network that has collapsed to one class has a low one."""
    return entropy(answers.logits.double()).mean().item()


@score("classes used", digits=1)
def classes_used(answers: Answers) -> float:
    """Number of classes that would be equally frequent in answers as diverse as these: e to the entropy of the shares.

    A number near 1 is a collapse: nearly all images get one answer.
    """
    return math.exp(_class_entropy(answers.predictions, answers.logits.shape[1]))


@score("mirror agreement", unit="%", better="higher")
def mirror_agreement(answers: Answers) -> float | None:
    """Percentage of answers that stay the same if all images are mirrored."""
    if answers.mirrored is None:
        return None
    return 100 * (answers.predictions == answers.mirrored.argmax(dim=1)).double().mean().item()


@score("information", unit="%", better="higher")
def mirror_information(answers: Answers) -> float | None:
    """What an answer and the answer to the mirrored image tell of each other, at least; see ``shared_information``."""
    classes = answers.logits.shape[1]
    if answers.mirrored is None or classes < 2:
        return None
    return shared_information(answers.predictions, answers.mirrored.argmax(dim=1), classes)


@score("late classes", unit="%", digits=0)
def late_classes(answers: Answers) -> float | None:
    """Number of classes used for the last quarter of the images, as a percentage of the source's for the same images.

    A method that collapses does so after some batches, so the whole stream may still look diverse. Few classes alone
    are no collapse: the images may be of few classes, which the source then tells.
    """
    if answers.source is None:
        return None
    classes, start = answers.logits.shape[1], 3 * len(answers.logits) // 4
    own = _class_entropy(answers.predictions[start:], classes)
    return 100 * math.exp(own - _class_entropy(answers.source[start:].argmax(dim=1), classes))


def shared_information(predictions: Tensor, others: Tensor, classes: int) -> float:
    """Return what two answers to the same images tell of each other, at least, as a percentage of ln C.

    With the entropy H of the shares of classes among ``predictions`` and the share e of images with two different
    answers, the mutual information of both is at least H - h(e) - e ln(C - 1) (Fano's inequality; h is the entropy of
    a coin with probability e). 100 are equal answers, with all classes equally often. Answers of one class have at most
    0, answers at random less than 0.

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
    e = min(e, 1 - 1 / classes)  # the bound would rise again for answers that differ more often than by chance
    uncertainty = sum(-share * math.log(share) for share in (e, 1 - e) if share > 0) + e * math.log(classes - 1)
    return 100 * (_class_entropy(predictions, classes) - uncertainty) / math.log(classes)


def _class_entropy(predictions: Tensor, classes: int) -> float:
    """Return the entropy of the shares of classes among answers, in nats."""
    shares = torch.bincount(predictions, minlength=classes).double() / len(predictions)
    return entropy(shares.log().unsqueeze(0)).item()
