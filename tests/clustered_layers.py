"""Images of two kinds, and a layer with clustered statistics beside its definition, for several test files."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from midway.adaptation.batch_norm.clustered import use_clustered_statistics


def images_of(kinds: list[int], seed: int = 0, size: int = 16) -> Tensor:
    """Images of two kinds that are far apart: 0 are noisy, 1 are smooth, in the given order."""
    generator = torch.Generator().manual_seed(seed)
    noisy = torch.rand(len(kinds), 3, size, size, generator=generator)
    smooth = nn.functional.avg_pool2d(torch.rand(len(kinds), 3, size + 4, size + 4, generator=generator), 5, stride=1)
    smooth = (0.9 * smooth + 0.1 * noisy).clamp(0, 1)
    return torch.where(torch.tensor(kinds).view(-1, 1, 1, 1) == 0, noisy, smooth)


class Recorded(nn.Module):
    """A layer behind a hook that sees the images, and the values that enter and leave it."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, images: Tensor) -> Tensor:
        self.entered = (3 * images - 1).requires_grad_()
        self.left: Tensor = self.layer(self.entered)
        return self.left.flatten(1)


def layer_and_model(prior: float = 3.0, memory: bool = True) -> tuple[nn.Module, Recorded]:
    torch.manual_seed(0)
    layer = nn.BatchNorm2d(3)
    layer.running_mean, layer.running_var = torch.randn(3), torch.rand(3) + 0.5
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    model = Recorded(layer)
    assert use_clustered_statistics(model, memory=memory, prior=prior) == [layer]
    return layer, model


def by_definition(
    x: Tensor, kinds: list[int], layer: nn.Module, prior: float, earlier: dict[int, list[Tensor]] | None = None
) -> Tensor:
    """The formulas of the module's docstring, for kinds that are certain. ``earlier`` are values of earlier batches."""
    answers = []
    for own, kind in zip(x, kinds, strict=True):
        same = torch.stack([other for other, theirs in zip(x, kinds, strict=True) if theirs == kind])
        pixels = same.transpose(0, 1).flatten(1)
        mean, variance, images = pixels.mean(1), pixels.var(1, correction=0), len(same)
        if earlier and kind in earlier and images < 64:
            before = torch.stack(earlier[kind]).transpose(0, 1).flatten(1)
            used = min(len(earlier[kind]), 64 - images)
            share = used / (images + used)
            far = before.mean(1) - mean
            variance = (1 - share) * variance + share * before.var(1, correction=0) + share * (1 - share) * far**2
            mean, images = mean + share * far, images + used
        mean = (images * mean + prior * layer.source_mean) / (images + prior)
        variance = (images * variance + prior * layer.source_var) / (images + prior)
        normal = (own - mean[:, None, None]) / (variance[:, None, None] + layer.eps).sqrt()
        answers.append(normal * layer.weight[:, None, None] + layer.bias[:, None, None])
    return torch.stack(answers)


ALTERNATING = [i % 3 % 2 for i in range(90)]
"""60 images of kind 0 and 30 of kind 1."""
