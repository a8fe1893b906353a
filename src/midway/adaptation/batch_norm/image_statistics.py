"""Per-image statistics: BatchNorm layers that treat a batch as the copies of several images, image after image.

A method that adapts to each image separately runs the network on copies of one image at a time. With per-image
statistics one pass handles the copies of several images, because the layers divide the batch into groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

Weights = Mapping[str, Tensor]
"""Name of a parameter -> its values, (images, *shape)."""


class UnsupportedError(Exception):
    """The network cannot process the copies of several images in one pass: give it one image at a time."""


class Moments(NamedTuple):
    """Mean and biased variance of each channel over each image's copies, (images, channels), from ``values`` values."""

    mean: Tensor
    variance: Tensor
    values: int

    @property
    def unbiased_variance(self) -> Tensor:
        """The estimate that running statistics average in training."""
        return self.variance * (self.values / max(1, self.values - 1))

    @property
    def finite(self) -> Tensor:
        """For each image, whether all its moments are finite."""
        return self.mean.isfinite().all(dim=1) & self.variance.isfinite().all(dim=1)


@contextmanager
def statistics_by_image(
    model: nn.Module, images: int, *, source_share: float, weights: Weights | None = None
) -> Iterator[dict[str, list[Moments]]]:
    """Make BatchNorm layers normalise each image's copies with their own statistics, mixed with the source's.

    Yields a dictionary that receives the statistics by the name of the layer, one for each time it runs. No gradient
    flows through them. As in training, a variance that is mixed with the source's (``source_share`` above 0) is the
    unbiased estimate, and a variance that is used alone is the biased one. ``weights`` replaces scales and shifts.
    """
    normalisation = _ImageNormalisation(images, source_share, weights or {}, {})
    replaced: list[nn.Module] = []
    try:
        for name, layer in model.named_modules():
            if not isinstance(layer, _BatchNorm):
                continue
            if has_forward_of(layer, _BatchNorm):
                forward = normalisation.batch_norm
            elif images == 1:
                forward = normalisation.custom_batch_norm
            else:
                raise UnsupportedError(f"{name} ({type(layer).__name__})")
            layer.forward = partial(forward, layer, name)  # type: ignore[method-assign]
            replaced.append(layer)
        yield normalisation.seen
    finally:
        for layer in replaced:
            del layer.forward


def has_forward_of(layer: nn.Module, kind: type[nn.Module]) -> bool:
    """Return whether a layer is of a kind and computes like it, rather than in an overridden ``forward``."""
    return isinstance(layer, kind) and type(layer).forward is kind.forward


@dataclass(frozen=True)
class _ImageNormalisation:
    """How BatchNorm layers run in ``statistics_by_image``, and the moments they have seen."""

    images: int
    source_share: float
    weights: Weights
    seen: dict[str, list[Moments]]

    def statistics(self, layer: _BatchNorm, name: str, x: Tensor) -> tuple[Tensor, Tensor]:
        """Record the moments of the copies, and return mean and variance of their mixture with the source's."""
        if len(x) % self.images:  # the first dimension is not the batch any more
            raise UnsupportedError(f"BatchNorm receives a tensor of shape {tuple(x.shape)}")
        groups = grouped(x.detach(), self.images).to(torch.promote_types(x.dtype, torch.float32))
        others = [1, *range(3, groups.ndim)]
        mean = groups.mean(dim=others, keepdim=True)
        variance = (groups - mean).square_().mean(dim=others)  # var_mean is many times slower on the CPU
        moments = Moments(mean.view_as(variance), variance, groups[0].numel() // groups.shape[2])
        self.seen.setdefault(name, []).append(moments)
        if layer.running_mean is None or layer.running_var is None or self.source_share == 0:
            return moments.mean, moments.variance
        return (
            torch.lerp(moments.mean, layer.running_mean.to(moments.mean), self.source_share),
            torch.lerp(moments.unbiased_variance, layer.running_var.to(moments.mean), self.source_share),
        )

    def batch_norm(self, layer: _BatchNorm, name: str, x: Tensor) -> Tensor:
        """Compute gamma (x - mean) / sqrt(variance + eps) + beta as one product and one sum over the pixels.

        With scale = gamma / sqrt(variance + eps) this is scale x + (beta - mean scale); scale and sum are vectors of
        (images, channels).
        """
        mean, variance = self.statistics(layer, name, x)
        scale = (variance + layer.eps).rsqrt()
        if layer.affine:
            scale = scale * self.weights.get(f"{name}.weight", layer.weight)
            shift = self.weights.get(f"{name}.bias", layer.bias) - mean * scale
        else:
            shift = -mean * scale
        groups = grouped(x, self.images)
        return torch.addcmul(expanded(shift, groups), groups, expanded(scale, groups)).to(x.dtype).flatten(0, 1)

    def custom_batch_norm(self, layer: _BatchNorm, name: str, x: Tensor) -> Tensor:
        """Run the layer's own ``forward`` with the mixture instead of the source's statistics."""
        source = layer.running_mean, layer.running_var
        mean, variance = self.statistics(layer, name, x)
        try:
            layer.running_mean, layer.running_var = mean[0].to(x.dtype), variance[0].to(x.dtype)
            result: Tensor = type(layer).forward(layer, x)
        finally:
            layer.running_mean, layer.running_var = source
        return result


def grouped(x: Tensor, images: int) -> Tensor:
    """Divide a batch into one group of copies for each image, (images, copies, ...)."""
    groups: Tensor = x.unflatten(0, (images, -1))
    return groups


def expanded(vectors: Tensor, groups: Tensor) -> Tensor:
    """Reshape vectors (images, channels) to broadcast with groups (images, copies, channels, ...)."""
    return vectors.view(len(vectors), 1, -1, *(1,) * (groups.ndim - 3))
