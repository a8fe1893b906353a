"""Many images' copies in one pass: every image has its own statistics and its own weights.

A method that adapts to each image by itself runs the network on copies of one image at a time. Here a batch holds the
copies of several images, image by image, and the layers treat it as that many groups. Layers without weights need no
help; those below are exchanged while the pass runs. A network with weights elsewhere is told apart, not served wrongly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.instancenorm import _InstanceNorm

Weights = Mapping[str, Tensor]
"""Name of a parameter -> its values, (images, *shape)."""


class UnsuitedError(Exception):
    """The network cannot take several images' copies in one pass: give it one image at a time."""


class Moments(NamedTuple):
    """Mean and (biased) variance of each channel over each image's copies, (images, channels), of ``values`` values."""

    mean: Tensor
    variance: Tensor
    values: int

    @property
    def unbiased_variance(self) -> Tensor:
        """The estimate that running statistics average in training."""
        return self.variance * (self.values / max(1, self.values - 1))

    @property
    def finite(self) -> Tensor:
        """Tell of which images they are all finite."""
        return self.mean.isfinite().all(dim=1) & self.variance.isfinite().all(dim=1)


# ---- statistics ------------------------------------------------------------------------------------------------------


@contextmanager
def statistics_by_image(
    model: nn.Module, images: int, *, source_share: float, weights: Weights | None = None
) -> Iterator[dict[str, list[Moments]]]:
    """Let BatchNorm layers normalise each image's copies by their own statistics, mixed with the source's.

    No gradient flows through the statistics. As in training, a variance that joins the source's is the unbiased
    estimate, one that stands alone is the biased one.

    Args:
        model: Its layers must be in evaluation mode. It is as before when the block ends, however it ends.
        images: How many images the batches in the block hold copies of.
        source_share: Weight of the source's statistics; 0 uses the copies alone.
        weights: Scales and shifts of each image; the layers' own where left out.

    Yields:
        A dictionary that fills with the statistics of the copies, by the name of the layer, one for each time it runs.

    Raises:
        UnsuitedError: A layer computes in a way of its own and cannot tell several images apart.

    Example:
        >>> import torch
        >>> from midway.adaptation.per_image import statistics_by_image
        >>> network = torch.nn.Sequential(torch.nn.BatchNorm1d(1)).eval()
        >>> with torch.no_grad(), statistics_by_image(network, 2, source_share=0) as seen:
        ...     network(torch.tensor([[1.0], [3.0], [10.0], [30.0]])).round().flatten().tolist()
        [-1.0, 1.0, -1.0, 1.0]
        >>> seen["0"][0].mean.flatten().tolist()
        [2.0, 20.0]
    """
    seen: dict[str, list[Moments]] = {}
    exchanged: list[nn.Module] = []
    try:
        for name, layer in model.named_modules():
            if not isinstance(layer, _BatchNorm):
                continue
            if _computes_as(layer, _BatchNorm):
                run = partial(_batch_norm, layer, name, images, source_share, weights or {}, seen)
            elif images == 1:
                run = partial(_homemade_batch_norm, layer, name, source_share, seen)
            else:
                raise UnsuitedError(f"{name} ({type(layer).__name__})")
            layer.forward = run  # type: ignore[method-assign]
            exchanged.append(layer)
        yield seen
    finally:
        for layer in exchanged:
            del layer.forward


def _computes_as(layer: nn.Module, kind: type[nn.Module]) -> bool:
    return isinstance(layer, kind) and type(layer).forward is kind.forward


