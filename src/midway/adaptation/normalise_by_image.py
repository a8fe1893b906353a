"""A normalisation with a scale and a shift for each image and channel, and its gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class NormaliseByImage(torch.autograd.Function):
    """y = s x + b with a scale s and a shift b for each image and channel, in few passes over the pixels.

    s and b depend on x only through two numbers for each image and channel, mean m = E[x - c] and mean square
    q = E[(x - c)^2] relative to a constant centre c (the mean of the batch, which avoids cancellation). Autograd
    differentiates the small function (m, q, weight, bias) -> (s, b); the passes over the pixels are written by hand.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, layer: Any) -> Tensor:
        """Return y; ``layer.scale_and_shift`` computes s and b."""
        pixels = tuple(range(2, x.ndim))
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


def _moments(x: Tensor, exact: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return mean and variance of each image and channel, a few images at a time, which stay in the cache."""
    if x.ndim == 2:
        return x.to(exact), torch.zeros_like(x, dtype=exact)
    pixels, few = tuple(range(2, x.ndim)), max(1, 2**18 // x[0].numel())
    means, variances = [], []
    for some in x.split(few):
        means.append(some.mean(pixels, dtype=exact))
        variances.append((some - _expanded(means[-1], some)).square_().mean(pixels))
    return torch.cat(means), torch.cat(variances)


def _expanded(values: Tensor, x: Tensor) -> Tensor:
    """Give values of channels, or of images and channels, the number of dimensions of the images."""
    return values.view(*[1] * (2 - values.ndim), *values.shape, *[1] * (x.ndim - 2))
