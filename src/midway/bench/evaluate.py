"""Run one method over one stream and say how it did."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from midway.methods import Method, Source
from midway.metrics import accuracy, accuracy_by_group, calibration_error, negative_log_likelihood
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
        negative_log_likelihood: Mean surprise at the true class, in nats.
        calibration_error: Expected calibration error in percent.
        cost: What one batch costs, the fields of ``midway.cost.Cost``; empty where it was not measured.
        seed: Of the stream and of the method, where a plan says so.
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
    negative_log_likelihood: float | None = None
    calibration_error: float | None = None
    cost: dict[str, float | None] = field(default_factory=dict)
    seed: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Result:
        """Take a result back from plain values."""
        return cls(**(content | {"batch_accuracies": tuple(content["batch_accuracies"])}))


@dataclass(frozen=True)
class Answers:
    """Everything a method answered on a stream, beside what is true.

    Attributes:
        logits: float32 (N, classes), in the order of the stream.
        labels: int64 (N,).
        group: int64 (N,), the place of each image's group in the stream's groups.
        batch_accuracies: In percent, batch by batch.
        batch_seconds: Time of adapting and answering, batch by batch.
    """

    logits: Tensor
    labels: Tensor
    group: Tensor
    batch_accuracies: tuple[float, ...]
    batch_seconds: tuple[float, ...]


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
    return judge(method, stream, answer(method, stream, on_batch=on_batch), label=label)


def answer(
    method: Method,
    stream: Stream,
    *,
    on_batch: Callable[[float], None] | None = None,
    around_first: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Answers:
    """Show a stream to a method in its present state and keep every answer.

    Args:
        method: The method.
        stream: The batches.
        on_batch: Called after every batch with the accuracy so far.
        around_first: Makes a context for answering the first batch, to count what it costs.
    """
    device = next((p.device for p in method.parameters()), torch.device("cpu"))
    logits, labels, groups, accuracies, seconds = [], [], [], [], []
    right = seen = 0
    for batch in stream:
        images = batch.images.to(device)
        with nullcontext() if seen else around_first():
            started = time.perf_counter()
            answered = method(images).cpu()
            seconds.append(time.perf_counter() - started)
        logits.append(answered)
        labels.append(batch.labels)
        groups.append(batch.group)
        predicted = answered.argmax(dim=1)
        accuracies.append(accuracy(predicted, batch.labels))
        right += int((predicted == batch.labels).sum())
        seen += len(batch)
        if on_batch is not None:
            on_batch(100 * right / seen)
    return Answers(torch.cat(logits), torch.cat(labels), torch.cat(groups), tuple(accuracies), tuple(seconds))


def judge(method: Method, stream: Stream, answers: Answers, *, label: str | None = None) -> Result:
    """Say how good a method's answers on a stream are."""
    predictions = answers.logits.argmax(dim=1)
    counts = answers.group.bincount(minlength=len(stream.groups)).tolist()
    return Result(
        method=method.about.name,
        label=label or method.about.name,
        hyperparameters=json.loads(json.dumps(method.hyperparameters, default=repr)),
        stream=stream.name,
        images=len(answers.labels),
        accuracy=accuracy(predictions, answers.labels),
        by_group=accuracy_by_group(predictions, answers.labels, answers.group, stream.groups),
        images_by_group=dict(zip(stream.groups, counts, strict=True)),
        batch_accuracies=answers.batch_accuracies,
        seconds_per_batch=fmean(answers.batch_seconds),
        diagnostics=dict(method.diagnostics),
        negative_log_likelihood=negative_log_likelihood(answers.logits, answers.labels),
        calibration_error=calibration_error(answers.logits, answers.labels),
    )
