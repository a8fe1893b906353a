"""Run one method over one stream and say how it did."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import nn

from midway.methods import Method, Source
from midway.metrics import accuracy, accuracy_by_group
from midway.streams import Stream


@dataclass(frozen=True)
class Result:
    """What came out of one method on one stream. Accuracies are in percent.

    Attributes:
        method: Name of the method.
        label: What tables call it; tells two settings of one method apart.
        hyperparameters: Its settings, as plain values.
        stream: Name of the stream.
        images: Number of images answered.
        accuracy: On all images.
        by_group: On the images of each group.
        images_by_group: How many images each group has.
        batch_accuracies: On each batch, in order.
        seconds_per_batch: Mean time of adapting to and answering a batch (making the batch is not counted).
        diagnostics: What the method noted, at the end.
    """

    method: str
    label: str
    hyperparameters: dict[str, Any]
    stream: str
    images: int
    accuracy: float
    by_group: dict[str, float]
    images_by_group: dict[str, int]
    batch_accuracies: tuple[float, ...]
    seconds_per_batch: float
    diagnostics: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Result:
        """Take a result back from plain values."""
        return cls(**(content | {"batch_accuracies": tuple(content["batch_accuracies"])}))


def evaluate(
    method: Method | nn.Module,
    stream: Stream,
    *,
    label: str | None = None,
    reset: bool = True,
    on_batch: Callable[[float], None] | None = None,
) -> Result:
    """Show a stream to a method, batch by batch, and compare its answers with the labels.

    Args:
        method: A method; a plain classifier is measured as it is (as ``Source``).
        stream: The batches.
        label: What tables call this entry; the method's name if left out.
        reset: Start from the source. False continues from the method's present state (continual adaptation).
        on_batch: Called after every batch with the accuracy so far, for progress bars.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(200)
        >>> result = midway.evaluate(midway.models.load("wrn16_2.cifar10"), midway.streams.pure(data, "clean"))
        >>> result.accuracy > 90, result.images, list(result.by_group)
        (True, 200, ['clean'])
    """
    if not isinstance(method, Method):
        method = Source(method)
    if reset:
        method.reset()
    device = next((p.device for p in method.parameters()), torch.device("cpu"))
    predictions, labels, groups, batch_accuracies = [], [], [], []
    seconds = 0.0
    for batch in stream:
        images = batch.images.to(device)
        started = time.perf_counter()
        predicted = method(images).argmax(dim=1).cpu()
        seconds += time.perf_counter() - started
        predictions.append(predicted)
        labels.append(batch.labels)
        groups.append(batch.group)
        batch_accuracies.append(accuracy(predicted, batch.labels))
        if on_batch is not None:
            on_batch(accuracy(torch.cat(predictions), torch.cat(labels)))
    all_predictions, all_labels, all_groups = torch.cat(predictions), torch.cat(labels), torch.cat(groups)
    counts = all_groups.bincount(minlength=len(stream.groups)).tolist()
    return Result(
        method=method.about.name,
        label=label or method.about.name,
        hyperparameters=json.loads(json.dumps(method.hyperparameters, default=repr)),
        stream=stream.name,
        images=len(all_labels),
        accuracy=accuracy(all_predictions, all_labels),
        by_group=accuracy_by_group(all_predictions, all_labels, all_groups, stream.groups),
        images_by_group=dict(zip(stream.groups, counts, strict=True)),
        batch_accuracies=tuple(batch_accuracies),
        seconds_per_batch=seconds / len(stream),
        diagnostics=dict(method.diagnostics),
    )
