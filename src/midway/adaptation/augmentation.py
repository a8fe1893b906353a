"""The random augmentation of CoTTA, which RoTTA, SANTA, ROID and CMF share (Wang et al., CVPR 2022).

Colour jitter, a rotation with shift and zoom about the centre, blur, flip and pixel noise, in batched operations.
An augmented image is a function of the image, of a row of uniform numbers, and of the pixel noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Padding = Literal["replicate", "reflect"]

RANGES = ((0.6, 1.4), (0.7, 1.3), (0.5, 1.5), (-0.06, 0.06), (0.7, 1.3))
"""Smallest and largest brightness, contrast, saturation, hue shift (in turns) and gamma."""

DEGREES, SHIFT, ZOOM = 15.0, 1 / 16, 0.1
"""Largest rotation, largest shift as a share of the padded side, largest deviation of the scale from 1."""

SIGMAS = (0.001, 0.5)
REACH = 2  # pixels on each side in the blur's kernel of five
DARKEST = 1e-8  # the derivative of x ** gamma is infinite at 0
LUMA = (0.2989, 0.587, 0.114)
NUMBERS = 2 * len(RANGES) + 6
"""Uniform numbers for one draw: order and strength of the jitter, angle, two shifts, zoom, blur, flip."""


@dataclass(frozen=True)
class Augmentation:
    """Random augmentation of images (N, C, H, W) in [0, 1].

    As published, one draw of all factors, the flip included, serves the whole batch, and only the pixel noise differs
    from image to image.

    Args:
        padding: What surrounds an image before it is rotated: its edge, or its reflection (ROID, CMF).
        blur: Blur with a standard deviation of up to half a pixel (not in ROID and CMF).
        noise: Standard deviation of the pixel noise (CoTTA: 0.005; ROID and CMF: 0).
        per_image: Draw for each image, which is not published and makes the augmentation stronger.

    Example:
        >>> import torch
        >>> from midway.adaptation.augmentation import Augmentation
        >>> augmented = Augmentation()(torch.rand(4, 3, 32, 32), torch.Generator().manual_seed(0))
        >>> augmented.shape, 0 <= augmented.min() <= augmented.max() <= 1
        (torch.Size([4, 3, 32, 32]), tensor(True))
    """

    padding: Padding = "replicate"
    blur: bool = True
    noise: float = 0.005
    per_image: bool = False

    @torch.no_grad()
    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return augmented images in [0, 1]; the generator may be on the CPU or on the images' device."""
        rows = len(images) if self.per_image else 1
        numbers = torch.rand(rows, NUMBERS, generator=generator, device=generator.device, dtype=torch.float32)
        noise = None
        if self.noise:
            noise = torch.randn(images.shape, generator=generator, device=generator.device, dtype=torch.float32)
        return self.apply(images, numbers, noise)

    @torch.no_grad()
    def apply(self, images: Tensor, numbers: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the images augmented by uniform numbers (N or 1, ``NUMBERS``) and standard normal noise."""
        with torch.autocast(images.device.type, enabled=False):
            precise = images.to(torch.promote_types(images.dtype, torch.float32))  # half is too coarse for coordinates
            numbers = numbers.to(precise)
            augmented = jitter(precise.clamp(0, 1), numbers[:, : 2 * len(RANGES)])
            angle, across, down, zoom, sigma, flip = numbers[:, 2 * len(RANGES) :].unbind(dim=1)
            reach = REACH if self.blur else 0
            augmented = _moved(augmented, angle, across, down, zoom, padding=self.padding, margin=reach)
            if self.blur:
                augmented = blurred(augmented, SIGMAS[0] + (SIGMAS[1] - SIGMAS[0]) * sigma)
            augmented = torch.where(flip.view(-1, 1, 1, 1) < 0.5, augmented.flip(-1), augmented)
            if noise is not None:
                augmented = augmented + self.noise * noise.to(augmented)
            return augmented.clamp(0, 1).to(images.dtype)


def jitter(images: Tensor, numbers: Tensor) -> Tensor:
    """Change brightness, contrast, saturation, hue and gamma in random order; uniform numbers (N or 1, 10)."""
    order = numbers[:, : len(RANGES)].argsort(dim=1)
    for position in range(len(RANGES)):
        for index, (operation, (low, high)) in enumerate(zip(_OPERATIONS, RANGES, strict=True)):
            chosen = order[:, position] == index
            factors = (low + (high - low) * numbers[:, len(RANGES) + index]).view(-1, 1, 1, 1)
            if chosen.all():
                images = operation(images, factors)
            elif chosen.any():
                images = images.index_put((chosen,), operation(images[chosen], factors[chosen]))
    return images


def grey(images: Tensor) -> Tensor:
    """Return the luminance of three channels, (N, 1, H, W); the mean of any other number of channels."""
    if images.shape[1] != 3:
        return images.mean(dim=1, keepdim=True)
    return torch.einsum("nchw,c->nhw", images, images.new_tensor(LUMA)).unsqueeze(1)


def change_brightness(images: Tensor, factor: Tensor) -> Tensor:
    """Multiply all values."""
    return (factor * images).clamp(0, 1)


def change_contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Multiply the distance of all values from the mean luminance of the image."""
    mean = grey(images).mean(dim=(2, 3), keepdim=True)
    return torch.lerp(mean, images, factor).clamp(0, 1)


def change_saturation(images: Tensor, factor: Tensor) -> Tensor:
    """Multiply the distance of colours from grey; images without three channels stay as they are."""
    return torch.lerp(grey(images), images, factor).clamp(0, 1) if images.shape[1] == 3 else images


def change_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Rotate the colours around the colour circle; images without three channels stay as they are."""
    if images.shape[1] != 3:
        return images
    red, green, blue = images.unbind(dim=1)
    value, chroma = images.amax(dim=1), images.amax(dim=1) - images.amin(dim=1)
    safe = torch.where(chroma > 0, chroma, 1)  # a grey pixel has no hue, and stays grey for any
    hue = torch.where(value == green, (blue - red) / safe + 2, (red - green) / safe + 4)
    hue = torch.where(value == red, (green - blue) / safe, hue) + 6 * turns.flatten(1, 2)
    # A channel is at its value less the chroma, except within 120 degrees of its own colour.
    sextants = (hue.unsqueeze(1) + hue.new_tensor([5, 3, 1]).view(1, 3, 1, 1)).remainder(6)
    return value.unsqueeze(1) - chroma.unsqueeze(1) * torch.minimum(sextants, 4 - sextants).clamp(0, 1)


def change_gamma(images: Tensor, gamma: Tensor) -> Tensor:
    """Raise all values to a power."""
    return images.clamp(DARKEST, 1) ** gamma


_OPERATIONS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    change_brightness,
    change_contrast,
    change_saturation,
    change_hue,
    change_gamma,
)


def _moved(
    images: Tensor, angle: Tensor, across: Tensor, down: Tensor, zoom: Tensor, *, padding: Padding, margin: int
) -> Tensor:
    """Pad images, rotate, shift and zoom them, and return their centre, with a margin; uniform numbers (N or 1)."""
    height, width = images.shape[2:]
    half_height, half_width = height // 2, width // 2
    padded = F.pad(images, (half_width, half_width, half_height, half_height), mode=padding)
    radians = torch.deg2rad(DEGREES * (2 * angle - 1))
    scale = 1 + ZOOM * (2 * zoom - 1)
    shifts = [  # in whole pixels
        ((2 * number - 1) * SHIFT * side).round()
        for number, side in ((across, padded.shape[3]), (down, padded.shape[2]))
    ]
    # Only the centre is sampled: an output pixel at (x, y) from the centre is the input at R (x - shift) / scale.
    x = torch.arange(width + 2 * margin).to(images) - (width - 1) / 2 - margin
    y = torch.arange(height + 2 * margin).to(images) - (height - 1) / 2 - margin
    x = x.view(1, 1, -1) - shifts[0].view(-1, 1, 1)
    y = y.view(1, -1, 1) - shifts[1].view(-1, 1, 1)
    cos, sin = ((turn / scale).view(-1, 1, 1) for turn in (radians.cos(), radians.sin()))
    columns = (cos * x + sin * y) * 2 / padded.shape[3]
    rows = (cos * y - sin * x) * 2 / padded.shape[2]
    grid = torch.stack([columns, rows], dim=-1).expand(len(images), -1, -1, -1)
    return F.grid_sample(padded, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def blurred(images: Tensor, sigma: Tensor) -> Tensor:
    """Blur with Gaussian kernels of five pixels, (N or 1) standard deviations; the result is two pixels smaller."""
    distance = torch.arange(-REACH, REACH + 1).to(images)
    kernels = torch.softmax(-0.5 * (distance / sigma.view(-1, 1)) ** 2, dim=1)
    for dim in (2, 3):
        size = images.shape[dim] - 2 * REACH
        weights = kernels.view(-1, 1, 1, 1, 2 * REACH + 1).unbind(dim=-1)
        images = sum((w * images.narrow(dim, i, size) for i, w in enumerate(weights)), start=images.new_zeros(()))
    return images
