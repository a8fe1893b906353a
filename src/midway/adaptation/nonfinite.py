"""What happens if a prediction contains NaN or Inf: an error, or the prediction of the network as given."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from midway.adaptation.batch_norm.replaced_statistics import observers_of
from midway.adaptation.copies import in_evaluation_mode, independent_copy, without_parallel
from midway.functional import at_least_float32
from midway.models.outputs import logits_of


class NonFiniteError(ValueError):
    """The prediction for a batch contains NaN or Inf; the state is as before the batch."""


class Fallback:
    """A copy of a network as given, which predicts in place of a method; neither state nor a submodule of it."""

    def __init__(self, model: nn.Module, memory_format: torch.memory_format) -> None:
        self.network = in_evaluation_mode(independent_copy(without_parallel(model), memory_format))
        self.network.requires_grad_(False)
        for observer in observers_of(self.network):  # it predicts with what it knows as given, and learns nothing
            observer.managed = True

    @torch.no_grad()
    def logits(self, images: Tensor, memory_format: torch.memory_format) -> Tensor:
        """Return the logits of images in a layout, at least float32."""
        self.network.to(memory_format=memory_format)  # type: ignore[call-overload]
        return at_least_float32(logits_of(self.network(images.clone())))
