"""Guarded: a method that collapses goes back to where it was well."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from midway.adaptation.base import Method
from midway.adaptation.wrappers import Wrapper
from midway.functional import entropy

SAME_CLASSES = 0.25  # two histograms that differ in no more than this share of the images count as the same


class Guarded(Wrapper):
    """Watches the answers of a method for a collapse, and rolls it back to the last state that answered well.

    Answers are suspect if they are not finite, if they name too few classes, or if their mean entropy is next to
    nothing or next to the largest there is. A batch may be like that by itself (all its images are of one class), so a
    suspect batch is shown to the last good state too: only what that state does not show, or shows for other classes,
    is a collapse. The method is then rolled back, and the batch is answered by the network of the good state without
    adapting to it. ``diagnostics`` counts ``rollbacks`` and why they happened.

    A state is good once it has answered a batch without suspicion; the source is, to begin with. It is kept as a copy
    of what moves, not of the whole network. A suspect batch costs one more forward pass.

    Args:
        method: The method to wrap. It is copied, never changed.
        min_diversity: Smallest number of classes among the answers to a batch, as a share of all classes (or of the
            images, if they are fewer). Classes count by how even they are: exp of the entropy of their histogram.
        entropy_range: Smallest and largest mean entropy of a batch, as shares of ln C.

    Example:
        >>> import midway, torch
        >>> adapted = midway.Guarded(midway.Tent(midway.models.create("resnet20"), lr=10.0))
        >>> answers = [adapted(torch.rand(32, 3, 32, 32)) for _ in range(3)]
        >>> adapted.diagnostics["rollbacks"] > 0
        True
    """

    evolving = ("good",)

    def __init__(
        self, method: Method, *, min_diversity: float = 0.6, entropy_range: tuple[float, float] = (0.001, 0.99)
    ) -> None:
        super().__init__(method)
        if not 0 <= min_diversity <= 1:
            raise ValueError(f"min_diversity must be a share of the classes from 0 to 1, got {min_diversity}.")
        if not 0 <= entropy_range[0] < entropy_range[1] <= 1:
            raise ValueError(f"entropy_range must be two shares of ln C, the smaller one first, got {entropy_range}.")
        self.min_diversity, self.entropy_range = min_diversity, entropy_range
        self.good: dict[str, Any] = self.method.snapshot()

    @property
    def adapts_to(self) -> int | None:
        """As many images as the method within."""
        return self.method.adapts_to

    def step(self, images: Tensor) -> Tensor:
        """Let the method answer; if that looks like a collapse and not so in the last good state, go back to it."""
        before = self.method.snapshot()
        logits = self.method.step(images)
        now = _Look.at(logits.detach().float())
        suspect = self._suspect(now)
        if not suspect:
            self.good = before  # only now known to be good: the answers of many methods precede their update
            return logits
        after = self.method.snapshot()
        self.method.restore(self.good)
        with torch.no_grad():
            logits_then: Tensor = self.model(images)
        reasons = self._collapse(suspect, now, _Look.at(logits_then.float()))
        if not reasons:  # it is the batch
            self.method.restore(after)
            return logits
        for event in ("rollbacks", *(f"rollbacks_{reason}" for reason in reasons)):
            self.count(event)
        return logits_then

    def _suspect(self, look: _Look) -> list[str]:
        """Name what speaks for a collapse in a batch of answers."""
        if not look.finite:
            return ["not_finite"]
        lowest, highest = self.entropy_range
        few_classes = look.diversity < self.min_diversity
        out_of_range = not lowest <= look.entropy <= highest
        return ["few_classes"] * few_classes + ["entropy"] * out_of_range

    def _collapse(self, suspect: list[str], now: _Look, then: _Look) -> list[str]:
        """Name what the last good state does not show on the same images."""
        moved = 0.5 * (now.histogram - then.histogram).abs().sum().item()
        shown = [reason for reason in self._suspect(then) if reason != "few_classes" or moved <= SAME_CLASSES]
        return [reason for reason in suspect if reason not in shown]


class _Look(NamedTuple):
    """What a batch of answers looks like from afar."""

    finite: bool
    histogram: Tensor  # share of each class
    diversity: float  # effective number of classes, of the largest there can be
    entropy: float  # mean entropy, of the largest there can be

    @classmethod
    def at(cls, logits: Tensor) -> _Look:
        classes = logits.shape[1]
        histogram = logits.argmax(dim=1).bincount(minlength=classes) / len(logits)
        diversity = math.exp(-torch.xlogy(histogram, histogram).sum().item()) / min(logits.shape)
        mean_entropy = entropy(logits).mean().item() / math.log(max(classes, 2))
        return cls(bool(logits.isfinite().all()), histogram, diversity, mean_entropy)
