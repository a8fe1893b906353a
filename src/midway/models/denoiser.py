"""A small noise-predicting U-Net for diffusion on 32x32 images, and the schedule of its noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

GROUPS = 8


def cosine_schedule(steps: int = 1000, *, offset: float = 0.008, largest_beta: float = 0.999) -> Tensor:
    """Return the share of the image's variance that is left at each of the noise levels, decreasing (float64).

    The level t mixes ``sqrt(share[t])`` of the image with ``sqrt(1 - share[t])`` of Gaussian noise (Nichol and
    Dhariwal, ICML 2021). Unlike the linear schedule, it leaves half of the levels to images that are still visible at
    32x32 pixels.

    Example:
        >>> cosine_schedule(4).numpy().round(3).tolist()
        [0.847, 0.494, 0.144, 0.0]
    """
    at = (torch.arange(steps + 1, dtype=torch.float64) / steps + offset) / (1 + offset)
    shares = (at * math.pi / 2).cos().square()
    return (1 - (1 - shares[1:] / shares[:-1]).clamp(max=largest_beta)).cumprod(0)


def linear_schedule(steps: int = 1000) -> Tensor:
    """Return the shares of ``cosine_schedule`` for variances that grow linearly (Ho et al., NeurIPS 2020; float64).

    Example:
        >>> linear_schedule()[[0, 499, 999]].numpy().round(4).tolist()
        [0.9999, 0.0786, 0.0]
    """
    return (1 - torch.linspace(0.1 / steps, 20 / steps, steps, dtype=torch.float64).clamp(max=0.999)).cumprod(0)


class DenoiserBlock(nn.Module):
    """Residual block: twice GroupNorm, SiLU and 3x3 convolution; the noise level scales and shifts in between."""

    def __init__(self, in_channels: int, out_channels: int, embedding: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(GROUPS, in_channels)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.level = nn.Linear(embedding, 2 * out_channels)
        self.norm2 = nn.GroupNorm(GROUPS, out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1)
        self.shortcut = nn.Identity() if in_channels == out_channels else nn.Conv2d(in_channels, out_channels, 1)
        nn.init.zeros_(self.conv2.weight)  # each block starts as its shortcut, which speeds the training up
        nn.init.zeros_(self.conv2.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        """Add the residual to the shortcut."""
        scale, shift = self.level(level)[:, :, None, None].chunk(2, dim=1)
        hidden = self.conv1(F.silu(self.norm1(x)))
        hidden = self.conv2(F.silu(self.norm2(hidden) * (1 + scale) + shift))
        residual: Tensor = self.shortcut(x) + hidden
        return residual


class Denoiser(nn.Module):
    """U-Net that predicts the noise in images (N, C, H, W) in [-1, 1] that were mixed with Gaussian noise.

    It works on squares of 2x2 pixels, at half the resolution from the first layer on, which makes it cheap on CPUs.
    Images whose sides are not multiples of 8 (for three resolutions) are padded and cropped.

    Args:
        channels: Channels of the images.
        widths: Channels of the layers at each resolution; each is half the one before.
        blocks: Residual blocks at each resolution, on the way down and again on the way up.
        embedding: Size of the embedding of the noise level.
        levels: Number of noise levels of the cosine schedule.

    Attributes:
        alphas_cumprod: The schedule: the share of the image's variance that is left at each noise level.

    Example:
        >>> import torch
        >>> denoiser = Denoiser(widths=(8, 16), blocks=(1, 1))
        >>> denoiser(torch.randn(2, 3, 32, 32), torch.tensor([10, 500])).shape
        torch.Size([2, 3, 32, 32])
    """

    def __init__(
        self,
        *,
        channels: int = 3,
        widths: Sequence[int] = (48, 80, 96),
        blocks: Sequence[int] = (1, 1, 2),
        embedding: int = 128,
        levels: int = 1000,
    ) -> None:
        super().__init__()
        if len(widths) != len(blocks):
            raise ValueError(f"widths and blocks must have one entry per resolution, got {widths} and {blocks}.")
        self.multiple = 2 ** len(widths)
        half = embedding // 2
        self.frequencies = torch.logspace(0, -4, half, dtype=torch.float32)
        self.alphas_cumprod = cosine_schedule(levels)  # no buffers: both keep their precision in every network
        self.level = nn.Sequential(nn.Linear(2 * half, embedding), nn.SiLU(), nn.Linear(embedding, embedding))
        self.first = nn.Conv2d(4 * channels, widths[0], 3, padding=1)
        self.down, self.up, self.join = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        last = widths[0]
        for width, count in zip(widths, blocks, strict=True):
            self.down.append(self._stage(last, width, count, embedding))
            last = width
        for width, count in reversed(list(zip(widths[:-1], blocks[:-1], strict=True))):
            # Skip connections are added, not concatenated: half the cost of the widest convolutions.
            self.join.append(nn.Conv2d(last, width, 1))
            self.up.append(self._stage(width, width, count, embedding))
            last = width
        self.norm = nn.GroupNorm(GROUPS, last)
        self.last = nn.Conv2d(last, 4 * channels, 3, padding=1)

    @staticmethod
    def _stage(in_channels: int, width: int, count: int, embedding: int) -> nn.ModuleList:
        sizes = [in_channels, *[width] * count]
        return nn.ModuleList(DenoiserBlock(a, b, embedding) for a, b in pairwise(sizes))

    def forward(self, noisy: Tensor, t: Tensor) -> Tensor:
        """Return the noise in each image; ``t`` holds the noise levels, (N,), counted from 0."""
        height, width = noisy.shape[-2:]
        missing = (-height % self.multiple, -width % self.multiple)
        if any(missing):
            noisy = F.pad(noisy, (0, missing[1], 0, missing[0]), mode="replicate")
        angles = t[:, None] * self.frequencies.to(t.device)
        level = F.silu(self.level(torch.cat([angles.sin(), angles.cos()], dim=1).to(noisy.dtype)))
        hidden = self.first(F.pixel_unshuffle(noisy, 2))
        skips: list[Tensor] = []
        for depth, stage in enumerate(self.down):
            hidden = F.avg_pool2d(hidden, 2) if depth else hidden
            hidden = self._through(stage, hidden, level)
            skips.append(hidden)
        skips.pop()
        for join, stage in zip(self.join, self.up, strict=True):
            hidden = F.interpolate(join(hidden), scale_factor=2.0) + skips.pop()
            hidden = self._through(stage, hidden, level)
        noise = F.pixel_shuffle(self.last(F.silu(self.norm(hidden))), 2)
        return noise[..., :height, :width] if any(missing) else noise

    @staticmethod
    def _through(stage: nn.Module, hidden: Tensor, level: Tensor) -> Tensor:
        for block in stage.children():
            hidden = block(hidden, level)
        return hidden