def _moments(x: Tensor, images: int) -> Moments:
    if len(x) % images:  # the first dimension is no longer the batch
        raise UnsuitedError(f"BatchNorm meets a tensor of shape {tuple(x.shape)}")
    groups = _grouped(x.detach(), images).to(torch.promote_types(x.dtype, torch.float32))
    others = [1, *range(3, groups.ndim)]
    mean = groups.mean(dim=others, keepdim=True)
    variance = (groups - mean).square_().mean(dim=others)  # var_mean is many times slower on the CPU
    return Moments(mean.view_as(variance), variance, groups[0].numel() // groups.shape[2])


def _mixture(layer: _BatchNorm, moments: Moments, source_share: float) -> tuple[Tensor, Tensor]:
    if layer.running_mean is None or layer.running_var is None or source_share == 0:
        return moments.mean, moments.variance
    return (
        torch.lerp(moments.mean, layer.running_mean.to(moments.mean), source_share),
        torch.lerp(moments.unbiased_variance, layer.running_var.to(moments.mean), source_share),
    )


def _batch_norm(
    layer: _BatchNorm,
    name: str,
    images: int,
    source_share: float,
    weights: Weights,
    seen: dict[str, list[Moments]],
    x: Tensor,
) -> Tensor:
    moments = _moments(x, images)
    seen.setdefault(name, []).append(moments)
    mean, variance = _mixture(layer, moments, source_share)
    scale = (variance + layer.eps).rsqrt()
    if layer.affine:
        scale = scale * weights.get(f"{name}.weight", layer.weight)
        shift = weights.get(f"{name}.bias", layer.bias) - mean * scale
    else:
        shift = -mean * scale
    groups = _grouped(x, images)
    return torch.addcmul(_spread(shift, groups), groups, _spread(scale, groups)).to(x.dtype).flatten(0, 1)


def _homemade_batch_norm(
    layer: _BatchNorm, name: str, source_share: float, seen: dict[str, list[Moments]], x: Tensor
) -> Tensor:
    """Let the layer compute in its own way, with the mixture in place of the source's statistics."""
    moments = _moments(x, 1)
    seen.setdefault(name, []).append(moments)
    source = layer.running_mean, layer.running_var
    mean, variance = _mixture(layer, moments, source_share)
    try:
        layer.running_mean, layer.running_var = mean[0].to(x.dtype), variance[0].to(x.dtype)
        result: Tensor = type(layer).forward(layer, x)
    finally:
        layer.running_mean, layer.running_var = source
    return result


def _grouped(x: Tensor, images: int) -> Tensor:
    groups: Tensor = x.unflatten(0, (images, -1))
    return groups


def _spread(vectors: Tensor, groups: Tensor) -> Tensor:
    """Shape vectors (images, channels) to go with groups (images, copies, channels, ...)."""
    return vectors.view(len(vectors), 1, -1, *(1,) * (groups.ndim - 3))


# ---- weights ---------------------------------------------------------------------------------------------------------


@contextmanager
def weights_by_image(model: nn.Module, weights: Weights, size: int, *, source_share: float) -> Iterator[None]:
    """Let a network run on copies of images, image after image, each with its own weights and statistics.

    Where all images have the same weights (a tensor expanded over the images), the convolutions run as one batch, and
    the gradients still come out image by image. Gradients are to be taken within the block as well: a network that
    saves memory runs its layers again for them.

    Args:
        model: Its layers must be in evaluation mode; its own weights are not used.
        weights: Every floating-point parameter of the network, (images, *shape).
        size: Length of the batches in the block, images times copies.
        source_share: Weight of the source's statistics in BatchNorm layers.

    Raises:
        UnsuitedError: The network has weights outside plain layers, or mixes the images in a way of its own; with the
            weights of a single image any network will do.

    Example:
        >>> import torch
        >>> from midway.adaptation.per_image import weights_by_image
        >>> network = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False))
        >>> with weights_by_image(network, {"0.weight": torch.tensor([[[2.0]], [[3.0]]])}, 4, source_share=0):
        ...     network(torch.ones(4, 1)).flatten().tolist()
        [2.0, 2.0, 3.0, 3.0]
    """
    images = len(next(iter(weights.values())))
    if images == 1:
        own = {name: values[0] for name, values in weights.items()}
        with statistics_by_image(model, 1, source_share=source_share), _other_weights(model, own):
            yield
        return
    unseen = set(weights)
    exchanged: list[nn.Module] = []
    with statistics_by_image(model, images, source_share=source_share, weights=weights) as seen:
        try:
            for name, layer in model.named_modules():
                mine = {key: f"{name}.{key}".lstrip(".") for key, _ in layer.named_parameters(recurse=False)}
                rule = next((rule for kind, rule in RULES.items() if _computes_as(layer, kind)), None)
                if not set(mine.values()) <= set(weights):
                    raise UnsuitedError(f"{name} shares its weights with another layer")
                if not mine or isinstance(layer, _BatchNorm):
                    continue
                if rule is None or not set(mine) <= {"weight", "bias"} or layer._forward_pre_hooks:
                    raise UnsuitedError(f"{name} ({type(layer).__name__})")
                layer.forward = partial(
                    _by_image, rule, layer, {key: weights[full] for key, full in mine.items()}, size, unseen, mine
                )
                exchanged.append(layer)
            # The network's own weights are out of reach: a use behind a layer's back fails instead of going unseen.
            hidden = {name: values.new_empty((0,) * (values.ndim - 1)) for name, values in weights.items()}
            with _other_weights(model, hidden):
                yield
        finally:
            for layer in exchanged:
                del layer.forward
    unseen -= {f"{name}.{key}" for name in seen for key in ("weight", "bias")}
    if unseen:
        raise UnsuitedError(", ".join(sorted(unseen)))


@contextmanager
def _other_weights(model: nn.Module, weights: Weights) -> Iterator[None]:
    """Exchange the weights of a network; what has several names in it is exchanged under all of them, once."""
    given = {id(parameter): weights[name] for name, parameter in model.named_parameters() if name in weights}
    own = [
        (module._parameters, key, parameter)
        for module in model.modules()
        for key, parameter in module._parameters.items()
        if parameter is not None
    ]
    try:
        for parameters, key, parameter in own:
            parameters[key] = given.get(id(parameter), parameter)  # type: ignore[assignment]
        yield
    finally:
        for parameters, key, parameter in own:
            parameters[key] = parameter


def _by_image(
    rule: Callable[[Any, dict[str, Tensor], Tensor], Tensor],
    layer: nn.Module,
    weights: dict[str, Tensor],
    size: int,
    unseen: set[str],
    names: dict[str, str],
    x: Tensor,
) -> Tensor:
    if len(x) != size:  # the first dimension is no longer the batch
        raise UnsuitedError(f"{names} meet a tensor of shape {tuple(x.shape)}")
    unseen.difference_update(names.values())
    return rule(layer, weights, x)


def _linear(layer: nn.Linear, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    weight = weights["weight"]
    rows = x.reshape(len(weight), -1, x.shape[-1])
    result = rows @ weight.mT
    if layer.bias is not None:
        result = result + weights["bias"].unsqueeze(1)
    return result.view(*x.shape[:-1], -1)


def _convolution(layer: _ConvNd, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    if layer.padding_mode != "zeros" or isinstance(layer.padding, str):
        raise UnsuitedError(f"padding {layer.padding_mode}, {layer.padding}")
    weight = weights["weight"]
    run: Callable[..., Tensor] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[x.ndim - 2]
    geometry = layer.stride, layer.padding, layer.dilation, layer.groups
    if weight.stride(0) == 0:
        result: Tensor = _SharedConvolution.apply(x, weight, geometry)  # type: ignore[no-untyped-call]
    else:
        pairs = zip(x.chunk(len(weight)), weight, strict=True)
        result = torch.cat([run(some, one, None, *geometry) for some, one in pairs])
    return result if layer.bias is None else _affine(result, None, weights["bias"])


class _SharedConvolution(torch.autograd.Function):
    """A convolution with the same weights for all images, and gradients of the weights image by image."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, geometry: tuple[Any, ...]) -> Tensor:
        ctx.save_for_backward(x, weight)
        stride, padding, dilation, groups = ctx.geometry = geometry
        return torch.convolution(x, weight[0], None, stride, padding, dilation, False, [0] * len(stride), groups)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, None]:
        x, weight = ctx.saved_tensors
        stride, padding, dilation, groups = ctx.geometry
        rest = (None, stride, padding, dilation, False, [0] * len(stride), groups)

        def back(some_gradient: Tensor, some: Tensor, wanted: list[bool]) -> tuple[Tensor, ...]:
            result: tuple[Tensor, ...] = torch.ops.aten.convolution_backward(
                some_gradient, some, weight[0], *rest, wanted
            )
            return result

        to_x = back(gradient, x, [True, False, False])[0] if ctx.needs_input_grad[0] else None
        pairs = zip(gradient.chunk(len(weight)), x.chunk(len(weight)), strict=True)
        to_weight = torch.stack([back(g, some, [False, True, False])[1] for g, some in pairs])
        return to_x, to_weight, None


def _layer_norm(layer: nn.LayerNorm, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    normal = F.layer_norm(x, layer.normalized_shape, None, None, layer.eps)
    images, inner = len(weights["weight"]), len(layer.normalized_shape)
    rows = _grouped(normal, images)

    def spread(name: str) -> Tensor:
        return weights[name].view(images, *(1,) * (rows.ndim - 1 - inner), *layer.normalized_shape)

    result = rows * spread("weight")
    if layer.bias is not None:
        result = result + spread("bias")
    return result.flatten(0, 1)


def _group_norm(layer: nn.GroupNorm, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    return _affine(F.group_norm(x, layer.num_groups, None, None, layer.eps), weights["weight"], weights["bias"])


def _instance_norm(layer: _InstanceNorm, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    own = layer.running_mean is None
    normal = F.instance_norm(x, layer.running_mean, layer.running_var, None, None, own, 0.0, layer.eps)
    return _affine(normal, weights["weight"], weights["bias"])


def _affine(x: Tensor, scale: Tensor | None, shift: Tensor) -> Tensor:
    groups = _grouped(x, len(shift))
    if scale is not None:
        groups = groups * _spread(scale, groups)
    return (groups + _spread(shift, groups)).flatten(0, 1)


RULES: dict[type[nn.Module], Callable[[Any, dict[str, Tensor], Tensor], Tensor]] = {
    nn.Linear: _linear,
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.Conv3d: _convolution,
    nn.LayerNorm: _layer_norm,
    nn.GroupNorm: _group_norm,
    _InstanceNorm: _instance_norm,
}
"""Kind of layer -> how it runs with the weights of each image."""
