"""Show a stream to a method and measure its answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from midway.adaptation.base import Method
from midway.adaptation.parameters import first_weight
from midway.adaptation.registry import find
from midway.bench.record import Result
from midway.metrics import Answers, compute
from midway.streams import Batch, Stream


def answer(
    method: Method,
    stream: Stream | _Pairs,
    *,
    on_batch: Callable[[float], None] | None = None,
    around_first: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Answers:
    """Show a stream to a method in its present state and return every answer.

    ``on_batch`` gets the accuracy so far after every batch; ``around_first`` is entered for the first batch.
    """
    like = first_weight(method, torch.empty(0))
    logits, labels, groups, seconds = [], [], [], []
    correct = seen = 0
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
                f"{stream.name} has label {wrong}, but the network has {classes} classes, 0 to {classes - 1}: "
                "give it data of its own classes."
            )
        logits.append(answered)
        labels.append(batch.labels)
        groups.append(batch.group)
        correct += int((answered.argmax(dim=1) == batch.labels).sum())
        seen += len(batch)
        if on_batch is not None:
            on_batch(100 * correct / seen)
    if not logits:
        raise ValueError(
            f"{stream.name} has no batches: give a stream, a list of pairs or a DataLoader "
            "(a generator is exhausted after one method)."
        )
    sizes = tuple(map(len, labels))
    return Answers(torch.cat(logits), torch.cat(labels), torch.cat(groups), tuple(seconds), batch_sizes=sizes)


def measure(method: Method, stream: Stream | _Pairs, answers: Answers) -> Result:
    """Compute all metrics of a method's answers to a stream, for the whole stream and for each of its groups."""
    groups: dict[str, dict[str, float]] = {}
    for index, group in enumerate(stream.groups):
        chosen = answers.of_group(index)
        groups[group] = {"images": len(chosen.labels)} | compute(chosen, of_group=True)
    correct = (answers.predictions == answers.labels).split(answers.batch_sizes)
    return Result(
        metrics=compute(answers),
        groups=groups,
        batch_accuracies=tuple([100 * batch.sum().item() / len(batch) for batch in correct]),
        diagnostics=dict(method.diagnostics),
        hyperparameters=json.loads(json.dumps(method.hyperparameters, default=repr)),
    )


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
            if images.ndim == 4 and labels.shape != images.shape[:1]:
                raise ValueError(f"a batch has {len(images)} images but labels of shape {tuple(labels.shape)}.")
            if images.ndim == 3 and labels.ndim == 0:
                raise ValueError("the stream gives single images: put a torch DataLoader around the data set.")
            if labels.is_floating_point() and not labels.equal(labels.round()):
                raise ValueError("labels must be integers, 0 for the first class.")
            yield Batch(images, labels.cpu().long(), torch.zeros(len(labels), dtype=torch.int64))


def evaluate(
    method: Method | nn.Module,
    stream: Stream | Iterable[tuple[Tensor, Tensor]],
    *,
    reset: bool = True,
    on_batch: Callable[[float], None] | None = None,
) -> Result:
    """Show a stream to a method, batch by batch, and measure its answers.

    Args:
        method: A method; a plain classifier is evaluated without adaptation (as ``Source``).
        stream: The batches: a stream, or any iterable of pairs of images in [0, 1], (N, C, H, W), and labels, such as
            a torch DataLoader.
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
        method = find("source")(method)
    if not hasattr(stream, "__iter__") and not hasattr(stream, "__getitem__"):
        raise TypeError(
            f"{type(stream).__name__} is not a stream: use midway.streams.pure(data, 'clean') for a data set of "
            "midway, or a torch DataLoader."
        )
    shown = stream if isinstance(stream, Stream) else _Pairs(stream)
    if reset:
        method.reset()
    return measure(method, shown, answer(method, shown, on_batch=on_batch))
