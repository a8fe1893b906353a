"""The score that ``midway.recommend`` ranks by: information shared with mirrored answers, a method's own and others'."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from torch import Tensor

from midway.adaptation.registry import STATISTICS, find
from midway.bench.entries import Entry
from midway.metrics.label_free import shared_information


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
    """Return the statistics that a method normalises with: methods with the same statistics make similar errors.

    Example:
        >>> from midway.bench.entries import parse_entries
        >>> [family(entry) for entry in parse_entries("lame,tent,bn,bn(statistics='clustered')")]
        ['source', 'batch', 'batch', 'clustered']
    """
    own = "batch" if "batch statistics" in find(entry.name).about.needs else "source"
    return str(entry.settings.get(STATISTICS) or own)


def information(candidates: Mapping[str, Predicted], classes: int, collapsed: Collection[str] = ()) -> dict[str, float]:
    """Return the score of every candidate by its label, as a percentage of ln C.

    The score is the mean of two values. The first is the information that the answers of a candidate share with its own
    answers to the mirrored images. The second is the information that they share with mirrored answers of the other
    families: each family has one reference, the candidate with the highest first value that has not collapsed, and the
    second value is the mean over references, weighted by their first value. Negative values count as 0 there. Errors
    that an image and its mirror image have in common raise the first value and not the second.

    Args:
        candidates: Predicted classes by label, all for the same images.
        classes: Number of classes C.
        collapsed: Labels of candidates that are no references.

    Example:
        >>> import torch
        >>> right, wrong = torch.tensor([0, 1, 0, 1]), torch.tensor([0, 1, 1, 0])
        >>> candidates = {"a": Predicted(right, right, "source"), "b": Predicted(wrong, right, "batch")}
        >>> information(candidates, 2)
        {'a': 100.0, 'b': 0.0}
    """
    own = {label: shared_information(each.images, each.mirrored, classes) for label, each in candidates.items()}
    references: dict[str, str] = {}
    for label, each in candidates.items():
        known = references.get(each.family)
        if label not in collapsed and own[label] > 0 and (known is None or own[label] > own[known]):
            references[each.family] = label
    weight = sum(own[label] for label in references.values())
    scores = {}
    for label, each in candidates.items():
        shared = [
            own[other] * max(0.0, shared_information(each.images, candidates[other].mirrored, classes))
            for other in references.values()
        ]
        scores[label] = (own[label] + (sum(shared) / weight if references else 0.0)) / 2
    return scores
