"""The logits in what networks return: tensors, objects with ``.logits``, dictionaries, tuples; and of one logit two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

LOGITS = "logits"
"""The name of the logits among the outputs of Hugging Face's image classifiers and of torchvision's Inception."""


def logits_of(output: Any) -> Any:
    """Return the logits in the output of a classifier; an output of another form is returned as it is.

    The logits are the output itself if it is a tensor; else its attribute or key ``logits``; the only tensor of a
    dictionary; or the first entry of a tuple or a list.

    Example:
        >>> import torch
        >>> from midway.models import logits_of
        >>> logits_of({"logits": torch.zeros(2, 10), "hidden": torch.zeros(2, 64)}).shape
        torch.Size([2, 10])
        >>> logits_of((torch.zeros(2, 10), torch.zeros(2, 64))).shape
        torch.Size([2, 10])
    """
    if isinstance(output, Tensor):
        return output
    candidates = [getattr(output, LOGITS, None)]
    if isinstance(output, Mapping):
        tensors = [value for value in output.values() if isinstance(value, Tensor)]
        candidates += [output.get(LOGITS), *(tensors if len(tensors) == 1 else [])]
    elif isinstance(output, tuple | list):
        candidates += output[:1]
    return next((each for each in candidates if isinstance(each, Tensor)), output)


def return_logits(network: nn.Module, inputs: Any, output: Any) -> Any:
    """Replace the output of a network by its logits; a forward hook."""
    return logits_of(output)


class TwoLogits(nn.Module):
    """Turns the single logit z of a binary classifier into the two logits -z / 2 and z / 2.

    The softmax of the two is the sigmoid of z: class 1 is the one that z is for.

    Example:
        >>> import torch
        >>> from midway.models import TwoLogits
        >>> binary = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 1), TwoLogits())
        >>> binary(torch.rand(4, 3, 2, 2)).shape
        torch.Size([4, 2])
    """

    def forward(self, output: Any) -> Tensor:
        """Return the two logits (N, 2) of a logit (N, 1) or (N,), or of an output that contains it."""
        logit = logits_of(output)
        if not isinstance(logit, Tensor) or logit.ndim not in (1, 2) or logit.shape[1:] not in ((), (1,)):
            shown = tuple(logit.shape) if isinstance(logit, Tensor) else type(logit).__name__
            raise ValueError(f"TwoLogits expects one logit per image, (N, 1) or (N,), got {shown}.")
        half = logit.reshape(-1) / 2
        return torch.stack([-half, half], dim=1)
