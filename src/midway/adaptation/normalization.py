"""Whose statistics a normalisation layer uses: the batch's, the source's, or a mixture by a prior.

LayerNorm and GroupNorm always use the image's own statistics, so only BatchNorm (and InstanceNorm with running
statistics) are touched here. None of it depends on ``train()`` or ``eval()``: adaptation must not change its mind
when somebody switches modes.
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


def warn_of_foreign_layers(model: nn.Module) -> None:
    """Warn of layers with running statistics that are not torch's: what they do cannot be known, so they keep them."""
    foreign = [
        f"{name} ({type(module).__name__})"
        for name, module in model.named_modules()
        if isinstance(getattr(module, "running_mean", None), Tensor) and not isinstance(module, _NormBase)
    ]
    if foreign:
        warnings.warn(
            f"{', '.join(foreign[:3])}{', ...' if len(foreign) > 3 else ''} will go on with the statistics of training:"
            " their class is not derived from torch's BatchNorm. Exchange them for torch.nn.BatchNorm layers with the"
            " same weights and running statistics to have those of the batch.",
            stacklevel=5,  # whoever makes the method
        )


def uses_batch_statistics(model: nn.Module) -> bool:
    """Tell whether a BatchNorm layer of the model mixes the images of a batch."""
    return any(isinstance(m, _BatchNorm) and (m.running_mean is None or m.training) for m in model.modules())


def use_batch_statistics(model: nn.Module) -> int:
    """Make every such layer use the statistics of the batch at hand, in training and evaluation mode alike.

    The running statistics are dropped, so a later ``eval()`` cannot bring them back.

    Returns:
        The number of layers changed.

    Example:
        >>> import torch
        >>> from midway.adaptation.normalization import use_batch_statistics
        >>> layer = torch.nn.BatchNorm1d(1).eval()
        >>> use_batch_statistics(layer)
        1
        >>> layer(torch.tensor([[3.0], [5.0]])).round().flatten().tolist()
        [-1.0, 1.0]
    """
    warn_of_foreign_layers(model)
    layers = list(running_layers(model))
    for layer in layers:
        drop_running_statistics(layer)
    return len(layers)


def drop_running_statistics(layer: _NormBase) -> None:
    """Make a layer forget the statistics from training: without them torch always takes those of the batch."""
    layer.track_running_stats = False
    layer.running_mean = layer.running_var = layer.num_batches_tracked = None


def use_prior_statistics(model: nn.Module, prior: float) -> int:
    """Mix source and batch statistics in BatchNorm layers: weight prior / (prior + n) on the source's, n images.

    The layer itself computes as in evaluation mode; its statistics are exchanged for the mixture while it runs and put
    back afterwards, so that the source's are never lost. No gradient flows through the statistics. InstanceNorm layers
    keep the source's: they know no batch.

    Args:
        model: Changed in place; its layers must be in evaluation mode.
        prior: The number of images the source statistics are worth (N in Schneider et al., NeurIPS 2020).

    Returns:
        The number of layers changed.
    """
    warn_of_foreign_layers(model)
    changed = 0
    for layer in running_layers(model):
        if not isinstance(layer, _BatchNorm):
            continue
        mixture = _PriorMixture(prior)
        layer.register_forward_pre_hook(mixture.exchange)
        layer.register_forward_hook(mixture.put_back, always_call=True)
        changed += 1
    return changed


class _PriorMixture:
    """The two hooks of one layer and what they exchange."""

    def __init__(self, prior: float) -> None:
        self.prior = prior
        self.source: tuple[Tensor, Tensor] | None = None

    def exchange(self, layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        x: Tensor = inputs[0].detach()
        mean, var = layer.running_mean, layer.running_var
        assert isinstance(mean, Tensor)
        assert isinstance(var, Tensor)
        dims = [0, *range(2, x.ndim)]
        batch_var, batch_mean = torch.var_mean(x.float(), dim=dims, correction=0)
        weight = self.prior / (self.prior + len(x))
        self.source = (mean, var)
        layer.running_mean = (weight * mean + (1 - weight) * batch_mean).to(mean.dtype)
        layer.running_var = (weight * var + (1 - weight) * batch_var).to(var.dtype)

    def put_back(self, layer: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if self.source is not None:
            layer.running_mean, layer.running_var = self.source
            self.source = None
