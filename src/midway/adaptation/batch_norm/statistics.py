"""The statistics of normalisation layers: those of the batch, of the source, or a mixture of both.

LayerNorm and GroupNorm always use the statistics of the image, so only BatchNorm, and InstanceNorm with running
statistics, are changed. The result does not depend on ``train()`` or ``eval()``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase


def running_layers(model: nn.Module) -> Iterator[_NormBase]:
    """Yield the layers that have running statistics from training."""
    for module in model.modules():
        if isinstance(module, _NormBase) and isinstance(module.running_mean, Tensor):
            yield module


def warn_of_custom_layers(model: nn.Module) -> None:
    """Warn about layers with running statistics whose class is not derived from torch's: they keep their statistics."""
    custom = [
        f"{name} ({type(module).__name__})"
        for name, module in model.named_modules()
        if isinstance(getattr(module, "running_mean", None), Tensor) and not isinstance(module, _NormBase)
    ]
    if custom:
        warnings.warn(
            f"{', '.join(custom[:3])}{', ...' if len(custom) > 3 else ''} will keep the statistics of training:"
            " their class is not derived from torch's BatchNorm. Replace them by torch.nn.BatchNorm layers with the"
            " same weights and running statistics to use those of the batch.",
            stacklevel=5,  # the line that constructs the method
        )


def has_batch_norm(model: nn.Module) -> bool:
    """Return whether a model has a BatchNorm layer, whatever its statistics are."""
    return any(isinstance(module, _BatchNorm) for module in model.modules())


def split_images(images: Tensor, batch_size: int) -> tuple[Tensor, ...]:
    """Split images into batches; a last one of a single image, which has no batch statistics, joins the one before."""
    batches: tuple[Tensor, ...] = images.split(batch_size)
    if len(batches) > 1 and len(batches[-1]) == 1:
        return (*batches[:-2], torch.cat(batches[-2:]))
    return batches


def uses_batch_statistics(model: nn.Module) -> bool:
    """Return whether a BatchNorm layer of the model mixes the images of a batch."""
    return any(isinstance(m, _BatchNorm) and (m.running_mean is None or m.training) for m in model.modules())


def use_batch_statistics(model: nn.Module) -> list[_NormBase]:
    """Make every layer with running statistics use those of the batch, in both modes, and return these layers.

    The running statistics are removed, so a later ``eval()`` cannot restore them.

    Example:
        >>> import midway
        >>> from midway.methods import use_batch_statistics
        >>> len(use_batch_statistics(midway.models.create("resnet20")))
        21
    """
    warn_of_custom_layers(model)
    layers = list(running_layers(model))
    for layer in layers:
        drop_running_statistics(layer)
    return layers


def drop_running_statistics(layer: _NormBase) -> None:
    """Remove the statistics from training; torch then always uses those of the batch."""
    layer.track_running_stats = False
    layer.running_mean = layer.running_var = layer.num_batches_tracked = None


def use_prior_statistics(model: nn.Module, prior: float) -> list[_BatchNorm]:
    """Mix source and batch statistics in BatchNorm layers, and return these layers.

    The weight of the source's is N / (N + n) for n images. N is the prior (Schneider et al., NeurIPS 2020). A layer
    computes as in evaluation mode; hooks replace its statistics while it runs. No gradient flows through them.
    InstanceNorm layers keep those of the source.
    """
    warn_of_custom_layers(model)
    layers = [layer for layer in running_layers(model) if isinstance(layer, _BatchNorm)]
    for layer in layers:
        mixture = _PriorMixture(prior)
        layer.register_forward_pre_hook(mixture.replace)
        layer.register_forward_hook(mixture.restore, always_call=True)
    return layers


class _PriorMixture:
    """The two hooks of one layer, and the source statistics while they are replaced."""

    def __init__(self, prior: float) -> None:
        self.prior = prior
        self.source: tuple[Tensor, Tensor] | None = None

    def replace(self, layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        x: Tensor = inputs[0].detach()
        mean, var = layer.running_mean, layer.running_var
        assert isinstance(mean, Tensor)
        assert isinstance(var, Tensor)
        dims = [0, *range(2, x.ndim)]
        correction = min(1, x.numel() // x.shape[1] - 1)  # unbiased, as published; a single value has no such estimate
        batch_var, batch_mean = torch.var_mean(x.float(), dim=dims, correction=correction)
        weight = self.prior / (self.prior + len(x))
        self.source = (mean, var)
        layer.running_mean = (weight * mean + (1 - weight) * batch_mean).to(mean.dtype)
        layer.running_var = (weight * var + (1 - weight) * batch_var).to(var.dtype)

    def restore(self, layer: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if self.source is not None:
            layer.running_mean, layer.running_var = self.source
            self.source = None
