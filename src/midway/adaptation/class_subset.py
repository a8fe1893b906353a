"""A network of many classes as a network of some of them, for data sets with a part of its classes."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import nn

from midway.adaptation.head import head_of
from midway.adaptation.problem import IMAGENET_SIZE
from midway.models import SelectLogits


def select_classes(model: nn.Module, indices: Sequence[int]) -> nn.Module:
    """Return a copy of a network that has only some of its classes.

    The logits are chosen before the softmax, so probabilities, entropies and ln C are those of the chosen classes. If a
    linear layer computes the logits, it keeps the rows of these classes, and methods that need the head find it.

    Args:
        model: A classifier, for example of the 1,000 ImageNet classes; it is not changed.
        indices: The classes to keep, in the order of the new labels.

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
        return SelectLogits(model, indices)
    if max(indices) >= head.out_features:
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


def of_imagenet_classes(model: nn.Module, indices: Sequence[int]) -> nn.Module:
    """Return a network of the 1,000 ImageNet classes with the chosen ones; a network of another size as it is."""
    try:
        outputs = head_of(model)[1].out_features
    except ValueError:
        return model
    return select_classes(model, indices) if outputs == IMAGENET_SIZE.classes else model
