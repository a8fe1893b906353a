"""alpha-BN: source and batch statistics in fixed shares (You et al., 2021)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from midway.adaptation.batch_norm.replaced_statistics import ReplacedBatchNorm, replace_statistics

SHARE = 0.1
"""The share of the batch that is published for single images."""


def use_alpha_statistics(model: nn.Module, share: float = SHARE) -> list[AlphaBatchNorm]:
    """Give BatchNorm layers the statistics (1 - share) source + share batch, in place, and return these layers.

    Unlike a prior (``midway.BN(model, prior=16)``), the share does not depend on the batch size, so single images are
    not a special case. As in the published code, the variance of the batch is the unbiased estimate, and no gradient
    flows through the statistics. Layers without running statistics keep those of the batch.

    Args:
        model: Any classifier.
        share: The share of the batch, 0 to 1.

    Example:
        >>> import midway, torch
        >>> from midway.adaptation.batch_norm.by_name import with_statistics
        >>> midway.BN(with_statistics(midway.models.create("resnet20"), "alpha", share=0.5))
        BN(CifarResNet, prior=0, statistics='alpha, share 0.5')
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share must be from 0 (the source) to 1 (the batch), got {share}.")
    layers = replace_statistics(model, AlphaBatchNorm, without_source=False)
    if not layers:
        raise ValueError("the model has no BatchNorm layer with running statistics to mix: adapt it as it is.")
    for layer in layers:
        layer.share = share
    return layers


class AlphaBatchNorm(ReplacedBatchNorm):
    """A BatchNorm layer with a fixed mixture of source and batch statistics, created by ``use_alpha_statistics``."""

    share: float
    source_mean: Tensor
    source_var: Tensor

    @property
    def statistics(self) -> str:
        """The name and, if it is not the published one, the share of the batch."""
        return "alpha" if self.share == SHARE else f"alpha, share {self.share:g}"

    def forward(self, x: Tensor) -> Tensor:
        """Normalise with the mixture."""
        exact = x.detach().to(torch.promote_types(x.dtype, torch.float32))
        correction = min(1, x.numel() // x.shape[1] - 1)  # a single value has no unbiased estimate
        var, mean = torch.var_mean(exact, dim=[0, *range(2, x.ndim)], correction=correction)
        mean = torch.lerp(self.source_mean.to(mean), mean, self.share)
        var = torch.lerp(self.source_var.to(var), var, self.share)
        with torch.autocast(x.device.type, enabled=False):
            exact = x.to(mean.dtype)  # statistics of 16 bits would be too coarse
            return F.batch_norm(exact, mean, var, self.weight, self.bias, eps=self.eps).to(x.dtype)
