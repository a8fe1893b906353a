"""Source: the network as it was trained, the measure of every method."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from midway.adaptation.base import About, Method


class Source(Method):
    """Nothing adapts: evaluation mode, source statistics.

    Example:
        >>> import midway, torch
        >>> model = midway.models.create("resnet20")
        >>> midway.Source(model)(torch.rand(4, 3, 32, 32)).shape
        torch.Size([4, 10])
    """

    about = About(
        name="source",
        title="Source",
        colour="#6e6e6e",
        marker="o",
        paper="-",
        paradigm="none",
        moves="nothing",
        answers="-",
        passes="1 F",
        uses_other_images=False,
    )

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)

    def step(self, images: Tensor) -> Tensor:
        """Answer f(x)."""
        with torch.no_grad():
            logits: Tensor = self.model(images)
        return logits
