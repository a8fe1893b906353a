"""Random views of images as batched tensor operations: crops, flips and AugMix chains (Hendrycks et al., ICLR 2020).

Every view is a function of the image and of a row of uniform numbers drawn beforehand, so the views do not depend on
how many images are processed together or how a stream is split into batches.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Crop = Literal["pad", "resize"]
Fill = Literal["grey", "red"]

PAD = 4  # pixels, black
CHAINS, LINKS = 3, 3
CROP_NUMBERS = 5
_LINK_NUMBERS = 3  # which operation, how strong, which way
NUMBERS = CROP_NUMBERS + CHAINS + 1 + CHAINS * (1 + LINKS * _LINK_NUMBERS)
"""Uniform numbers for one view; `crops` uses the first five."""

SMALLEST_AREA = 0.08
LARGEST_RATIO = 4 / 3
GREY = 0.5  # the value outside the image
DARK_RED = (128 / 255, 0.0, 0.0)  # that of MEMO's published code, which gives Pillow one number for three channels
MAX_DEGREES, MAX_SHEAR, MAX_SHIFT, MAX_INVERTED = 3.0, 0.03, 1 / 30, 25.6  # severity 1 of 10, as published
POSTERIZED_LEVEL = 16  # four bits


def draw(images: int, views: int, generator: torch.Generator, numbers: int = NUMBERS) -> Tensor:
    """Draw the uniform numbers of views, (images, views, numbers), on the CPU."""
    return torch.rand(images, views, numbers, generator=generator, dtype=torch.float32)


def crops(images: Tensor, numbers: Tensor, crop: Crop = "pad") -> Tensor:
    """Crop and flip images (N, C, H, W) at random; return views (N, views, C, H, W).

    ``"pad"`` shifts by up to 4 pixels with black borders (CIFAR); ``"resize"`` selects 8 % to 100 % of the area at a
    ratio of 3/4 to 4/3 and resizes it to the whole image (ImageNet).
    """
    if images.element_size() < 4:  # half precision is too coarse for coordinates
        return crops(images.float(), numbers, crop).to(images)
    numbers = numbers.to(images)
    if crop == "pad":
        return _shifted(images, numbers)
    count, views = numbers.shape[:2]
    area = SMALLEST_AREA + (1 - SMALLEST_AREA) * numbers[..., 3]
    ratio = torch.exp((2 * numbers[..., 4] - 1) * math.log(LARGEST_RATIO))
    height, width = images.shape[2:]
    across = (area * ratio * height / width).sqrt().clamp(max=1)
    down = (area / ratio * width / height).sqrt().clamp(max=1)
    flip = torch.where(numbers[..., 2] < 0.5, -1.0, 1.0)
    zero = torch.zeros_like(area)
    first = torch.stack([across * flip, zero, (1 - across) * (2 * numbers[..., 0] - 1)], dim=-1)
    second = torch.stack([zero, down, (1 - down) * (2 * numbers[..., 1] - 1)], dim=-1)
    maps = torch.stack([first, second], dim=-2).flatten(0, 1)
    repeated = images.repeat_interleave(views, dim=0)
    grid = F.affine_grid(maps, list(repeated.shape), align_corners=False)
    sampled = F.grid_sample(repeated, grid, padding_mode="border", align_corners=False)
    return sampled.view(count, views, *images.shape[1:])


def _shifted(images: Tensor, numbers: Tensor) -> Tensor:
    padded = F.pad(images, (PAD,) * 4).permute(0, 2, 3, 1)
    height, width = images.shape[2:]
    down, across = ((2 * PAD + 1) * numbers[..., :2]).long().unbind(dim=-1)
    rows = down.unsqueeze(-1) + torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device).expand(*across.shape, width)
    columns = torch.where(numbers[..., 2:3] < 0.5, columns.flip(-1), columns) + across.unsqueeze(-1)
    image = torch.arange(len(images), device=images.device).view(-1, 1, 1, 1)
    return padded[image, rows.unsqueeze(-1), columns.unsqueeze(-2)].movedim(-1, 2)


def quarter_turns(views: Tensor, numbers: Tensor) -> Tensor:
    """Turn each view (..., H, W) by 0, 90, 180 or 270 degrees, which a uniform number of each selects.

    Views that are not square keep their shape: a number selects 0 or 180 degrees.
    """
    square = views.shape[-1] == views.shape[-2]
    turns = (numbers * 4).long() if square else 2 * (numbers * 2).long()
    turned = views.clone()
    for count in (1, 2, 3):
        chosen = turns == count
        if chosen.any():
            turned[chosen] = views[chosen].rot90(count, (-2, -1))
    return turned


def augmix_views(images: Tensor, numbers: Tensor, crop: Crop = "pad", fill: Fill = "grey") -> Tensor:
    """Return AugMix views in [0, 1]: crop and flip, then blend with three chains of one to three operations each.

    Operations: auto-contrast, equalise, rotate, solarise, shear and shift either way, posterise, at severity 1 as
    published for MEMO. Weights of the chains are Dirichlet(1, 1, 1), the share of the crop itself is Beta(1, 1).
    ``fill`` is the colour that rotations, shears and shifts bring in: ``"grey"``, or MEMO's published dark ``"red"``.
    """
    plain = crops(images.clamp(0, 1), numbers, crop)
    count, views = numbers.shape[:2]
    rows = numbers.to(images).flatten(0, 1)
    cropped = plain.flatten(0, 1)
    mixing, chains = rows[:, CROP_NUMBERS:].split([CHAINS + 1, CHAINS * (1 + LINKS * _LINK_NUMBERS)], dim=1)
    exponential = -(1 - mixing[:, :CHAINS]).clamp(min=1e-7).log()
    weights = exponential / exponential.sum(dim=1, keepdim=True).clamp(min=1e-30)
    links = chains.reshape(len(rows) * CHAINS, -1)
    outside = _outside(images, fill)
    chained = _run_chains(cropped.repeat_interleave(CHAINS, dim=0), links, outside).unflatten(0, (-1, CHAINS))
    mixed = (weights.view(-1, CHAINS, 1, 1, 1) * chained).sum(dim=1)
    blended = torch.lerp(mixed, cropped, mixing[:, CHAINS].view(-1, 1, 1, 1)).clamp_(0, 1)
    return blended.reshape(count, views, *images.shape[1:])


def _outside(images: Tensor, fill: Fill) -> Tensor:
    """Return the value outside the image in each channel; only images of three channels have a red one."""
    red = fill == "red" and images.shape[1] == len(DARK_RED)
    return images.new_tensor(DARK_RED if red else (GREY,)).view(-1, 1, 1)


def _run_chains(images: Tensor, numbers: Tensor, outside: Tensor) -> Tensor:
    """Apply one to three operations to each image, (N, C, H, W); the first number of a row determines how many."""
    length = 1 + (LINKS * numbers[:, 0]).long()
    for index, link in enumerate(numbers[:, 1:].split(_LINK_NUMBERS, dim=1)):
        active = index < length
        images = torch.where(active.view(-1, 1, 1, 1), _operate(images, link, active, outside), images)
    return images


def _operate(images: Tensor, link: Tensor, active: Tensor, outside: Tensor) -> Tensor:
    """Apply to each active image the operation that its numbers select."""
    choice = (9 * link[:, 0]).long()
    level = 0.1 + 0.9 * link[:, 1]
    sign = torch.where(link[:, 2] < 0.5, -1.0, 1.0).to(link)  # not in the default dtype
    result = images.clone()
    for number, operation in enumerate((autocontrast, equalize, posterize)):
        chosen = (active & (choice == number)).nonzero().flatten()
        if len(chosen):
            result[chosen] = operation(images[chosen])
    chosen = (active & (choice == 3)).nonzero().flatten()
    if len(chosen):
        result[chosen] = solarize(images[chosen], 256 - (MAX_INVERTED * level[chosen]).floor())
    chosen = (active & (choice > 3)).nonzero().flatten()
    if len(chosen):
        maps = _maps(choice[chosen], level[chosen], sign[chosen], *images.shape[2:])
        result[chosen] = warp(images[chosen], maps, outside)
    return result


def _maps(choice: Tensor, level: Tensor, sign: Tensor, height: int, width: int) -> Tensor:
    """Return the maps from output to input coordinates: rotations about the centre, shears, shifts, (N, 2, 3)."""
    angle = torch.deg2rad(-sign * (MAX_DEGREES * level).floor()) * (choice == 4)
    shear = sign * MAX_SHEAR * level
    shear_x, shear_y = shear * (choice == 5) * height / width, shear * (choice == 6) * width / height
    shift_x = 2 * sign * (MAX_SHIFT * width * level).floor() / width * (choice == 7)
    shift_y = 2 * sign * (MAX_SHIFT * height * level).floor() / height * (choice == 8)
    first = torch.stack([angle.cos(), angle.sin() * height / width + shear_x, shear_x + shift_x], dim=1)
    second = torch.stack([-angle.sin() * width / height + shear_y, angle.cos(), shear_y + shift_y], dim=1)
    return torch.stack([first, second], dim=1)


def warp(images: Tensor, maps: Tensor, outside: Tensor | float = GREY) -> Tensor:
    """Sample images bilinearly at coordinates mapped by (N, 2, 3), from -1 to 1; ``outside`` is the value around."""
    grid = F.affine_grid(maps, list(images.shape), align_corners=False)
    return F.grid_sample(images - outside, grid, align_corners=False) + outside


def autocontrast(images: Tensor) -> Tensor:
    """Stretch each channel of each image to [0, 1]; constant channels stay as they are."""
    low, high = images.amin(dim=(2, 3), keepdim=True), images.amax(dim=(2, 3), keepdim=True)
    return torch.where(high > low, (images - low) / (high - low).clamp(min=1e-6), images).clamp(0, 1)


def equalize(images: Tensor) -> Tensor:
    """Make the values of each channel of each image equally frequent, in 256 levels; constant channels stay."""
    levels = (255 * images).round().long().flatten(2)
    counts = torch.zeros(*levels.shape[:2], 256, device=images.device, dtype=torch.long)
    counts.scatter_add_(2, levels, torch.ones_like(levels))
    largest = levels.amax(dim=2, keepdim=True)
    step = (levels.shape[2] - counts.gather(2, largest)) // 255  # pixels per level, without the brightest level
    table = (counts.cumsum(dim=2) - counts + step // 2) // step.clamp(min=1)
    equal = table.clamp(max=255).gather(2, levels)
    return (torch.where(step > 0, equal, levels).to(images) / 255).view_as(images)


def posterize(images: Tensor) -> Tensor:
    """Reduce eight bits to the upper four."""
    return ((255 * images).round() / POSTERIZED_LEVEL).floor() * POSTERIZED_LEVEL / 255


def solarize(images: Tensor, thresholds: Tensor) -> Tensor:
    """Invert values at or above each image's threshold, in levels of 255."""
    return torch.where((255 * images).round() < thresholds.view(-1, 1, 1, 1), images, 1 - images)
