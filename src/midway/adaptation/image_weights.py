"""Per-image weights: one pass over the copies of several images, each image with its own weights and statistics.

Layers without weights need no change; those in ``RULES`` are replaced while the pass runs. A network with weights in
other layers raises ``UnsupportedError`` instead of computing something wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.instancenorm import _InstanceNorm

from midway.adaptation.batch_norm.image_statistics import (
    UnsupportedError,
    Weights,
    expanded,
    grouped,
    has_forward_of,
    statistics_by_image,
)


@contextmanager
def weights_by_image(model: nn.Module, weights: Weights, size: int, *, source_share: float) -> Iterator[None]:
    """Make a network run on copies of images, image after image, each with its own weights and statistics.

    ``weights`` has every floating-point parameter, (images, *shape); ``size`` is images times copies. If all images
    have the same weights (an expanded tensor), the convolutions run as one batch, with gradients for each image. Take
    gradients within the block as well: gradient checkpointing runs the layers again for them.

    Raises ``UnsupportedError`` for weights outside plain layers, or custom layers that may mix several images.
    """
    images = len(next(iter(weights.values())))
    if images == 1:
        own = {name: values[0] for name, values in weights.items()}
        with statistics_by_image(model, 1, source_share=source_share), _replaced_weights(model, own):
            yield
        return
    unused = set(weights)
    replaced: list[nn.Module] = []
    with statistics_by_image(model, images, source_share=source_share, weights=weights) as seen:
        try:
            for name, layer in model.named_modules():
                own_names = {key: f"{name}.{key}".lstrip(".") for key, _ in layer.named_parameters(recurse=False)}
                rule = next((rule for kind, rule in RULES.items() if has_forward_of(layer, kind)), None)
                if not set(own_names.values()) <= set(weights):
                    raise UnsupportedError(f"{name} shares its weights with another layer")
                if not own_names or isinstance(layer, _BatchNorm):
                    continue
                if rule is None or not set(own_names) <= {"weight", "bias"} or layer._forward_pre_hooks:
                    raise UnsupportedError(f"{name} ({type(layer).__name__})")
                layer.forward = partial(_run_layer, rule, layer, own_names, weights, size, unused)
                replaced.append(layer)
            # The network's own weights become empty: a use outside the replaced layers fails instead of being missed.
            hidden = {name: values.new_empty((0,) * (values.ndim - 1)) for name, values in weights.items()}
            with _replaced_weights(model, hidden):
                yield
        finally:
            for layer in replaced:
                del layer.forward
    unused -= {f"{name}.{key}" for name in seen for key in ("weight", "bias")}
    if unused:
        raise UnsupportedError(", ".join(sorted(unused)))


@contextmanager
def _replaced_weights(model: nn.Module, weights: Weights) -> Iterator[None]:
    """Replace the weights of a network; a parameter with several names is replaced under all of them."""
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


Rule = Callable[[Any, dict[str, Tensor], Tensor], Tensor]


def _run_layer(
    rule: Rule, layer: nn.Module, names: dict[str, str], weights: Weights, size: int, unused: set[str], x: Tensor
) -> Tensor:
    if len(x) != size:  # the first dimension is not the batch any more
        raise UnsupportedError(f"{names} receive a tensor of shape {tuple(x.shape)}")
    unused.difference_update(names.values())
    return rule(layer, {key: weights[name] for key, name in names.items()}, x)


def _linear(layer: nn.Linear, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    weight = weights["weight"]
    rows = x.reshape(len(weight), -1, x.shape[-1])
    result = rows @ weight.mT
    if layer.bias is not None:
        result = result + weights["bias"].unsqueeze(1)
    return result.view(*x.shape[:-1], -1)


def _convolution(layer: _ConvNd, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    if layer.padding_mode != "zeros" or isinstance(layer.padding, str):
        raise UnsupportedError(f"padding {layer.padding_mode}, {layer.padding}")
    weight = weights["weight"]
    run: Callable[..., Tensor] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[x.ndim - 2]
    geometry = layer.stride, layer.padding, layer.dilation, layer.groups
    if weight.stride(0) == 0:  # expanded: all images have the same weights
        result: Tensor = _SharedConvolution.apply(x, weight, geometry)  # type: ignore[no-untyped-call]
    else:
        pairs = zip(x.chunk(len(weight)), weight, strict=True)
        result = torch.cat([run(copies, own, None, *geometry) for copies, own in pairs])
    return result if layer.bias is None else _affine(result, None, weights["bias"])


class _SharedConvolution(torch.autograd.Function):
    """A convolution with the same weights W for all images, and separate gradients with respect to them.

    y_i = W * x_i for the copies x_i of image i, so dL/dx is one convolution over the whole batch, as usual. The weights
    are an expanded tensor (images, *shape), and autograd would sum dL/dW over the batch; the gradient of row i needs
    only the copies of image i: dL/dW_i is the weight gradient of the convolution of x_i alone.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, geometry: tuple[Any, ...]) -> Tensor:
        ctx.save_for_backward(x, weight)
        stride, padding, dilation, groups = ctx.geometry = geometry
        return torch.convolution(x, weight[0], None, stride, padding, dilation, False, [0] * len(stride), groups)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor, None]:
        x, weight = ctx.saved_tensors
        stride, padding, dilation, groups = ctx.geometry
        rest = (None, stride, padding, dilation, False, [0] * len(stride), groups)

        def gradients(dy: Tensor, x: Tensor, wanted: list[bool]) -> tuple[Tensor, ...]:
            result: tuple[Tensor, ...] = torch.ops.aten.convolution_backward(dy, x, weight[0], *rest, wanted)
            return result

        dx = gradients(dy, x, [True, False, False])[0] if ctx.needs_input_grad[0] else None
        pairs = zip(dy.chunk(len(weight)), x.chunk(len(weight)), strict=True)
        d_weight = torch.stack([gradients(dy_i, x_i, [False, True, False])[1] for dy_i, x_i in pairs])
        return dx, d_weight, None


def _layer_norm(layer: nn.LayerNorm, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    normal = F.layer_norm(x, layer.normalized_shape, None, None, layer.eps)
    images, inner = len(weights["weight"]), len(layer.normalized_shape)
    rows = grouped(normal, images)

    def broadcast(name: str) -> Tensor:
        return weights[name].view(images, *(1,) * (rows.ndim - 1 - inner), *layer.normalized_shape)

    result = rows * broadcast("weight")
    if layer.bias is not None:
        result = result + broadcast("bias")
    return result.flatten(0, 1)


def _group_norm(layer: nn.GroupNorm, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    return _affine(F.group_norm(x, layer.num_groups, None, None, layer.eps), weights["weight"], weights["bias"])


def _instance_norm(layer: _InstanceNorm, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    own = layer.running_mean is None
    normal = F.instance_norm(x, layer.running_mean, layer.running_var, None, None, own, 0.0, layer.eps)
    return _affine(normal, weights["weight"], weights["bias"])


def _affine(x: Tensor, scale: Tensor | None, shift: Tensor) -> Tensor:
    groups = grouped(x, len(shift))
    if scale is not None:
        groups = groups * expanded(scale, groups)
    return (groups + expanded(shift, groups)).flatten(0, 1)


RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: _linear,
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.Conv3d: _convolution,
    nn.LayerNorm: _layer_norm,
    nn.GroupNorm: _group_norm,
    _InstanceNorm: _instance_norm,
}
"""Kind of layer -> its forward pass with the weights of each image."""
