"""The score of ``midway.recommend``: candidates in pairs, compared on the images that they predict differently."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from midway.adaptation.registry import STATISTICS, find
from midway.bench.entries import Entry


@dataclass(frozen=True)
class Predicted:
    """The predicted classes of one candidate.

    Attributes:
        images: int64 (N,), for the images.
        mirrored: int64 (N,), for the mirrored images.
        family: The statistics that it normalises with; see ``family``.
    """

    images: Tensor
    mirrored: Tensor
    family: str


def family(entry: Entry) -> str:
    """Return the statistics that a method normalises with: methods with the same statistics predict alike.

    Example:
        >>> from midway.bench.entries import parse_entries
        >>> [family(entry) for entry in parse_entries("lame,tent,bn,bn(statistics='clustered')")]
        ['source', 'batch', 'batch', 'clustered']
    """
    own = "batch" if "batch statistics" in find(entry.name).about.needs else "source"
    return str(entry.settings.get(STATISTICS) or own)


def evidence(candidates: Mapping[str, Predicted], classes: int, collapsed: Collection[str] = ()) -> dict[str, Tensor]:
    """Return what each image adds to each candidate's score, (N,) by label; the mean over images is the score.

    On the images D that two candidates predict differently, ``shared_information`` measures how stable the predictions
    of each are if the images are mirrored, and how diverse. A candidate's gain over the other is the difference times
    the share of D among all images, in percent of ln C. The score is the mean gain over the candidates of a family
    (``family``), averaged over families: ten methods on batch statistics count as much as one.

    The information of D is the sum of one term per image: minus the logarithm of the share of its prediction, plus the
    logarithm of the share of stable or of changed predictions, minus ln(C - 1) for a changed one. It is homogeneous in
    the counts, so this term is also the influence of the image, and the deviation of the differences between two
    candidates gives the standard error of the difference of their scores.

    Args:
        candidates: Predicted classes by label, all for the same images.
        classes: Number of classes C, at least 2.
        collapsed: Labels of candidates that others are not compared with.

    Example:
        >>> import torch
        >>> stable, unstable = torch.tensor([0, 1, 0, 1]), torch.tensor([1, 0, 0, 1])
        >>> a = Predicted(stable, stable, "source")
        >>> b = Predicted(unstable, stable, "batch")
        >>> {label: image.mean().item() for label, image in evidence({"a": a, "b": b}, 2).items()}
        {'a': 25.0, 'b': -25.0}
    """
    compared = Counter(each.family for label, each in candidates.items() if label not in collapsed)
    values = {label: torch.zeros(len(each.images), dtype=torch.float64) for label, each in candidates.items()}
    for label, each in candidates.items():
        for other, opponent in candidates.items():
            differ = each.images != opponent.images
            if other in collapsed or not differ.any():
                continue
            gain = _terms(each, differ, classes) - _terms(opponent, differ, classes)
            values[label][differ] += gain / (len(compared) * compared[opponent.family])
    return values


def standard_error(first: Tensor, second: Tensor) -> float:
    """Return the standard error of the difference of two scores from the evidence of each image."""
    return ((first - second).std(correction=0) / math.sqrt(len(first))).item()


def _terms(candidate: Predicted, chosen: Tensor, classes: int) -> Tensor:
    """Return the terms of the information of chosen images, in percent of ln C; see ``evidence``."""
    predicted = candidate.images[chosen]
    changed = predicted != candidate.mirrored[chosen]
    shares = torch.bincount(predicted, minlength=classes).double() / len(predicted)
    e = changed.double().mean()
    if e > 1 - 1 / classes:  # more changes than by chance: as by chance, as in ``shared_information``
        stability = torch.full_like(e, -math.log(classes)).expand(len(predicted))
    else:
        stability = torch.where(changed, e.log() - math.log(classes - 1), (1 - e).log())
    return 100 * (stability - shares[predicted].log()) / math.log(classes)
