"""How many steps a method takes on a batch, and when it answers."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

Predict = Literal["before", "after"]


def check_protocol(steps: int, predict: Predict) -> None:
    """Refuse fewer steps than one and an answer that is neither from before nor from after the last of them."""
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}.")
    if predict not in ("before", "after"):
        raise ValueError(f"predict must be 'before' or 'after', got {predict!r}.")


def answer(model: nn.Module, images: Tensor, logits: Tensor, predict: Predict) -> Tensor:
    """Return the logits from before the last step, or pay one more pass for those from after it."""
    if predict == "before":
        return logits
    with torch.no_grad():
        after: Tensor = model(images)
    return after
