"""Clustered statistics: BatchNorm layers normalise each image with the statistics of similar images in its batch.

Batch statistics (Schneider et al., NeurIPS 2020) assume one distribution per batch: an outlier is normalised with those
of unrelated images, and those of a mixture fit no part of it. Clustered statistics give every image i its own mean and
variance in a layer, weighted over the images j of the batch by their similarity:

    m_i = sum_j w_ij mean_j,    v_i = sum_j w_ij E[(x_j - m_i)^2],    w_ij = softmax_j(-d_ij / h).

They come from n_i = 1 / sum_j w_ij^2 images (the effective sample size), and the source's count as N more:

    mean_i = (n_i m_i + N mean_source) / (n_i + N),    and likewise for the variance.

The descriptors z of an image are the log variances of its channels, standardised over the batch. Two modes in the
histogram of a descriptor give a kurtosis k below the Gaussian one, 3, and a few outliers one far above:

    d_ij = mean over layers so far and channels c of a_c (z_ic - z_jc)^2,    a_c = max(0, |ln(k_c / 3)| - t_c).

The threshold t_c is the deviation that a single distribution shows by content and by chance, sqrt(0.2^2 + 10 / n) for n
images, plus one if k_c > 3, because long tails are common. A batch of one distribution then keeps nearly its batch
statistics, each part of a mixture gets its own, and an outlier relies on the source.

The method is not in the MITA paper; h, t and N were chosen on the tuning corruptions.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from midway.adaptation.normalization import drop_running_statistics
from midway.adaptation.state import Stateful

BANDWIDTH = 0.25
"""h: the scale of distances between images that count as similar."""

PRIOR = 4.0
"""N: the number of images that the source's statistics count as."""

GAUSSIAN_KURTOSIS = 3.0
LONG_TAIL = 1.0


class Similarity:
    """The similarity of the images of a batch after the layers they have passed, shared by the layers of a model.

    A layer that runs a second time starts a new pass.
    """

    def __init__(self, bandwidth: float = BANDWIDTH) -> None:
        self.bandwidth = bandwidth
        self.seen: set[int] = set()
        self.distances: Tensor | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Omit the present batch: a copy starts with a new pass."""
        return {"bandwidth": self.bandwidth, "seen": set(), "distances": None}

    def update(self, layer: nn.Module, descriptors: Tensor) -> Tensor:
        """Add the descriptors of a layer, one row per image, and return the weights w_ij."""
        distances = distances_between(descriptors)
        if self.distances is None or id(layer) in self.seen or len(self.distances) != len(distances):
            self.seen.clear()
            self.distances = distances
        else:
            self.distances = self.distances + distances
        self.seen.add(id(layer))
        return torch.softmax(-self.distances / (self.bandwidth * len(self.seen)), dim=1)


def distances_between(descriptors: Tensor) -> Tensor:
    """Return d_ij of one layer, (N, N), from descriptors with one row per image."""
    deviation = descriptors.std(dim=0, correction=0)
    z = (descriptors - descriptors.mean(dim=0)) / torch.where(deviation > 0, deviation, 1)
    kurtosis = torch.where(deviation > 0, z.pow(4).mean(dim=0), GAUSSIAN_KURTOSIS)
    by_chance = math.sqrt(0.2**2 + 10 / len(z))
    excess = (kurtosis / GAUSSIAN_KURTOSIS).log()
    importance = torch.where(excess > 0, excess - LONG_TAIL, -excess).sub(by_chance).clamp(min=0)
    z = z * importance.sqrt()
    return torch.cdist(z, z).square() / z.shape[1]


def clustered(model: nn.Module, bandwidth: float = BANDWIDTH, prior: float = PRIOR) -> nn.Module:
    """Return a copy of a classifier with clustered statistics, which any method can adapt.

    Args:
        model: Any classifier; it is not changed. Layers other than BatchNorm stay as they are.
        bandwidth: h. A small value restricts the statistics to very similar images; a large one gives every image the
            statistics of the batch.
        prior: N, the number of images that the source's statistics count as.

    Example:
        >>> import midway, torch
        >>> adapted = midway.MITA(midway.clustered(midway.models.create("resnet20")))
        >>> adapted(torch.rand(8, 3, 32, 32)).shape
        torch.Size([8, 10])
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}.")
    if isinstance(model, Stateful):
        raise TypeError(f"model is already adapted by {type(model).__name__}: give the plain network, then adapt it.")
    if is_clustered(model):
        raise ValueError("the model already has clustered statistics: adapt it as it is.")
    model = copy.deepcopy(model)
    if not use_clustered_statistics(model, bandwidth, prior):
        raise ValueError("the model has no BatchNorm layer, so its images share no statistics: adapt it as it is.")
    return model


