"""Source: the network as it was trained, the baseline of every method."""

from __future__ import annotations

from torch import Tensor

from midway.adaptation.about import About
from midway.adaptation.base import Method
from midway.adaptation.registry import register


@register
class Source(Method):
    """Predicts with the unadapted network, in evaluation mode and with the source's statistics.

    Example:
        >>> import midway, torch
        >>> midway.Source(midway.models.create("resnet20"))(torch.rand(4, 3, 32, 32)).shape
        torch.Size([4, 10])
    """

    about = About(
        name="source",
        title="Source",
        colour="#6e6e6e",
        marker="o",
        paper="-",
        paradigm="none",
        adapts="nothing",
        predicts="-",
        passes="1 F",
        uses_other_images=False,
        accepts_signals=True,
    )

    def step(self, images: Tensor) -> Tensor:
        """Return f(x)."""
        return self.network_logits(images)
