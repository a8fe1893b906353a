"""Renormalised statistics (TBR of DELTA, Zhao et al., ICLR 2023): moving averages of the batches' statistics."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from midway.adaptation.batch_norm.replacement import UpdatingBatchNorm, replace_batch_norms
from midway.adaptation.batch_norm.statistics import use_batch_statistics


class RenormalizedBatchNorm(UpdatingBatchNorm):
    """A BatchNorm layer that normalises with moving averages M and S of the batches' mean m and deviation s.

    y = (x - m) / s r + d with r = s / S and d = (m - M) / S equals (x - M) / S, but r and d are constants for the
    gradient, which therefore sees the statistics of the batch. M and S start as those of the first batch. They move
    after an updating pass has used them.
    """

    averaging: float
    mean: Tensor
    deviation: Tensor  # 0 before the first batch

    def forward(self, x: Tensor) -> Tensor:
        """Normalise a batch, then move M and S."""
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        var, mean = torch.var_mean(exact, dim=[0, *range(2, x.ndim)], correction=0)
        deviation = (var + self.eps).sqrt()
        with torch.no_grad():
            known = self.deviation.to(mean) > 0
            old_mean = torch.where(known, self.mean.to(mean), mean)
            old_deviation = torch.where(known, self.deviation.to(mean), deviation)
            r, d = deviation / old_deviation, (mean - old_mean) / old_deviation
            if self.updating and bool((mean + deviation).isfinite().all()):  # other values would stay
                self.mean = torch.lerp(mean, old_mean, self.averaging)
                self.deviation = torch.lerp(deviation, old_deviation, self.averaging)
        scale, shift = r / deviation, d - mean * r / deviation
        if self.affine:
            scale, shift = scale * self.weight, shift * self.weight + self.bias
        shape = (1, -1, *(1,) * (x.ndim - 2))
        return torch.addcmul(shift.view(shape), exact, scale.view(shape)).to(x.dtype)


def use_renormalized_statistics(model: nn.Module, averaging: float) -> list[RenormalizedBatchNorm]:
    """Give the plain BatchNorm layers renormalised statistics and the others those of the batch; return the former."""
    use_batch_statistics(model)
    layers = replace_batch_norms(model, RenormalizedBatchNorm, skip_custom=True)
    for layer in layers:
        layer.averaging = averaging
        for name in ("mean", "deviation"):
            zeros = (
                torch.zeros_like(layer.weight.detach())
                if layer.affine
                else torch.zeros(layer.num_features, dtype=torch.float32)
            )
            layer.register_buffer(name, zeros)
    return layers
