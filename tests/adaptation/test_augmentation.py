"""The augmentation against plain second implementations, operation by operation and as a whole."""

from __future__ import annotations

import colorsys
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from midway.adaptation import augmentation as a
from midway.adaptation.augmentation import NUMBERS, RANGES, Augmentation


def photos(count: int = 2, side: int = 8, *, channels: int = 3, seed: int = 0) -> Tensor:
    return torch.rand(count, channels, side, side, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_brightness_contrast_saturation_and_gamma_by_hand() -> None:
    images = torch.tensor([[0.2, 0.4], [0.6, 1.0], [0.0, 0.8]]).view(1, 3, 1, 2)
    factor = torch.tensor([[[[1.5]]]])
    grey = [0.2989 * 0.2 + 0.587 * 0.6, 0.2989 * 0.4 + 0.587 + 0.114 * 0.8]
    torch.testing.assert_close(a.grey(images).flatten(), torch.tensor(grey))
    expected = torch.tensor([[0.3, 0.6], [0.9, 1.0], [0.0, 1.0]])
    torch.testing.assert_close(a.change_brightness(images, factor)[0, :, 0], expected)
    mean = sum(grey) / 2
    expected = torch.tensor([[1.5 * value - 0.5 * mean for value in row] for row in images[0, :, 0].tolist()])
    torch.testing.assert_close(a.change_contrast(images, factor)[0, :, 0], expected.clamp(0, 1))
    expected = torch.tensor(
        [[1.5 * value - 0.5 * g for value, g in zip(row, grey, strict=True)] for row in images[0, :, 0].tolist()]
    )
    torch.testing.assert_close(a.change_saturation(images, factor)[0, :, 0], expected.clamp(0, 1))
    expected = torch.tensor([[0.2**1.5, 0.4**1.5], [0.6**1.5, 1.0], [1e-12, 0.8**1.5]])
    torch.testing.assert_close(a.change_gamma(images, factor)[0, :, 0], expected)


@pytest.mark.parametrize("turns", [-0.06, 0.0, 0.03, 0.4])
def test_hue_is_that_of_colorsys(turns: float) -> None:
    images = photos()
    images[0, :, 0, 0] = 0.3  # grey has no hue
    images[0, :, 0, 1] = 0.0
    images[0, :, 0, 2] = torch.tensor([0.7, 0.7, 0.1])  # two channels share the value
    changed = a.change_hue(images, torch.tensor(turns).view(1, 1, 1, 1))
    for image, y, x in itertools.product(range(2), range(8), range(8)):
        h, s, v = colorsys.rgb_to_hsv(*images[image, :, y, x].tolist())
        expected = colorsys.hsv_to_rgb((h + turns) % 1, s, v)
        torch.testing.assert_close(changed[image, :, y, x], torch.tensor(expected, dtype=torch.float64))


def test_the_jitter_applies_five_operations_in_the_order_of_the_numbers() -> None:
    images = photos()
    order = torch.tensor([[3, 0, 4, 1, 2], [1, 2, 0, 4, 3]])  # ranks: which position an operation has
    strengths = torch.tensor([[0.1, 0.9, 0.3, 0.8, 0.4], [0.7, 0.2, 0.6, 0.05, 0.5]])
    changed = a.jitter(images, torch.cat([order / 5, strengths], dim=1).double())
    operations = (a.change_brightness, a.change_contrast, a.change_saturation, a.change_hue, a.change_gamma)
    for image in range(2):
        expected = images[image : image + 1]
        for position in range(5):
            index = order[image].tolist().index(position)
            low, high = RANGES[index]
            factor = low + (high - low) * strengths[image, index].double()
            expected = operations[index](expected, factor.view(1, 1, 1, 1))
        torch.testing.assert_close(changed[image : image + 1], expected)


def naive_motion(image: Tensor, angle: float, shift: tuple[int, int], zoom: float, padding: str) -> Tensor:
    """Pad a channel by half its side, move every pixel of the padded square, bilinear, black outside."""
    side = len(image)
    half = side // 2
    large = side + 2 * half

    def padded(y: int, x: int) -> float:
        if not (0 <= y < large and 0 <= x < large):
            return 0.0
        y, x = y - half, x - half
        if padding == "replicate":
            return image[min(max(y, 0), side - 1), min(max(x, 0), side - 1)].item()
        y, x = (-i if i < 0 else 2 * (side - 1) - i if i >= side else i for i in (y, x))
        return image[y, x].item()

    centre = (large - 1) / 2
    result = torch.zeros(large, large, dtype=torch.float64)
    for y, x in itertools.product(range(large), range(large)):
        dx, dy = x - centre - shift[0], y - centre - shift[1]
        from_x = (math.cos(angle) * dx + math.sin(angle) * dy) / zoom + centre
        from_y = (-math.sin(angle) * dx + math.cos(angle) * dy) / zoom + centre
        left, top = math.floor(from_x), math.floor(from_y)
        right_share, lower_share = from_x - left, from_y - top
        result[y, x] = (
            (1 - lower_share) * ((1 - right_share) * padded(top, left) + right_share * padded(top, left + 1))
        ) + lower_share * ((1 - right_share) * padded(top + 1, left) + right_share * padded(top + 1, left + 1))
    return result


def naive_blur(image: Tensor, sigma: float) -> Tensor:
    weights = [math.exp(-0.5 * (d / sigma) ** 2) for d in range(-2, 3)]
    result = torch.zeros_like(image)
    for y, x in itertools.product(range(2, len(image) - 2), range(2, len(image) - 2)):
        result[y, x] = sum(
            weights[i] * weights[j] / sum(weights) ** 2 * image[y + i - 2, x + j - 2]
            for i, j in itertools.product(range(5), range(5))
        )
    return result


@pytest.mark.parametrize("side", [8, 9])
@pytest.mark.parametrize("padding", ["replicate", "reflect"])
def test_motion_blur_flip_and_noise_agree_with_plain_loops(padding: a.Padding, side: int) -> None:
    images, noise = photos(1, side), photos(1, side, seed=5)
    for row in torch.rand(4, NUMBERS, generator=generator(3), dtype=torch.float64):
        augmentation = Augmentation(padding=padding)
        jittered = a.jitter(images, row[None, :10])
        angle, across, down, zoom, sigma, flip = row[10:].tolist()
        expected = []
        large = side + 2 * (side // 2)
        for channel in jittered[0]:
            shift = (round((2 * across - 1) * large / 16), round((2 * down - 1) * large / 16))
            moved = naive_motion(channel, math.radians(15 * (2 * angle - 1)), shift, 1 + 0.1 * (2 * zoom - 1), padding)
            moved = naive_blur(moved, 0.001 + 0.499 * sigma)
            half = side // 2
            centre = moved[half : half + side, half : half + side]
            expected.append(centre.flip(1) if flip < 0.5 else centre)
        result = augmentation.apply(images, row[None], noise)
        torch.testing.assert_close(result[0], (torch.stack(expected) + 0.005 * noise[0]).clamp(0, 1))


def test_the_middle_of_all_ranges_changes_nothing() -> None:
    numbers = torch.full((1, NUMBERS), 0.5).double()  # factor 1, angle 0, no flip from 0.5 on
    images = photos(side=32).clamp(min=1e-6)
    torch.testing.assert_close(Augmentation(blur=False).apply(images, numbers), images)
    numbers[0, -2] = 0  # a standard deviation of 0.001 pixel
    torch.testing.assert_close(Augmentation().apply(images, numbers), images)


def test_one_draw_serves_the_batch_and_only_the_noise_differs() -> None:
    images = photos(1, 16).float().expand(5, -1, -1, -1)
    silent = Augmentation(noise=0)(images, generator())
    assert all(torch.equal(image, silent[0]) for image in silent)
    noisy = Augmentation(noise=0.005)(images, generator())
    assert all(not torch.equal(image, noisy[0]) for image in noisy[1:])
    assert 0.003 < (noisy - silent).std() < 0.006
    apart = Augmentation(noise=0, per_image=True)(images, generator())
    assert all(not torch.equal(image, apart[0]) for image in apart[1:])


def test_an_image_depends_on_its_own_row_alone() -> None:
    images = photos(6, 12)
    numbers = torch.rand(6, NUMBERS, generator=generator(), dtype=torch.float64)
    together = Augmentation(per_image=True).apply(images, numbers)
    for index in range(6):
        alone = Augmentation().apply(images[index : index + 1], numbers[index : index + 1])
        torch.testing.assert_close(together[index : index + 1], alone)


def test_the_seed_decides_and_half_of_the_draws_flip() -> None:
    images = photos(3).float()
    first, second, third = (Augmentation()(images, generator(seed)) for seed in (7, 7, 8))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    flips = torch.rand(2000, NUMBERS, generator=generator())[:, -1] < 0.5
    assert 0.45 < flips.float().mean() < 0.55


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    side=st.integers(1, 40),
    channels=st.sampled_from([1, 2, 3]),
    per_image=st.booleans(),
    padding=st.sampled_from(["replicate", "reflect"]),
)
def test_values_stay_in_range_for_images_of_any_size(
    seed: int, side: int, channels: int, per_image: bool, padding: a.Padding
) -> None:
    images = 1.4 * photos(3, side, channels=channels, seed=seed).float() - 0.2  # a small overshoot is accepted
    before = images.clone()
    result = Augmentation(padding=padding, per_image=per_image)(images, generator(seed))
    assert torch.equal(images, before)
    assert (result.shape, result.dtype) == (images.shape, images.dtype)
    assert result.isfinite().all()
    assert 0 <= result.min() <= result.max() <= 1


def test_half_precision_images_keep_their_type_and_oblong_ones_their_shape() -> None:
    images = torch.rand(2, 3, 20, 12, generator=generator())
    precise = Augmentation(noise=0)(images, generator())
    coarse = Augmentation(noise=0)(images.bfloat16(), generator())
    assert coarse.dtype == torch.bfloat16
    torch.testing.assert_close(coarse.float(), precise, atol=0.02, rtol=0)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(Augmentation(noise=0)(images, generator()), precise)
