"""Periodic: a method that returns to the source at regular intervals (RDumb, Press et al., NeurIPS 2023)."""

from __future__ import annotations

from torch import Tensor

from midway.adaptation.classifier import AdaptiveClassifier
from midway.adaptation.wrappers import Wrapper, register_wrapper


@register_wrapper
class Periodic(Wrapper):
    """Resets a method completely at regular intervals, so errors do not accumulate for longer.

    Weights, statistics, optimiser, moving averages and random state are reset; diagnostics continue, and ``resets`` is
    one of them. ``midway.RDumb`` is the published combination with ETA. Streams shorter than the interval are not
    affected: 15 times 10,000 images in batches of 200 are 750 batches.

    Args:
        method: The method to wrap. It is copied, never changed.
        every: Batches between two resets (the paper: 1,000).

    Example:
        >>> import midway, torch
        >>> adapted = midway.Periodic(midway.Tent(midway.models.create("resnet20")), every=2)
        >>> logits = [adapted(torch.rand(8, 3, 32, 32)) for _ in range(5)]
        >>> adapted.diagnostics["resets"]
        2
    """

    def __init__(self, method: AdaptiveClassifier, *, every: int = 1000) -> None:
        super().__init__(method)
        if every < 1:
            raise ValueError(f"every must be at least 1, got {every}.")
        self.every = every
        self.batches: int = self.add_state("batches", 0)

    @property
    def adapts_to(self) -> int | None:
        """All images: a method that adapts to the first ones starts again after each reset."""
        return None

    def step(self, images: Tensor) -> Tensor:
        """Reset if the interval is over, then adapt and predict."""
        if self.batches == self.every:
            self.method.reset(keep=("records", "resolved"))
            self.batches = 0
            self.count("resets")
        self.batches += 1
        return self.method.step(images)
