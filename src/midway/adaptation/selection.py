"""Which images of a batch a method trusts, and what it costs to learn from those alone."""

from __future__ import annotations

import math
from itertools import pairwise

from torch import Tensor, nn

from midway.adaptation.normalization import uses_batch_statistics
from midway.adaptation.parameters import NORM_LAYERS, norm_layers
from midway.functional import entropy

WORTHWHILE = 0.4  # share of a batch up to which a second pass over the chosen images beats going back through all


def reliable(logits: Tensor, margin: float) -> Tensor:
    """Tell which images have an entropy below a share of the largest there is, H < margin ln C.

    The share, not the entropy, is the setting: 0.4 ln 1000 = 2.76 would let every image of a ten-class problem pass,
    whose largest entropy is ln 10 = 2.30.

    Example:
        >>> import torch
        >>> from midway.adaptation.selection import reliable
        >>> reliable(torch.tensor([[9.0, 0.0, 0.0], [0.1, 0.0, 0.0]]), margin=0.4)
        tensor([ True, False])
    """
    return entropy(logits) < margin * math.log(logits.shape[1])


def confident(logits: Tensor, threshold: float) -> Tensor:
    """Tell which images have a class whose probability is above a threshold."""
    return logits.softmax(dim=1).amax(dim=1) > threshold


def note_shares(diagnostics: dict[str, float], judged: int, **passed: Tensor) -> None:
    """Note how many images passed each filter since the last reset, and their share of those judged.

    A filter that lets everything or nothing pass is no filter: a margin then does not fit the problem.

    Example:
        >>> import torch
        >>> from midway.adaptation.selection import note_shares
        >>> noted = {}
        >>> note_shares(noted, 4, selected=torch.tensor([True, False, False, False]))
        >>> note_shares(noted, 4, selected=torch.tensor([True, True, False, False]))
        >>> noted
        {'judged': 8, 'selected': 3, 'selected_share': 0.375}
    """
    diagnostics["judged"] = diagnostics.get("judged", 0) + judged
    for name, mask in passed.items():
        diagnostics[name] = diagnostics.get(name, 0) + int(mask.sum())
        diagnostics[f"{name}_share"] = diagnostics[name] / diagnostics["judged"]


def mixes_images(model: nn.Module) -> bool:
    """Tell whether the answer to one image may depend on the others in the batch.

    It does with batch statistics. A normalisation layer that is not torch's own is taken to use them as well.
    """
    homemade = any(not isinstance(layer, NORM_LAYERS) for _, layer in norm_layers(model))
    return homemade or uses_batch_statistics(model)


def logits_to_learn_from(model: nn.Module, images: Tensor, logits: Tensor, chosen: Tensor) -> Tensor:
    """Return the logits of the chosen images, on the cheapest graph that gives the same gradients.

    Where every image is answered by itself (LayerNorm, GroupNorm) and few are chosen, these few go through the network
    once more and the backward pass runs over them alone. With batch statistics the chosen images' logits depend on all
    images, and so does the gradient: the backward pass then needs the whole batch.

    Args:
        model: The network.
        images: The whole batch.
        logits: Its logits, with their graph.
        chosen: A mask over the batch.
    """
    if chosen.float().mean().item() > WORTHWHILE or mixes_images(model):
        return logits[chosen]
    again: Tensor = model(images[chosen])
    return again


def redundancy_margin(classes: int) -> float:
    """Return EATA's d: how like the mean prediction, in cosine, a prediction may be before it counts as redundant.

    Published for 10, 100 and 1,000 classes: 0.4, 0.1, 0.05. In between it is interpolated (both axes logarithmic).
    Outside it follows 1 / sqrt(C), the cosine between a certain answer and the uniform distribution: with a d below
    that, no certain answer passes once the mean prediction is balanced.

    Example:
        >>> from midway.adaptation.selection import redundancy_margin
        >>> [round(redundancy_margin(classes), 3) for classes in (4, 10, 100, 200, 1000)]
        [0.632, 0.4, 0.1, 0.081, 0.05]
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
