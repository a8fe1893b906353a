"""Input normalisation as a layer: every model takes images in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Normalize(nn.Module):
    """Subtract a mean and divide by a positive standard deviation, one of each per channel, for images in [0, 1].

    The two vectors are constants of the architecture, not weights, and are not in the state dict: public checkpoints
    load without them.

    Example:
        >>> import torch
        >>> from midway.models import Normalize
        >>> Normalize([0.5], [0.25])(torch.full((1, 1, 1, 1), 0.75)).item()
        1.0
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if not (hasattr(mean, "__len__") and hasattr(std, "__len__")):
            raise TypeError(f"mean and std have one value per channel, such as (0.5,), got {mean!r} and {std!r}.")
        if any(value > 1 for value in mean):
            raise ValueError(f"mean is for images in [0, 1], got {tuple(mean)}: divide mean and std by 255.")
        if len(mean) != len(std):
            raise ValueError(f"mean has {len(mean)} channels and std has {len(std)}: give one value per channel.")
        if any(value <= 0 for value in std):
            raise ValueError(f"std must be positive in every channel, got {tuple(std)}.")
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).view(1, -1, 1, 1), persistent=False)
        self.mean: Tensor
        self.std: Tensor

    def forward(self, images: Tensor) -> Tensor:
        """Return the normalised images."""
        # A single channel would be broadcast.
        if images.ndim < 3 or images.shape[-3] != self.mean.numel():
            raise ValueError(f"expected {self.mean.numel()} channels, (N, C, H, W), got images {tuple(images.shape)}.")
        return (images - self.mean) / self.std

    def extra_repr(self) -> str:
        """Show the constants in ``repr(model)``."""
        return f"mean={self.mean.flatten().tolist()}, std={self.std.flatten().tolist()}"
