"""How good answers are, from predictions and labels alone."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def accuracy(predictions: Tensor, labels: Tensor) -> float:
    """Percentage of predictions that are right; NaN if there are none.

    Args:
        predictions: Predicted classes, (N,).
        labels: True classes, (N,).

    Example:
        >>> import torch
        >>> from midway.metrics import accuracy
        >>> accuracy(torch.tensor([1, 2, 3, 4]), torch.tensor([1, 2, 3, 0]))
        75.0
    """
    if predictions.shape != labels.shape:
        raise ValueError(f"{tuple(predictions.shape)} predictions for {tuple(labels.shape)} labels.")
    if labels.numel() == 0:
        return float("nan")
    return 100 * (predictions == labels).sum().item() / labels.numel()


def accuracy_by_group(predictions: Tensor, labels: Tensor, group: Tensor, names: Sequence[str]) -> dict[str, float]:
    """Percentage right within each group, by the group's name.

    Example:
        >>> import torch
        >>> from midway.metrics import accuracy_by_group
        >>> accuracy_by_group(torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([0, 1]), ["a", "b"])
        {'a': 100.0, 'b': 0.0}
    """
    return {name: accuracy(predictions[group == number], labels[group == number]) for number, name in enumerate(names)}
