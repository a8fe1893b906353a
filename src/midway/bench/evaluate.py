"""Run one method over one stream and say how it did."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from midway.adaptation.base import Method
from midway.adaptation.parameters import first_weight
from midway.methods.source import Source
from midway.metrics import accuracy, accuracy_by_group, calibration_error, negative_log_likelihood
from midway.streams import Batch, Stream


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

    @property
    def is_unadapted(self) -> bool:
        """Whether this is the network as it came, by which all others are measured."""
        return self.method == "source" and self.hyperparameters.get("statistics") is None

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


class Batches(Protocol):
    """What is shown to a method: batches, the names of their groups, and a name of its own."""

    @property
    def name(self) -> str:
        """What tables call it."""

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups."""

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches in order."""


class _Pairs:
    """Pairs of images and labels as batches of one group."""

    name = "stream"
    groups = ("images",)

    def __init__(self, pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
        self.pairs = pairs

    def __iter__(self) -> Iterator[Batch]:
        for pair in self.pairs:
            if not (isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(t, Tensor) for t in pair)):
                raise TypeError(
                    "the stream must give pairs of tensors, images and labels, as a torch DataLoader over such pairs "
                    f"does, or be a midway stream; got {type(pair).__name__}."
                )
            images, labels = pair
            if images.ndim == 3 and labels.ndim == 0:
                raise ValueError("the stream gives single images: put a torch DataLoader around the data set.")
            if labels.is_floating_point() and not labels.equal(labels.round()):
                raise ValueError("labels must be whole numbers, 0 for the first class; these are not.")
            yield Batch(images, labels.cpu().long(), torch.zeros(len(labels), dtype=torch.int64))


def evaluate(
    method: Method | nn.Module,
    stream: Stream | Iterable[tuple[Tensor, Tensor]],
    *,
    label: str | None = None,
    reset: bool = True,
    on_batch: Callable[[float], None] | None = None,
) -> Result:
    """Show a stream to a method, batch by batch, and compare its answers with the labels.

    Args:
        method: A method; a plain classifier is measured as it is (as ``Source``).
        stream: The batches: a stream, or anything that gives pairs of images in [0, 1], (N, C, H, W), and labels, such
            as a torch DataLoader.
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
    shown: Batches = stream if isinstance(stream, Stream) else _Pairs(stream)
    if reset:
        method.reset()
    return judge(method, shown, answer(method, shown, on_batch=on_batch), label=label)


def answer(
    method: Method,
    stream: Batches,
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
    like = first_weight(method, torch.empty(0))
    logits, labels, groups, accuracies, seconds = [], [], [], [], []
    right = seen = 0
    for batch in stream:
        images = batch.images.to(like)
        with nullcontext() if seen else around_first():
            started = time.perf_counter()
            answered = method(images).cpu()
            seconds.append(time.perf_counter() - started)
        classes, lowest, highest = answered.shape[1], int(batch.labels.min()), int(batch.labels.max())
        if lowest < 0 or highest >= classes:
            wrong = lowest if lowest < 0 else highest
            raise ValueError(
                f"{stream.name} has label {wrong}, but the network knows {classes} classes, 0 to {classes - 1}: "
                "give it data of its own classes."
            )
        logits.append(answered)
        labels.append(batch.labels)
        groups.append(batch.group)
        predicted = answered.argmax(dim=1)
        accuracies.append(accuracy(predicted, batch.labels))
        right += int((predicted == batch.labels).sum())
        seen += len(batch)
        if on_batch is not None:
            on_batch(100 * right / seen)
    if not logits:
        raise ValueError(
            f"{stream.name} gave no batch: give images, as a stream, a list of pairs or a DataLoader "
            "(a generator is used up after one method)."
        )
    return Answers(torch.cat(logits), torch.cat(labels), torch.cat(groups), tuple(accuracies), tuple(seconds))


def judge(method: Method, stream: Batches, answers: Answers, *, label: str | None = None) -> Result:
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
