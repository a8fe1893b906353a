"""A network limited to some of its classes, as the subsets of ImageNet require."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from midway.models.outputs import logits_of


class SelectLogits(nn.Module):
    """A classifier that returns some of its logits: entropy, margins and predictions are those of these classes.

    Args:
        model: The classifier.
        indices: The logits to return, in this order.

    Example:
        >>> import torch, midway
        >>> network = midway.models.SelectLogits(torch.nn.Flatten(), [4, 0])
        >>> network(torch.arange(6.0).view(1, 3, 1, 2))
        tensor([[4., 0.]])
    """

    def __init__(self, model: nn.Module, indices: Sequence[int]) -> None:
        super().__init__()
        if len(indices) < 2 or min(indices) < 0:
            raise ValueError(f"indices must be those of two or more logits, got {list(indices)[:5]}.")
        self.model = model
        self.register_buffer("indices", torch.tensor(list(indices)), persistent=False)
        self.indices: Tensor

    def forward(self, images: Any) -> Tensor:
        """Return the chosen logits."""
        return self.chosen(logits_of(self.model(images)))

    def chosen(self, logits: Tensor) -> Tensor:
        """Return some of these logits."""
        if int(self.indices.max()) >= logits.shape[-1]:
            raise ValueError(f"there is no logit {int(self.indices.max())}: the network has {logits.shape[-1]} logits.")
        chosen: Tensor = logits[..., self.indices]
        return chosen
