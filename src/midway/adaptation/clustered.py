"""Kindred statistics: each image is normalised by the images of its batch that are like it.

Batch statistics (Schneider et al., NeurIPS 2020) suppose that a batch has one distribution. Where it has several, an
image of the minority is normalised by strangers and lost, and in a half-and-half mixture the statistics fit nobody.
Here every image i of a batch has its own mean and variance in a BatchNorm layer, weighted over the images j of the
batch by how alike they are,

    m_i = sum_j w_ij mean_j,    v_i = sum_j w_ij E[(x_j - m_i)^2],    w_ij = softmax_j(-d_ij / h).

An image with few kin knows little: its statistics are those of n_i = 1 / sum_j w_ij^2 images, and the source's count as
N more of them,

    mean_i = (n_i m_i + N mean_source) / (n_i + N),    and so for the variance.

The traits of an image are the log variances z of its channels, standardised over the batch. Images always differ in
them by what they show; that they are of several kinds shows in the shape of a trait's distribution: two humps have a
kurtosis k below that of a Gaussian, 3, a few outliers one far above. Traits count by how far they are from it,

    d_ij = mean over layers so far and channels c of a_c (z_ic - z_jc)^2,    a_c = max(0, |ln(k_c / 3)| - t_c),

beyond what a single kind gives by its content and by chance, t = sqrt(0.2^2 + 10 / n) for n images, and one more where
k_c > 3: long tails are common within a kind. So a batch of one kind keeps nearly its batch statistics, the parts of a
mixture get each their own, and an outlier, alone with itself, leans on the source.

Not in the MITA paper. Nothing is told the scenario; h, t and N were chosen on the tuning corruptions.
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

BANDWIDTH = 0.25
"""h: how far kinship reaches."""

PRIOR = 4.0
"""N: how many images the source's statistics count as."""

GAUSSIAN_KURTOSIS = 3.0
LONG_TAIL = 1.0

Scaling = tuple[Tensor, Tensor]


class Kinship:
    """How alike the images of a batch are, after the layers they have passed; shared by the layers of a model.

    A layer that comes round again begins a new pass.

    Example:
        >>> import torch
        >>> from midway.adaptation.clustered import Kinship
        >>> two_kinds = torch.tensor([0.0, 5.0]).repeat(20)[:, None]
        >>> Kinship(bandwidth=0.1).after(torch.nn.Identity(), two_kinds)[0, :4] > 1e-6
        tensor([ True, False,  True, False])
    """

    def __init__(self, bandwidth: float = BANDWIDTH) -> None:
        self.bandwidth = bandwidth
        self.seen: set[int] = set()
        self.distances: Tensor | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave the batch behind: a copy begins its own first pass."""
        return {"bandwidth": self.bandwidth, "seen": set(), "distances": None}

    def after(self, layer: nn.Module, traits: Tensor) -> Tensor:
        """Return the weights w_ij once a layer has seen the images, given its traits of them, one row an image."""
        distances = distances_between(traits)
        if self.distances is None or id(layer) in self.seen or len(self.distances) != len(distances):
            self.seen.clear()
            self.distances = distances
        else:
            self.distances = self.distances + distances
        self.seen.add(id(layer))
        return torch.softmax(-self.distances / (self.bandwidth * len(self.seen)), dim=1)


def distances_between(traits: Tensor) -> Tensor:
    """Return d_ij of one layer: how much the images differ in traits that tell kinds apart.

    Args:
        traits: One row an image.

    Example:
        >>> import torch
        >>> from midway.adaptation.clustered import distances_between
        >>> gaussian = torch.special.ndtri((torch.arange(200) + 0.5) / 200)[:, None]
        >>> distances_between(gaussian).max()
        tensor(0.)
    """
    spread = traits.std(dim=0, correction=0)
    traits = (traits - traits.mean(dim=0)) / torch.where(spread > 0, spread, 1)
    kurtosis = torch.where(spread > 0, traits.pow(4).mean(dim=0), GAUSSIAN_KURTOSIS)
    by_chance = math.sqrt(0.2**2 + 10 / len(traits))
    excess = (kurtosis / GAUSSIAN_KURTOSIS).log()
    telling = torch.where(excess > 0, excess - LONG_TAIL, -excess).sub(by_chance).clamp(min=0)
    traits = traits * telling.sqrt()
    return torch.cdist(traits, traits).square() / traits.shape[1]


def kindred(model: nn.Module, bandwidth: float = BANDWIDTH, prior: float = PRIOR) -> nn.Module:
    """Return a copy of a classifier that normalises each image by its kin; any method adapts it as it adapts others.

    Args:
        model: Any classifier; it is not changed. Layers other than BatchNorm are left as they are.
        bandwidth: See ``use_kindred_statistics``.
        prior: Likewise.

    Raises:
        ValueError: The model has no BatchNorm layer: each image is on its own already. Or one that computes more than
            BatchNorm does, such as an activation with it.

    Example:
        >>> import midway, torch
        >>> adapted = midway.MITA(midway.kindred(midway.models.create("resnet20")))
        >>> adapted(torch.rand(8, 3, 32, 32)).shape
        torch.Size([8, 10])
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}.")
    from midway.adaptation.base import Method  # which needs this module itself

    if isinstance(model, Method):
        raise TypeError(f"model is already adapted by {type(model).__name__}: give the plain network, then adapt it.")
    if is_kindred(model):
        raise ValueError("the model has kindred statistics already: adapt it as it is.")
    model = copy.deepcopy(model)
    if not use_kindred_statistics(model, bandwidth, prior):
        raise ValueError("the model has no BatchNorm layer, so its images share no statistics: adapt it as it is.")
    return model


