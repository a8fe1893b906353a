"""Replacing BatchNorm layers, in place, by layers that compute their statistics in another way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

Layer = TypeVar("Layer", bound=_BatchNorm)


def is_plain(layer: _BatchNorm) -> bool:
    """Return whether a BatchNorm layer computes nothing but BatchNorm, so that its statistics can be replaced."""
    return type(layer).forward in (_BatchNorm.forward, nn.SyncBatchNorm.forward)


def plain_batch_norms(model: nn.Module) -> list[_BatchNorm]:
    """Return the BatchNorm layers that compute nothing but BatchNorm."""
    return [layer for layer in model.modules() if isinstance(layer, _BatchNorm) and is_plain(layer)]


def replace_batch_norms(
    model: nn.Module, replacement: type[Layer], *, without_source: bool = True, skip_custom: bool = False
) -> list[Layer]:
    """Make the BatchNorm layers of a model instances of a class, in place, and return them.

    They keep their names, parameters, buffers and hooks. Layers that compute more than BatchNorm raise ValueError,
    before anything is changed.

    Args:
        model: The network.
        replacement: The class of the new layers.
        without_source: Whether layers without running statistics are replaced too.
        skip_custom: Leave layers that compute more than BatchNorm as they are.
    """
    layers: list[Any] = []
    for name, layer in model.named_modules():
        if not isinstance(layer, _BatchNorm) or (layer.running_mean is None and not without_source):
            continue
        if is_plain(layer):
            layers.append(layer)
        elif not skip_custom:
            raise ValueError(
                f"layer '{name}' is a {type(layer).__name__}, which computes more than BatchNorm: "
                "its statistics cannot be replaced."
            )
    for layer in layers:
        layer.__class__ = replacement
    return layers


class UpdatingBatchNorm(_BatchNorm):
    """A BatchNorm layer with moving averages of its statistics, updated only within ``updating_statistics``."""

    updating: bool = False


@contextmanager
def updating_statistics(model: nn.Module) -> Iterator[None]:
    """Let the passes in the block update the moving averages of a model; outside, trial passes do not change them."""
    layers = [layer for layer in model.modules() if isinstance(layer, UpdatingBatchNorm)]
    try:
        for layer in layers:
            layer.updating = True
        yield
    finally:
        for layer in layers:
            layer.updating = False
