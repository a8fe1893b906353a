"""Evaluate one method on one stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

from midway.adaptation.base import Method
from midway.bench.measure import Batches, answer, measure
from midway.bench.record import Result
from midway.methods.source import Source
from midway.streams import Batch, Stream


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
        method = Source(method)
    shown: Batches = stream if isinstance(stream, Stream) else _Pairs(stream)
    if reset:
        method.reset()
    return measure(method, shown, answer(method, shown, on_batch=on_batch))