def is_kindred(model: nn.Module) -> bool:
    """Tell whether a model normalises images by their kin."""
    return statistics_of(model) is not None


def statistics_of(model: nn.Module) -> str | None:
    """Say how a model normalises images by their kin; None if it does not.

    Example:
        >>> import midway
        >>> from midway.adaptation.clustered import statistics_of
        >>> model = midway.models.create("resnet20")
        >>> statistics_of(midway.kindred(model)), statistics_of(midway.kindred(model, prior=0)), statistics_of(model)
        ('kindred', 'kindred, bandwidth 0.25, prior 0', None)
    """
    for module in model.modules():
        if isinstance(module, KindredNorm):
            usual = (module.kinship.bandwidth, module.prior) == (BANDWIDTH, PRIOR)
            return "kindred" if usual else f"kindred, bandwidth {module.kinship.bandwidth:g}, prior {module.prior:g}"
    return None


def use_kindred_statistics(model: nn.Module, bandwidth: float = BANDWIDTH, prior: float = PRIOR) -> int:
    """Make every BatchNorm layer normalise each image by its kin, in training and evaluation mode alike.

    The layers keep their places, names, scales and shifts; the running statistics become the source's for the prior.

    Args:
        model: Changed in place.
        bandwidth: How far kinship reaches: small leaves each image alone with its likes, large gives the batch's
            statistics to all.
        prior: How many images the source's statistics count as.

    Returns:
        The number of layers changed.

    Example:
        >>> import torch
        >>> from midway.adaptation.clustered import use_kindred_statistics
        >>> layer = torch.nn.BatchNorm2d(1).eval()
        >>> use_kindred_statistics(layer, prior=0)
        1
        >>> calm = torch.tensor([-1.0, 1.0]).repeat(99, 1, 1, 1)
        >>> loud = 50 * calm[:1]
        >>> layer(torch.cat([calm, loud]))[-1].round().flatten().tolist()  # by the batch: -10, 10
        [-1.0, 1.0]
    """
    if not bandwidth > 0:
        raise ValueError(f"bandwidth must be above 0, got {bandwidth}.")
    if not 0 <= prior < math.inf:
        raise ValueError(f"prior must be 0 or a number of images, got {prior}.")
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, _BatchNorm)]
    for name, layer in layers:
        if type(layer).forward not in (_BatchNorm.forward, nn.SyncBatchNorm.forward, KindredNorm.forward):
            raise ValueError(
                f"layer '{name}' is a {type(layer).__name__}, which computes more than BatchNorm does: "
                "its statistics cannot be exchanged alone."
            )
    kinship = Kinship(bandwidth)
    for _, layer in layers:
        kept = isinstance(layer, KindredNorm)
        source = (layer.source_mean, layer.source_var) if kept else (layer.running_mean, layer.running_var)
        drop_running_statistics(layer)
        layer.__class__ = KindredNorm
        layer.kinship = kinship  # type: ignore[assignment]
        layer.prior = prior  # type: ignore[assignment]
        for name, value in zip(("source_mean", "source_var"), source, strict=True):
            nn.Module.register_buffer(layer, name, value.detach().clone() if isinstance(value, Tensor) else None)
    return len(layers)