def is_clustered(model: nn.Module) -> bool:
    """Return whether a model has clustered statistics."""
    return statistics_of(model) is not None


def statistics_of(model: nn.Module) -> str | None:
    """Return a description of a model's clustered statistics; None if it has none."""
    for module in model.modules():
        if isinstance(module, ClusteredBatchNorm):
            bandwidth, prior = module.similarity.bandwidth, module.prior
            usual = (bandwidth, prior) == (BANDWIDTH, PRIOR)
            return "clustered" if usual else f"clustered, bandwidth {bandwidth:g}, prior {prior:g}"
    return None


def use_clustered_statistics(model: nn.Module, bandwidth: float = BANDWIDTH, prior: float = PRIOR) -> int:
    """Give every BatchNorm layer clustered statistics, in place and in both modes; return the number of layers.

    The layers keep their names, scales and shifts; the running statistics become those of the prior.
    """
    if not bandwidth > 0:
        raise ValueError(f"bandwidth must be above 0, got {bandwidth}.")
    if not 0 <= prior < math.inf:
        raise ValueError(f"prior must be 0 or a number of images, got {prior}.")
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, _BatchNorm)]
    for name, layer in layers:
        if type(layer).forward not in (_BatchNorm.forward, nn.SyncBatchNorm.forward, ClusteredBatchNorm.forward):
            raise ValueError(
                f"layer '{name}' is a {type(layer).__name__}, which computes more than BatchNorm: "
                "its statistics cannot be replaced."
            )
    similarity = Similarity(bandwidth)
    for _, layer in layers:
        already = isinstance(layer, ClusteredBatchNorm)
        source = (layer.source_mean, layer.source_var) if already else (layer.running_mean, layer.running_var)
        drop_running_statistics(layer)
        layer.__class__ = ClusteredBatchNorm
        layer.similarity = similarity  # type: ignore[assignment]
        layer.prior = prior  # type: ignore[assignment]
        for name, value in zip(("source_mean", "source_var"), source, strict=True):
            nn.Module.register_buffer(layer, name, value.detach().clone() if isinstance(value, Tensor) else None)
    return len(layers)


class ClusteredBatchNorm(_BatchNorm):
    """A BatchNorm layer with clustered statistics, created by ``use_clustered_statistics``.

    Gradients flow through the statistics, as in BatchNorm; the weights w_ij are constants. Gradient checkpointing is
    not supported: its second run of a layer looks like a new pass.
    """

    similarity: Similarity
    prior: float
    source_mean: Tensor | None
    source_var: Tensor | None

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each image with its statistics."""
        if x.ndim < 2 or x.shape[1] != self.num_features:
            raise ValueError(f"expected {self.num_features} channels in dimension 1, got images {tuple(x.shape)}.")
        if x.numel() == x.shape[1] and (self.source_mean is None or not self.prior):
            raise ValueError(f"expected more than 1 value per channel, got images {tuple(x.shape)}.")
        if not x.numel():
            return x.clone()
        normalised: Tensor = _Normalise.apply(x, self.weight, self.bias, self)  # type: ignore[no-untyped-call]
        return normalised

    def scale_and_shift(
        self, mean: Tensor, square: Tensor, centre: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the factor and the summand of each image and channel, for pixels relative to the centre.

        ``mean`` and ``square`` are of each image and channel, relative to the centre, which has a value per channel.
        """
        with torch.no_grad():
            w = self.similarity.update(self, ((square - mean.square()).clamp(min=0) + self.eps).log())
        own_mean = w @ mean
        own_var = (w @ square - own_mean.square()).clamp(min=0)
        if self.prior and self.source_mean is not None and self.source_var is not None:
            images = 1 / w.square().sum(dim=1, keepdim=True)
            share = images / (images + self.prior)
            own_mean = torch.lerp((self.source_mean - centre).to(own_mean).expand_as(own_mean), own_mean, share)
            own_var = torch.lerp(self.source_var.to(own_var).expand_as(own_var), own_var, share)
        scale = (own_var + self.eps).rsqrt()
        scale = scale if weight is None else scale * weight
        shift = -own_mean * scale
        return scale, shift if bias is None else shift + bias


