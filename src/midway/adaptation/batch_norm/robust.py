"""Robust statistics of BatchNorm layers: moving averages starting from the source's (RoTTA, Yuan et al., CVPR 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from midway.adaptation.batch_norm.statistics import running_layers, warn_of_custom_layers


def use_robust_statistics(model: nn.Module, share: float) -> int:
    """Replace BatchNorm layers with running statistics by ``RobustBatchNorm``, in place; return their number.

    The layers keep their names, scales, shifts and statistics.

    Example:
        >>> import midway
        >>> from midway.adaptation.batch_norm.robust import use_robust_statistics
        >>> use_robust_statistics(midway.testing.tiny_network(), share=0.05)
        2
    """
    warn_of_custom_layers(model)
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, _BatchNorm)]
    for name, layer in layers:
        if type(layer).forward not in (_BatchNorm.forward, nn.SyncBatchNorm.forward):
            raise ValueError(
                f"layer '{name}' is a {type(layer).__name__}, which computes more than BatchNorm: "
                "its statistics cannot be replaced."
            )
    layers = [(name, layer) for name, layer in layers if layer in set(running_layers(model))]
    for _, layer in layers:
        layer.__class__ = RobustBatchNorm
        layer.share = share  # type: ignore[assignment]
    return len(layers)


@contextmanager
def updating_statistics(model: nn.Module) -> Iterator[None]:
    """Let the passes in the block update the robust statistics of a model; other layers keep their mode."""
    layers = [layer for layer in model.modules() if isinstance(layer, RobustBatchNorm)]
    for layer in layers:
        layer.training = True
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False


class RobustBatchNorm(_BatchNorm):
    """A BatchNorm layer that always normalises with its running statistics.

    A pass in training mode first moves them towards those of its batch, r <- (1 - share) r + share b, and normalises
    with the result; gradients flow through b. The variance is the biased one. Channels in which the statistics of the
    batch are not finite keep theirs.
    """

    share: float
    running_mean: Tensor
    running_var: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Normalise with the running statistics."""
        if not self.training:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        with torch.autocast(x.device.type, enabled=False):
            precise = x.to(torch.promote_types(x.dtype, torch.float32))
            batch_var, batch_mean = torch.var_mean(precise, dim=[0, *range(2, x.ndim)], correction=0)
            mean = torch.lerp(self.running_mean.to(precise), batch_mean, self.share)
            var = torch.lerp(self.running_var.to(precise), batch_var, self.share)
            with torch.no_grad():
                finite = mean.isfinite() & var.isfinite()
                self.running_mean.copy_(torch.where(finite, mean, self.running_mean))
                self.running_var.copy_(torch.where(finite, var, self.running_var))
            scale = (var + self.eps).rsqrt()
            scale = scale if self.weight is None else scale * self.weight
            shift = -mean * scale
            shift = shift if self.bias is None else shift + self.bias
            channels = (-1, *[1] * (x.ndim - 2))
            return (precise * scale.view(channels) + shift.view(channels)).to(x.dtype)