class KindredNorm(_BatchNorm):
    """A BatchNorm layer that normalises each image by its kin. Made by ``use_kindred_statistics``.

    Gradients flow through the statistics, as in BatchNorm; the weights of kinship count as constants. Not for gradient
    checkpointing, whose second run of a layer looks like a new pass.
    """

    kinship: Kinship
    prior: float
    source_mean: Tensor | None
    source_var: Tensor | None

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each image by its kin."""
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
    ) -> Scaling:
        """Return what each image and channel is multiplied by and what is then added, relative to the centre.

        Args:
            mean: Of each image and channel, relative to the centre.
            square: Mean square of each image and channel, likewise.
            centre: A value for each channel.
            weight: The layer's scale.
            bias: The layer's shift.
        """
        with torch.no_grad():
            kin = self.kinship.after(self, ((square - mean.square()).clamp(min=0) + self.eps).log())
        kin_mean = kin @ mean
        kin_var = (kin @ square - kin_mean.square()).clamp(min=0)
        if self.prior and self.source_mean is not None and self.source_var is not None:
            images = 1 / kin.square().sum(dim=1, keepdim=True)
            own = images / (images + self.prior)
            kin_mean = torch.lerp((self.source_mean - centre).to(kin_mean).expand_as(kin_mean), kin_mean, own)
            kin_var = torch.lerp(self.source_var.to(kin_var).expand_as(kin_var), kin_var, own)
        scale = (kin_var + self.eps).rsqrt()
        scale = scale if weight is None else scale * weight
        shift = -kin_mean * scale
        return scale, shift if bias is None else shift + bias


class _Normalise(torch.autograd.Function):
    """x * scale + shift in as few passes over the pixels as it takes.

    All that is large is done here by hand; scales and shifts follow from one mean and one mean square an image and
    channel, small enough for autograd. Pixels are taken relative to the mean of the batch, for the digits' sake.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, layer: KindredNorm) -> Tensor:
        pixels = tuple(range(2, x.ndim))
        exact = torch.promote_types(x.dtype, torch.float32)
        with torch.autocast(x.device.type, enabled=False):
            mean = x.mean(pixels, dtype=exact) if pixels else x.to(exact)
            centre = mean.mean(0)
            square = (x - _spread(centre, x)).square_()
            square = square.mean(pixels) if pixels else square
            mean, square = (mean - centre).requires_grad_(), square.requires_grad_()
            weight, bias = (None if each is None else each.detach().requires_grad_() for each in (weight, bias))
            with torch.enable_grad():
                scale, shift = layer.scale_and_shift(mean, square, centre, weight, bias)
                shift = shift - centre * scale
            ctx.save_for_backward(x, centre)
            ctx.small, ctx.pixels, ctx.made = (mean, square, weight, bias), pixels, (scale, shift)
            return torch.addcmul(_spread(shift, x), x, _spread(scale, x)).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, out: Tensor) -> tuple[Tensor | None, ...]:
        x, centre = ctx.saved_tensors
        pixels, exact = ctx.pixels, centre.dtype
        out = out.to(exact)
        by_scale, by_shift = (t.sum(pixels) if pixels else t for t in (out * x, out))
        wanted = [each for each in ctx.small if each is not None]
        slopes = iter(torch.autograd.grad(ctx.made, wanted, (by_scale, by_shift), retain_graph=True))
        by_mean, by_square, by_weight, by_bias = (None if each is None else next(slopes) for each in ctx.small)
        if not ctx.needs_input_grad[0]:
            return None, by_weight, by_bias, None
        count = x[0, 0].numel()
        steep = 2 / count * by_square
        flat = by_mean / count - steep * centre
        by_x = out * _spread(ctx.made[0].detach(), x)
        by_x.addcmul_(x.to(exact), _spread(steep, x)).add_(_spread(flat, x))
        return by_x.to(x.dtype), by_weight, by_bias, None


def _spread(values: Tensor, x: Tensor) -> Tensor:
    """Give values of channels, or of images and channels, the dimensions of the images."""
    return values.view(*[1] * (2 - values.ndim), *values.shape, *[1] * (x.ndim - 2))
