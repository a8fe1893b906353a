"""Instance-aware statistics (IABN of NOTE, Gong et al., NeurIPS 2022): source statistics, corrected image by image.

An image with mean m and unbiased variance v over the L positions of a channel has the statistics

    m' = mu + shrink(m - mu, k sqrt((var + eps) / L)),    v' = var + shrink(v - var, k (var + eps) sqrt(2 / (L - 1))),

with the running statistics (mu, var) and shrink(a, b) = a moved towards 0 by b. The bounds are k standard errors of m
and v: deviations that chance explains do not change the source's statistics.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from midway.adaptation.batch_norm.replacement import UpdatingBatchNorm, replace_batch_norms

STANDARD_ERRORS = 4.0
"""k of the paper."""


def use_instance_aware_statistics(model: nn.Module, k: float, momentum: float) -> list[InstanceAwareBatchNorm]:
    """Give every plain BatchNorm layer instance-aware statistics, in place, and return these layers.

    A network that was trained without them keeps most of its accuracy, because images of the training distribution
    deviate little. BatchNorm layers that compute more than BatchNorm stay as they are.

    Args:
        model: A classifier with BatchNorm layers.
        k: Standard errors by which an image may deviate from the running statistics without consequence.
        momentum: The momentum of the running statistics in updating passes.

    Example:
        >>> import midway
        >>> from midway.adaptation.batch_norm.instance_aware import use_instance_aware_statistics
        >>> len(use_instance_aware_statistics(midway.testing.tiny_network(), k=4.0, momentum=0.01))
        2
    """
    if not k >= 0:
        raise ValueError(f"k must be 0 or more standard errors, got {k}.")
    layers = replace_batch_norms(model, InstanceAwareBatchNorm, skip_custom=True)
    for layer in layers:
        layer.k, layer.momentum = k, momentum
    return layers


class InstanceAwareBatchNorm(UpdatingBatchNorm):
    """A BatchNorm layer with instance-aware statistics, created by ``use_instance_aware_statistics``.

    Without running statistics, and in updating passes, it uses those of the batch, with the unbiased variance.
    """

    k: float
    momentum: float

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each image with its own statistics, shrunk towards the running ones."""
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        mean, var = self._shared(exact)
        positions = tuple(range(2, x.ndim))
        count = math.prod(x.shape[2:])
        if count > 1:
            own_var, own_mean = torch.var_mean(exact, dim=positions, keepdim=True)
            error = var + self.eps
            mean = mean + shrink(own_mean - mean, self.k * (error / count).sqrt())
            var = (var + shrink(own_var - var, self.k * error * math.sqrt(2 / (count - 1)))).relu()
        scale = (var + self.eps).rsqrt()
        if self.affine:
            shape = (1, -1, *(1,) * len(positions))
            scale = scale * self.weight.view(shape)
            return torch.addcmul(self.bias.view(shape) - mean * scale, exact, scale).to(x.dtype)
        return torch.addcmul(-mean * scale, exact, scale).to(x.dtype)

    def _shared(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance of all images, (1, C, 1, ...): running ones, or those of the batch."""
        shape = (1, -1, *(1,) * (x.ndim - 2))
        if self.running_mean is not None and self.running_var is not None and not self.updating:
            return self.running_mean.to(x).view(shape), self.running_var.to(x).view(shape)
        values = x.numel() // x.shape[1]
        var, mean = torch.var_mean(x, dim=[0, *range(2, x.ndim)], correction=min(1, values - 1))
        if self.updating and self.running_mean is not None and self.running_var is not None:
            with torch.no_grad():
                if bool((mean + var).isfinite().all()):  # other values would stay in the running statistics
                    self.running_mean.lerp_(mean.to(self.running_mean), self.momentum)
                    self.running_var.lerp_(var.to(self.running_var), self.momentum)
        return mean.view(shape), var.view(shape)


def shrink(values: Tensor, bounds: Tensor) -> Tensor:
    """Move values towards 0 by their bounds; those within the bounds become 0."""
    return values - values.clamp(-bounds, bounds)
