"""Selecting the images of a batch that a method learns from."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from midway.adaptation.base import Method
from midway.adaptation.batch_norm.statistics import uses_batch_statistics
from midway.adaptation.parameters import NORM_LAYERS, norm_layers
from midway.functional import entropy

WORTHWHILE = 0.4  # share of a batch up to which a second pass over the selected images is faster


def reliable(logits: Tensor, margin: float, measure: Callable[[Tensor], Tensor] = entropy) -> Tensor:
    """Return which images have an entropy, or another measure, below a share of ln C, H < margin ln C.

    The hyper-parameter is the share, not the entropy: 0.4 ln 1000 = 2.76 would select every image of a ten-class
    problem, whose largest entropy is ln 10 = 2.30.
    """
    return measure(logits) < margin * math.log(logits.shape[1])


def confident(logits: Tensor, threshold: float) -> Tensor:
    """Return which images have a class whose probability is above a threshold."""
    return logits.softmax(dim=1).amax(dim=1) > threshold


def certainty_weights(entropies: Tensor, margin: float, classes: int) -> Tensor:
    """Return exp(margin ln C - H), the weights by which EATA, DeYO and DELTA multiply the entropies, as constants.

    Example:
        >>> import torch
        >>> from midway.adaptation.selection import certainty_weights
        >>> certainty_weights(torch.tensor([1.0, 2.0]).log(), margin=0.5, classes=4)  # entropies of 0 and ln 2
        tensor([2., 1.])
    """
    return (margin * math.log(classes) - entropies.detach()).exp()


def pseudo_label_loss(logits: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """Return the mean cross-entropy of the confident predictions with their own top class, and which these are.

    Without confident predictions the loss is 0: a mean over no images would be NaN.

    Example:
        >>> import torch
        >>> from midway.adaptation.selection import pseudo_label_loss
        >>> logits = torch.tensor([[0.8, 0.2], [0.5, 0.5]]).log()
        >>> pseudo_label_loss(logits, threshold=0.6)  # -ln 0.8, of the first image alone
        (tensor(0.2231), tensor([ True, False]))
    """
    sure = confident(logits.detach(), threshold)
    trusted = logits[sure]
    return (cross_entropy(trusted, trusted.argmax(dim=1)) if sure.any() else logits.new_zeros(())), sure


def record_shares(method: Method, **selected: Tensor) -> None:
    """Record how many images each filter selected since the last reset, and their share of all images judged.

    A filter that selects everything or nothing has a margin that does not fit the problem.
    """
    method.count("judged", len(next(iter(selected.values()))))
    for name, mask in selected.items():
        total = method.records.get(name, 0) + int(mask.sum())
        method.record(**{name: total, f"{name}_share": total / method.records["judged"]})


def mixes_images(model: nn.Module) -> bool:
    """Return whether the logits of one image may depend on the others: with batch statistics or custom norm layers."""
    custom = any(not isinstance(layer, NORM_LAYERS) for _, layer in norm_layers(model))
    return custom or uses_batch_statistics(model)


def logits_to_learn_from(model: nn.Module, images: Tensor, logits: Tensor, selected: Tensor) -> Tensor:
    """Return the logits of the selected images, on the cheapest graph with the same gradients.

    If the images are independent (LayerNorm, GroupNorm) and few are selected, these pass through the network once more
    and the backward pass runs over them alone. With batch statistics the logits of the selected images depend on all
    images, and so does the gradient: the backward pass then needs the whole batch.
    """
    if selected.float().mean().item() > WORTHWHILE or mixes_images(model):
        return logits[selected]
    again: Tensor = model(images[selected])
    return again


def pass_of_selected(model: nn.Module, images: Tensor, selected: Tensor) -> Tensor:
    """Return the logits of the selected images from a pass over them alone, with their own batch statistics.

    A single image passes with the rest of its batch: it has no batch statistics, and BatchNorm1d layers refuse it.
    """
    single = int(selected.sum()) == 1
    logits: Tensor = model(images)[selected] if single else model(images[selected])
    return logits


def redundancy_margin(classes: int) -> float:
    """Return EATA's d: the cosine to the mean prediction from which a prediction is redundant.

    Published for 10, 100 and 1,000 classes: 0.4, 0.1, 0.05. Values in between are interpolated (both axes logarithmic).
    Outside, d follows 1 / sqrt(C), the cosine between a certain prediction and the uniform distribution: with a smaller
    d, no certain prediction is selected once the mean prediction is balanced.
    """
    published = [(10, 0.4), (100, 0.1), (1000, 0.05)]
    for known, d in published:
        if classes == known:
            return d
    for (low, d_low), (high, d_high) in pairwise(published):
        if low < classes < high:
            return float(d_low * (d_high / d_low) ** (math.log(classes / low) / math.log(high / low)))
    nearest, d = published[0] if classes < published[0][0] else published[-1]
    return d * math.sqrt(nearest / classes)
