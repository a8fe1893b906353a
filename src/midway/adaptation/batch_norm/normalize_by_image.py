"""A normalisation with a scale and a shift for each image and channel, and its gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def normalise_by_image(x: Tensor, layer: Any) -> Tensor:
    """Return s x + b for images (N, C, ...), or outputs of a linear layer (N, C), each of which is one pixel."""
    pixels = x if x.ndim > 2 else x[..., None]
    y: Tensor = NormaliseByImage.apply(pixels, layer.weight, layer.bias, layer)  # type: ignore[no-untyped-call]
    return y.view_as(x)


class NormaliseByImage(torch.autograd.Function):
    """y = s x + b with a scale s and a shift b for each image and channel, in few passes over the pixels.

    s and b depend on x only through two numbers for each image and channel, mean m = E[x - c] and mean square
    q = E[(x - c)^2] relative to a constant centre c (the mean of the batch, which avoids cancellation). Autograd
    differentiates the small function (m, q, weight, bias) -> (s, b); the passes over the pixels are written by hand.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, layer: Any) -> Tensor:
        """Return y; ``layer.scale_and_shift`` computes s and b."""
        exact = torch.promote_types(x.dtype, torch.float32)
        with torch.autocast(x.device.type, enabled=False):
            mean, variance = _moments(x, exact)
            centre = mean.mean(0)
            mean = (mean - centre).requires_grad_()
            square = (variance + mean.detach().square()).requires_grad_()
            weight, bias = (None if each is None else each.detach().requires_grad_() for each in (weight, bias))
            with torch.enable_grad():
                scale, shift = layer.scale_and_shift(mean, square, centre, weight, bias)
                shift = shift - centre * scale  # s (x - c) + b' = s x + (b' - s c)
            ctx.save_for_backward(x, centre)
            ctx.inputs, ctx.outputs = (mean, square, weight, bias), (scale, shift)
            return _scaled(x, scale.detach(), shift.detach())

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
        exact, pixels = centre.dtype, tuple(range(2, x.ndim))
        d_scale, d_shift = torch.empty_like(ctx.outputs[0]), torch.empty_like(ctx.outputs[0])
        for some, its_dy, its_d_scale, its_d_shift in _parts(x, dy, d_scale, d_shift):
            exact_dy = its_dy.to(exact)
            torch.sum(exact_dy * some, pixels, keepdim=True, out=its_d_scale)
            torch.sum(exact_dy, pixels, keepdim=True, out=its_d_shift)
        present = [each for each in ctx.inputs if each is not None]
        gradients = iter(torch.autograd.grad(ctx.outputs, present, (d_scale, d_shift), retain_graph=True))
        d_mean, d_square, d_weight, d_bias = (None if each is None else next(gradients) for each in ctx.inputs)
        if not ctx.needs_input_grad[0]:
            return None, d_weight, d_bias, None
        count = x[0, 0].numel()
        slope = 2 / count * d_square
        constant = d_mean / count - slope * centre
        dx = torch.empty_like(x)
        for some, its_dy, into, *factors in _parts(x, dy, dx, ctx.outputs[0].detach(), slope, constant):
            its_scale, its_slope, its_constant = factors
            whole = torch.addcmul(its_constant, its_dy.to(exact), its_scale)
            into.copy_(whole.addcmul_(some.to(exact), its_slope))
        return dx, d_weight, d_bias, None


def _moments(x: Tensor, exact: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return mean and variance of each image and channel."""
    pixels = tuple(range(2, x.ndim))
    means = x.new_empty(x.shape[:2], dtype=exact)
    variances = torch.empty_like(means)
    for some, mean, variance in _parts(x, means, variances):
        values = some.to(exact)
        torch.mean(values, pixels, keepdim=True, out=mean)
        torch.mean((values - mean).square_(), pixels, keepdim=True, out=variance)
    return means, variances


def _scaled(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Return scale x + shift in the type of x, computed in the type of the scale."""
    y = torch.empty_like(x)
    for some, into, its_scale, its_shift in _parts(x, y, scale, shift):
        if x.dtype == scale.dtype:
            torch.addcmul(its_shift, some, its_scale, out=into)
        else:
            into.copy_(torch.addcmul(its_shift, some.to(scale.dtype), its_scale))
    return y


def _parts(x: Tensor, *others: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield a few images at a time, whose intermediate results stay in the cache, with their part of other tensors.

    Values of images and channels get the number of dimensions of the images.
    """
    few = max(1, 2**18 // max(1, x[0].numel()))
    shaped = (each.view(*each.shape, *[1] * (x.ndim - each.ndim)) for each in others)
    return zip(x.split(few), *(each.split(few) for each in shaped), strict=True)
