"""Guarded: a method that collapses returns to its last good state."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from midway.adaptation.batch_norm.replaced_statistics import checkpoint_during_batch
from midway.adaptation.classifier import AdaptiveClassifier
from midway.adaptation.wrappers import Wrapper, register_wrapper
from midway.functional import entropy

SAME_CLASSES = 0.25  # two histograms count as equal if they differ in at most this share of the images


@register_wrapper
class Guarded(Wrapper):
    """Detects a collapse of a method from its predictions, and restores the last good state.

    Predictions are suspicious if they are not finite, if they contain too few classes, or if their mean entropy is
    close to 0 or to its maximum. A batch may have such predictions for a good reason (all its images are of one class),
    so the last good state predicts a suspicious batch too. Few classes are a collapse only if that state predicts other
    classes, and an extreme entropy only if that state's is not extreme. The good state is then restored, and its
    network predicts the batch without adapting to it. ``diagnostics`` counts ``rollbacks`` and their reasons.

    A state is good once it has predicted a batch without suspicion; the source is good at the start. A suspicious batch
    costs one more forward pass.

    Args:
        method: The method to wrap. It is copied, never changed.
        min_diversity: Smallest effective number of classes among the predictions of a batch (exp of the entropy of the
            class histogram), as a share of all classes, or of the images if they are fewer.
        entropy_range: Smallest and largest mean entropy of a batch, as shares of ln C.

    Example:
        >>> import midway, torch
        >>> adapted = midway.Guarded(midway.Tent(midway.models.create("resnet20"), lr=10.0))
        >>> logits = [adapted(torch.rand(32, 3, 32, 32)) for _ in range(3)]
        >>> adapted.diagnostics["rollbacks"] > 0
        True
    """

    def __init__(
        self,
        method: AdaptiveClassifier,
        *,
        min_diversity: float = 0.6,
        entropy_range: tuple[float, float] = (0.001, 0.99),
    ) -> None:
        super().__init__(method)
        if not 0 <= min_diversity <= 1:
            raise ValueError(f"min_diversity must be a share of the classes from 0 to 1, got {min_diversity}.")
        if not 0 <= entropy_range[0] < entropy_range[1] <= 1:
            raise ValueError(f"entropy_range must be two shares of ln C, the smaller one first, got {entropy_range}.")
        self.min_diversity, self.entropy_range = min_diversity, entropy_range
        self.good: dict[str, Any] = self.add_state("good", self.method.snapshot())

    @property
    def adapts_to(self) -> int | None:
        """The number of images that the inner method adapts to."""
        return self.method.adapts_to

    def step(self, images: Tensor) -> Tensor:
        """Let the method predict; on a collapse, restore the last good state and predict with that."""
        before = self.method.snapshot()
        logits = self.method.step(images)
        now = _Summary.of(logits.detach().float())
        suspicions = self._suspicions(now)
        if not suspicions:
            self.good = before  # most methods predict before they update, so only this state is proven
            return logits
        go_back = checkpoint_during_batch(self.method)
        self.method.restore(self.good)
        good_logits = self.network_logits(images)
        reasons = self._collapse(suspicions, now, _Summary.of(good_logits.float()))
        if not reasons:  # the batch is unusual, not the state
            go_back()
            return logits
        for event in ("rollbacks", *(f"rollbacks_{reason}" for reason in reasons)):
            self.count(event)
        return good_logits

    def _suspicions(self, summary: _Summary) -> list[str]:
        """Return the signs of a collapse in a batch of predictions."""
        if not summary.finite:
            return ["not_finite"]
        lowest, highest = self.entropy_range
        few_classes = summary.diversity < self.min_diversity
        out_of_range = not lowest <= summary.entropy <= highest
        return ["few_classes"] * few_classes + ["entropy"] * out_of_range

    def _collapse(self, suspicions: list[str], now: _Summary, good: _Summary) -> list[str]:
        """Return the signs that the last good state does not show on the same images."""
        difference = 0.5 * (now.histogram - good.histogram).abs().sum().item()
        # Histograms are compared, not diversities: those of two similar states may lie on both sides of the limit.
        shared = ["few_classes"] * (difference <= SAME_CLASSES)
        shared += [sign for sign in self._suspicions(good) if sign != "few_classes"]
        return [sign for sign in suspicions if sign not in shared]


class _Summary(NamedTuple):
    """Statistics of a batch of predictions."""

    finite: bool
    histogram: Tensor  # share of each class
    diversity: float  # effective number of classes, relative to its maximum
    entropy: float  # mean entropy, relative to its maximum

    @classmethod
    def of(cls, logits: Tensor) -> _Summary:
        classes = logits.shape[1]
        histogram = logits.argmax(dim=1).bincount(minlength=classes) / len(logits)
        diversity = math.exp(-torch.xlogy(histogram, histogram).sum().item()) / min(logits.shape)
        mean_entropy = entropy(logits).mean().item() / math.log(max(classes, 2))
        return cls(bool(logits.isfinite().all()), histogram, diversity, mean_entropy)
