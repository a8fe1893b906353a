"""A network of many classes as a network of some of them, for data sets with a part of its classes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from midway.adaptation.head import head_of
from midway.models import SelectLogits, logits_of


def select_classes(model: nn.Module, indices: Sequence[int], *, or_just_these: bool = False) -> nn.Module:
    """Return a copy of a network that has only some of its classes.

    The logits are chosen before the softmax, so probabilities, entropies and ln C are those of the chosen classes. If a
    linear layer computes the logits, it keeps the rows of these classes, and methods that need the head find it.

    Args:
        model: A classifier, for example of the 1,000 ImageNet classes; it is not changed.
        indices: The classes to keep, in the order of the new labels.
        or_just_these: Do not change a network that has just as many classes, and not all of the indices: it was trained
            on these classes.

    Example:
        >>> import midway, torch
        >>> from midway.adaptation.class_subset import select_classes
        >>> network, images = midway.models.create("resnet20").eval(), torch.rand(2, 3, 32, 32)
        >>> torch.allclose(select_classes(network, [7, 2])(images), network(images)[:, [7, 2]], atol=1e-6)
        True
    """
    if not indices or len(set(indices)) < len(indices) or min(indices) < 0:
        raise ValueError("indices must be one or more different classes, from 0 on.")
    model = copy.deepcopy(model)
    try:
        name, head = head_of(model)
    except ValueError:
        return _SelectIfMore(model, indices) if or_just_these else SelectLogits(model, indices)
    if max(indices) >= head.out_features:
        if or_just_these and head.out_features == len(indices):
            return model
        raise ValueError(f"the model has {head.out_features} classes, so there is no class {max(indices)}.")
    chosen = nn.Linear(head.in_features, len(indices), bias=head.bias is not None).to(head.weight)
    rows = torch.tensor(list(indices), device=head.weight.device)
    with torch.no_grad():
        chosen.weight.copy_(head.weight[rows])
        if head.bias is not None:
            chosen.bias.copy_(head.bias[rows])
    parent, _, key = name.rpartition(".")
    if not name:  # the network is its head
        return chosen.train(head.training)
    setattr(model.get_submodule(parent), key, chosen.train(head.training))
    return model


class _SelectIfMore(SelectLogits):
    """``SelectLogits`` for a network whose number of logits is known only when it runs."""

    def forward(self, images: Any) -> Tensor:
        """Return the chosen logits, or all if there are just as many."""
        logits = logits_of(self.model(images))
        just_these = len(self.indices) == logits.shape[-1] <= int(self.indices.max())
        return logits if just_these else self.chosen(logits)
