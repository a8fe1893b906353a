"""Show a stream to a method and measure its predictions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor

from midway.adaptation.classifier import AdaptiveClassifier
from midway.adaptation.parameters import first_weight
from midway.bench.record import Result
from midway.data import class_lists
from midway.data.image_set import UNLABELLED
from midway.metrics import Predictions, compute
from midway.streams import Batch


class AnyStream(Protocol):
    """What is known of a stream, or of another source of batches."""

    @property
    def name(self) -> str:
        """Its name in messages."""

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups."""

    @property
    def folder_classes(self) -> int | None:
        """Number of class folders if it is unknown which logits they are."""

    def __iter__(self) -> Iterator[Batch]: ...


def predict(
    method: AdaptiveClassifier,
    stream: AnyStream,
    *,
    on_batch: Callable[[float], None] | None = None,
    around_first: Callable[[], AbstractContextManager[object]] = nullcontext,
    mirrored: bool = False,
) -> Predictions:
    """Show a stream to a method in its present state and return every prediction.

    ``on_batch`` gets the accuracy so far after every batch (NaN without labels); ``around_first`` is entered for the
    first batch. With ``mirrored`` each batch is also predicted mirrored, from the same state as the batch itself.
    """
    like = first_weight(method, torch.empty(0))
    logits, labels, groups, seconds, mirror = [], [], [], [], []
    correct = seen = 0
    for batch in stream:
        images = batch.images.to(like)
        if mirrored:
            mirror.append(_predict_mirrored(method, images))
        with nullcontext() if seen else around_first():
            started = time.perf_counter()
            predicted = method(images).cpu()
            seconds.append(time.perf_counter() - started)
        _check_labels(stream, batch.labels, predicted.shape[1])
        logits.append(predicted)
        labels.append(batch.labels)
        groups.append(batch.group)
        correct += int((predicted.argmax(dim=1) == batch.labels).sum())
        seen += len(batch)
        if on_batch is not None:
            on_batch(100 * correct / seen if (batch.labels >= 0).any() else float("nan"))
    if not logits:
        raise ValueError(
            f"{stream.name} has no batches: give a stream, a list of batches or a DataLoader "
            "(a generator is exhausted after one method)."
        )
    sizes = tuple(map(len, labels))
    return Predictions(
        torch.cat(logits),
        torch.cat(labels),
        torch.cat(groups),
        tuple(seconds),
        batch_sizes=sizes,
        mirrored=torch.cat(mirror) if mirror else None,
    )


def _predict_mirrored(method: AdaptiveClassifier, images: Tensor) -> Tensor:
    """Return the logits of the images flipped from left to right; the method is unchanged afterwards."""
    before = method.snapshot()
    try:
        logits: Tensor = method(images.flip(-1)).cpu()
        return logits
    finally:
        method.restore(before)


def _check_labels(stream: AnyStream, labels: Tensor, classes: int) -> None:
    """Refuse labels that are not those of the logits; images without labels have -1."""
    lowest, highest = int(labels.min()), int(labels.max())
    if lowest == highest == UNLABELLED:
        return
    if lowest < 0 or highest >= classes:
        raise ValueError(
            f"{stream.name} has label {lowest if lowest < 0 else highest}, but the network has {classes} classes, 0 to "
            f"{classes - 1}: give it data of its own classes."
        )
    if stream.folder_classes is not None and stream.folder_classes < classes:
        raise ValueError(
            f"{stream.name} has {stream.folder_classes} class folders and the network {classes} logits, so it is "
            f"unknown which logit each class is: give classes=, the names of all {classes} classes in the order of "
            "logits, the index of each folder's class, name=index for each, a file with them, or one of "
            f"{', '.join(class_lists())}."
        )


def measure(method: AdaptiveClassifier, stream: AnyStream, predictions: Predictions) -> Result:
    """Compute all metrics of a method's predictions for a stream, for the whole stream and for each of its groups."""
    groups: dict[str, dict[str, float]] = {}
    for index, group in enumerate(stream.groups):
        chosen = predictions.of_group(index)
        groups[group] = {"images": len(chosen.labels)} | compute(chosen, of_group=True)
    correct = (
        (predictions.predicted == predictions.labels).split(predictions.batch_sizes) if predictions.labelled else ()
    )
    return Result(
        metrics=compute(predictions),
        groups=groups,
        batch_accuracies=tuple([100 * batch.sum().item() / len(batch) for batch in correct]),
        diagnostics={name: value for name, value in method.diagnostics.items() if isinstance(value, int | float)},
        hyperparameters=json.loads(json.dumps(method.hyperparameters, default=repr)),
    )
