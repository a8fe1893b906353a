"""Class prototypes: the mean features of the images of each class."""

from __future__ import annotations

import torch
from torch import Tensor


def check_sources(images: Tensor | None, labels: Tensor | None, prototypes: Tensor | None) -> None:
    """Refuse source images, source labels and prototypes that do not go together or are not tensors."""
    if images is None and labels is not None:
        raise ValueError("source_labels without source_images: give both, or only the images.")
    for name, given in {"prototypes": prototypes, "source_labels": labels}.items():
        if given is not None and not isinstance(given, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(given).__name__}: use torch.as_tensor.")
    if images is not None and prototypes is not None:
        raise ValueError("give source_images or prototypes, not both.")


def class_means(features: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Return the mean features of the images of each class, (classes, width).

    Example:
        >>> import torch
        >>> from midway.adaptation.prototypes import class_means
        >>> class_means(torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([0, 0, 1]), 2)
        tensor([[2.],
                [5.]])
    """
    if labels.shape != (len(features),):
        raise ValueError(f"source_labels must be one label per image, got {tuple(labels.shape)}.")
    if not bool(((labels >= 0) & (labels < classes)).all()):
        raise ValueError(f"source_labels must be from 0 to {classes - 1}, got {labels.min()} to {labels.max()}.")
    if missing := set(range(classes)) - set(labels.tolist()):
        raise ValueError(f"source_images have no image of class {min(missing)}: give some of every class.")
    return torch.stack([features[labels.to(features.device) == label].mean(dim=0) for label in range(classes)])


def checked_prototypes(prototypes: Tensor, weights: Tensor) -> Tensor:
    """Return a copy of given prototypes, one for each row of the weights of a head."""
    if prototypes.shape != weights.shape:
        wanted, got = tuple(weights.shape), tuple(prototypes.shape)
        raise ValueError(f"prototypes must be of shape {wanted}, a row per class, got {got}.")
    prototypes = prototypes.detach().clone().to(weights)
    if not bool(prototypes.isfinite().all()):
        raise ValueError(f"prototypes contain NaN or Inf, or values too large for {prototypes.dtype}.")
    return prototypes