class _Normalise(torch.autograd.Function):
    """y = s x + b with a scale s and a shift b for each image and channel, in few passes over the pixels.

    s and b depend on x only through two numbers for each image and channel, mean m = E[x - c] and mean square
    q = E[(x - c)^2] relative to a constant centre c (the mean of the batch, which avoids cancellation). Autograd
    differentiates the small function (m, q, weight, bias) -> (s, b); the passes over the pixels are written by hand.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, layer: ClusteredBatchNorm) -> Tensor:
        pixels = tuple(range(2, x.ndim))
        exact = torch.promote_types(x.dtype, torch.float32)
        with torch.autocast(x.device.type, enabled=False):
            mean = x.mean(pixels, dtype=exact) if pixels else x.to(exact)
            centre = mean.mean(0)
            square = (x - _expanded(centre, x)).square_()
            square = square.mean(pixels) if pixels else square
            mean, square = (mean - centre).requires_grad_(), square.requires_grad_()
            weight, bias = (None if each is None else each.detach().requires_grad_() for each in (weight, bias))
            with torch.enable_grad():
                scale, shift = layer.scale_and_shift(mean, square, centre, weight, bias)
                shift = shift - centre * scale  # s (x - c) + b' = s x + (b' - s c)
            ctx.save_for_backward(x, centre)
            ctx.inputs, ctx.pixels, ctx.outputs = (mean, square, weight, bias), pixels, (scale, shift)
            return torch.addcmul(_expanded(shift, x), x, _expanded(scale, x)).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Return dL/dx, dL/dweight and dL/dbias from dy = dL/dy.

        With P pixels p in each image and channel, y_p = s x_p + b gives

            dL/ds = sum_p dy_p x_p,    dL/db = sum_p dy_p.

        Autograd turns these into dL/dm, dL/dq, dL/dweight and dL/dbias. A pixel enters y directly, with factor s,
        and through m = sum_p (x_p - c) / P and q = sum_p (x_p - c)^2 / P, whose derivatives are 1 / P and
        2 (x_p - c) / P. The sum of the three paths is

            dL/dx_p = s dy_p + (2 / P) dL/dq x_p + (dL/dm / P - (2 / P) dL/dq c).

        The centre is a constant by choice: y does not depend on it, so its own derivative is zero.
        """
        x, centre = ctx.saved_tensors
        pixels, exact = ctx.pixels, centre.dtype
        dy = dy.to(exact)
        d_scale, d_shift = (t.sum(pixels) if pixels else t for t in (dy * x, dy))
        present = [each for each in ctx.inputs if each is not None]
        gradients = iter(torch.autograd.grad(ctx.outputs, present, (d_scale, d_shift), retain_graph=True))
        d_mean, d_square, d_weight, d_bias = (None if each is None else next(gradients) for each in ctx.inputs)
        if not ctx.needs_input_grad[0]:
            return None, d_weight, d_bias, None
        count = x[0, 0].numel()
        slope = 2 / count * d_square
        constant = d_mean / count - slope * centre
        dx = dy * _expanded(ctx.outputs[0].detach(), x)
        dx.addcmul_(x.to(exact), _expanded(slope, x)).add_(_expanded(constant, x))
        return dx.to(x.dtype), d_weight, d_bias, None


def _expanded(values: Tensor, x: Tensor) -> Tensor:
    """Give values of channels, or of images and channels, the number of dimensions of the images."""
    return values.view(*[1] * (2 - values.ndim), *values.shape, *[1] * (x.ndim - 2))
