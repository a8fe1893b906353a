"""``midway.evaluate``: the predictions of a method for any source of images, measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from midway.adaptation.classifier import AdaptiveClassifier
from midway.adaptation.parameters import first_weight
from midway.adaptation.registry import find
from midway.bench.batches import as_stream
from midway.bench.measure import AnyStream, measure, predict
from midway.bench.record import Result
from midway.bench.resources import limit_classes
from midway.data.class_lists import Classes
from midway.data.loaders.imagenet_variants import is_imagenet_subset


def evaluate(
    method: AdaptiveClassifier | nn.Module,
    stream: Any,
    *,
    reset: bool = True,
    images: int | None = None,
    classes: Classes | None = None,
    size: int | None = None,
    on_batch: Callable[[float], None] | None = None,
) -> Result:
    """Show a stream to a method, batch by batch, and measure its predictions.

    Args:
        method: A method; a plain classifier is evaluated without adaptation (as ``Source``).
        stream: A stream, or what ``midway.compare`` takes as data: a torch DataLoader, arrays, a folder, a data set, a
            generator. Images are (N, C, H, W) in [0, 1], or bytes. Without labels the result has no accuracy.
        reset: Start from the source. False continues from the method's present state (continual adaptation).
        images: Stop after this many images, for long or endless sources. None for all.
        classes: Which logit each class folder is, for a folder of images; see ``midway.data.load``.
        size: Side in pixels to which images in files are resized and cropped, for a folder or the name of a data set.
        on_batch: Called after every batch with the accuracy so far, for progress bars; NaN without labels.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(200)
        >>> result = midway.evaluate(midway.models.load("wrn16_2.cifar10"), midway.streams.pure(data, "clean"))
        >>> result.accuracy > 90, result.images, list(result.by_group)
        (True, 200, ['clean'])
    """
    shown, logits = as_stream(stream, images=images, classes=classes, size=size)
    if not isinstance(method, AdaptiveClassifier):
        method = find("source")(method if logits is None else limit_classes(method, logits))
    elif logits is not None and not _has_just(logits, method, shown):
        raise ValueError(
            "the classes are some of the network's: adapt the network limited to them, "
            "midway.models.SelectLogits(model, data.logits), and evaluate it on midway.streams.pure(data, 'clean')."
        )
    if reset:
        method.reset()
    return measure(method, shown, predict(method, shown, on_batch=on_batch))


def _has_just(logits: tuple[int, ...], method: AdaptiveClassifier, shown: AnyStream) -> bool:
    """Return whether the network of a method was trained on just these classes of ImageNet."""
    images = next(iter(shown)).images[:2].to(first_weight(method, torch.empty(0)))
    return is_imagenet_subset(logits) and method.network_logits(images).shape[1] == len(logits)
