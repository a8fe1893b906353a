"""Robust statistics of BatchNorm layers: moving averages starting from the source's (RoTTA, Yuan et al., CVPR 2023)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from midway.adaptation.batch_norm.replacement import UpdatingBatchNorm, replace_batch_norms
from midway.adaptation.batch_norm.statistics import warn_of_custom_layers


def use_robust_statistics(model: nn.Module, share: float) -> list[RobustBatchNorm]:
    """Replace BatchNorm layers with running statistics by ``RobustBatchNorm``, in place, and return them.

    Example:
        >>> import midway
        >>> from midway.adaptation.batch_norm.robust import use_robust_statistics
        >>> len(use_robust_statistics(midway.testing.tiny_network(), share=0.05))
        2
    """
    warn_of_custom_layers(model)
    layers = replace_batch_norms(model, RobustBatchNorm, without_source=False)
    for layer in layers:
        layer.share = share
    return layers


class RobustBatchNorm(UpdatingBatchNorm):
    """A BatchNorm layer that always normalises with its running statistics.

    An updating pass first moves them towards those of its batch, r <- (1 - share) r + share b, and normalises with the
    result; gradients flow through b. The variance is the biased one. Channels in which the statistics of the
    batch are not finite keep theirs.
    """

    share: float
    running_mean: Tensor
    running_var: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Normalise with the running statistics."""
        if not self.updating:
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
