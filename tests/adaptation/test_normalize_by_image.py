"""A scale and a shift for each image and channel, against the same formula left to autograd."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from midway.adaptation.batch_norm.normalize_by_image import normalise_by_image


class MeanOfNeighbours(nn.Module):
    """Normalises each image with the statistics of itself and the next image of the batch."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(channels) + 0.5), nn.Parameter(torch.randn(channels))

    def scale_and_shift(
        self, mean: Tensor, square: Tensor, centre: Tensor, weight: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        pair_mean, pair_square = ((each + each.roll(1, 0)) / 2 for each in (mean, square))
        scale = (pair_square - pair_mean.square() + 0.1).rsqrt() * weight
        return scale, bias - pair_mean * scale


def plain(x: Tensor, layer: MeanOfNeighbours) -> Tensor:
    """The definition, with all pixels as they are."""
    pixels = x.flatten(2) if x.ndim > 2 else x[..., None]
    mean, square = pixels.mean(2), pixels.square().mean(2)
    scale, shift = layer.scale_and_shift(mean, square, torch.zeros(x.shape[1]), layer.weight, layer.bias)
    return (pixels * scale[..., None] + shift[..., None]).view_as(x)


SHAPES = {"vectors": (7, 3), "signals": (7, 3, 10), "images": (7, 3, 6, 5), "volumes": (7, 3, 4, 3, 2)}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("layout", ["contiguous", "channels last", "strided"])
def test_values_and_gradients_of_every_shape_and_layout(shape: tuple[int, ...], layout: str) -> None:
    torch.manual_seed(0)
    layer = MeanOfNeighbours(shape[1]).double()
    x = torch.randn(shape, dtype=torch.float64)
    if layout == "channels last":
        x = x.movedim(1, -1).contiguous().movedim(-1, 1)
    elif layout == "strided":
        x = torch.stack([x, x], -1)[..., 0]
    results = []
    for function in (normalise_by_image, plain):
        images = x.clone(memory_format=torch.preserve_format).requires_grad_()
        y = function(images, layer)
        results.append((y, *torch.autograd.grad((y * y.detach().sin()).sum(), [images, layer.weight, layer.bias])))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_rounded_once(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = MeanOfNeighbours(3)
    x = torch.randn(7, 3, 6, 5).to(dtype)
    y = normalise_by_image(x, layer)
    assert y.dtype == dtype
    torch.testing.assert_close(y, plain(x.float(), layer).to(dtype), rtol=torch.finfo(dtype).eps, atol=1e-3)


def test_a_batch_of_several_parts_is_that_of_one() -> None:
    torch.manual_seed(0)
    layer = MeanOfNeighbours(40)
    x = torch.randn(40, 40, 16, 16)  # more than the few images that are handled at a time
    torch.testing.assert_close(normalise_by_image(x, layer), plain(x, layer))
