"""What the settings of ``statistics`` share: BatchNorm layers whose statistics are computed in another way."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from midway.adaptation.batch_norm.replacement import replace_batch_norms
from midway.adaptation.batch_norm.statistics import drop_running_statistics
from midway.adaptation.copies import without_compilation
from midway.adaptation.state import Stateful

Layer = TypeVar("Layer", bound="ReplacedBatchNorm")


class ReplacedBatchNorm(_BatchNorm, ABC):
    """A BatchNorm layer with differently defined statistics; those of the source are kept as buffers.

    It has no running statistics, so methods on batch statistics leave it as it is.
    """

    source_mean: Tensor | None
    source_var: Tensor | None

    @property
    @abstractmethod
    def statistics(self) -> str:
        """A description of the statistics: states with different ones are incompatible."""


class BatchObserver(nn.Module, ABC):
    """A part of a network that must know when a batch begins: its layers have statistics of earlier batches.

    Attributes:
        managed: Whether a method announces the batches; without one, every pass is a new batch.
        images: The current batch, while a method works on it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.managed = False
        self.images: Tensor | None = None

    @abstractmethod
    def begin_batch(self) -> None:
        """Start with the batch ``images``."""

    @abstractmethod
    def restart_batch(self) -> None:
        """Forget the current batch, or begin it again if it is not over: the state has changed."""

    @contextmanager
    def during(self, images: Tensor) -> Iterator[None]:
        """Treat these images as the batch."""
        try:
            self.images = images
            self.begin_batch()
            yield
        finally:
            self.images = None


def statistics_of(model: nn.Module) -> str | None:
    """Return a description of the statistics of a model's BatchNorm layers if they are replaced, else None.

    Example:
        >>> import midway
        >>> statistics_of(midway.clustered(midway.models.create("resnet20")))
        'clustered'
    """
    return next((layer.statistics for layer in model.modules() if isinstance(layer, ReplacedBatchNorm)), None)


def observers_of(model: nn.Module) -> list[BatchObserver]:
    """Return the observers in a model, or in the networks of a method."""
    return [module for module in model.modules() if isinstance(module, BatchObserver)]


def checkpoint_during_batch(method: Stateful) -> Callable[[], None]:
    """Return a function that restores the present state of a method and lets its observers continue with the batch.

    ``restore`` alone would let them begin the batch again, from which the state has already learnt.
    """
    snapshot = method.snapshot()
    known = [(observer, dict(vars(observer))) for observer in observers_of(method)]

    def go_back() -> None:
        for observer, _ in known:
            observer.images = None  # nothing to begin again
        method.restore(snapshot)
        for observer, attributes in known:
            vars(observer).update(attributes)

    return go_back


def is_close(some: Tensor, others: Tensor | None) -> bool:
    """Return whether images, or their spectra, differ by less than 0.1 on average."""
    if others is None or some.shape != others.shape:
        return False
    return some is others or bool((some.detach() - others).abs().mean() < 0.1)


def plain_copy(model: nn.Module) -> nn.Module:
    """Return a copy of a network whose statistics can be replaced; refuse methods and replaced statistics."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}.")
    if isinstance(model, Stateful):
        raise TypeError(f"model is already adapted by {type(model).__name__}: give the plain network, then adapt it.")
    model = without_compilation(model)  # a compiled network would not call the hooks of the statistics
    if (given := statistics_of(model)) is not None:
        raise ValueError(f"the model already has {given} statistics: adapt it as it is.")
    return copy.deepcopy(model)


def replace_statistics(model: nn.Module, replacement: type[Layer], *, without_source: bool = True) -> list[Layer]:
    """Make the BatchNorm layers instances of a class, in place, and return them.

    They keep their names, scales and shifts; the running statistics become those of the source.
    """
    layers = replace_batch_norms(model, replacement, without_source=without_source)
    for layer in layers:
        source = {"source_mean": layer.running_mean, "source_var": layer.running_var}
        drop_running_statistics(layer)
        for name, value in source.items():
            layer.register_buffer(name, value.detach().clone() if isinstance(value, Tensor) else None)
    return layers
