from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from torch import Tensor

from midway.adaptation import views as v


def photo(seed: int = 0, side: int = 16) -> Tensor:
    """An image with whole 8-bit levels and smooth content."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(1, 3, 4, 4, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (side, side), mode="bilinear")[0]
    return (smooth * 200 + 20).round() / 255


def to_pil(image: Tensor) -> Image.Image:
    return Image.fromarray((image * 255).round().to(torch.uint8).permute(1, 2, 0).numpy())


def from_pil(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255


def test_point_operations_are_those_of_pillow() -> None:
    images = torch.stack([photo(seed, side) for seed, side in ((0, 32), (1, 32))])
    for image, contrasted, equal, posted, solar in zip(
        images,
        v.autocontrast(images),
        v.equalize(images),
        v.posterize(images),
        v.solarize(images, torch.tensor([100.0, 180.0])),
        strict=True,
    ):
        threshold = 100 if torch.equal(image, images[0]) else 180
        torch.testing.assert_close(contrasted, from_pil(ImageOps.autocontrast(to_pil(image))), atol=1.01 / 255, rtol=0)
        torch.testing.assert_close(equal, from_pil(ImageOps.equalize(to_pil(image))))
        torch.testing.assert_close(posted, from_pil(ImageOps.posterize(to_pil(image), 4)))
        torch.testing.assert_close(solar, from_pil(ImageOps.solarize(to_pil(image), threshold)))


def test_flat_images_survive_contrast_and_equalisation() -> None:
    flat = torch.full((1, 3, 8, 8), 0.4)
    assert torch.equal(v.autocontrast(flat), flat)
    torch.testing.assert_close(v.equalize(flat), flat, atol=0.5 / 255, rtol=0)


@pytest.mark.parametrize(
    ("choice", "coefficients"),
    [
        (5, lambda s: (1, s * 0.03, 0, 0, 1, 0)),
        (6, lambda s: (1, 0, 0, s * 0.03, 1, 0)),
        (7, lambda s: (1, 0, s * 2, 0, 1, 0)),
        (8, lambda s: (1, 0, 0, 0, 1, s * 2)),
    ],
    ids=["shear x", "shear y", "shift x", "shift y"],
)
@pytest.mark.parametrize("sign", [-1, 1])
def test_geometry_is_that_of_pillow(choice: int, coefficients: object, sign: int) -> None:
    image = photo(side=60)  # shifts of 60 / 30 = 2 pixels at full level
    maps = v._maps(torch.tensor([choice]), torch.tensor([1.0]), torch.tensor([float(sign)]), 60, 60)
    expected = to_pil(image).transform(
        (60, 60),
        Image.Transform.AFFINE,
        coefficients(sign),  # type: ignore[operator]
        resample=Image.Resampling.BILINEAR,
    )
    inside = (slice(None), slice(4, -4), slice(4, -4))
    torch.testing.assert_close(v.warp(image[None], maps)[0][inside], from_pil(expected)[inside], atol=1.5 / 255, rtol=0)


def test_rotation_is_that_of_pillow_with_grey_corners() -> None:
    image = photo(side=33)
    maps = v._maps(torch.tensor([4]), torch.tensor([0.7]), torch.tensor([1.0]), 33, 33)  # floor(3 * 0.7) degrees
    turned = v.warp(image[None], maps)[0]
    expected = from_pil(to_pil(image).rotate(2, resample=Image.Resampling.BILINEAR))
    inside = (slice(None), slice(3, -3), slice(3, -3))
    torch.testing.assert_close(turned[inside], expected[inside], atol=1.5 / 255, rtol=0)
    far = torch.tensor([[[1.0, 0.0, 3.0], [0.0, 1.0, 0.0]]])
    assert (v.warp(image[None], far) == 0.5).all()


def test_the_published_border_is_what_pillow_makes_of_one_grey_value() -> None:
    """Pillow reads the fill colour 128 of an RGB image as red = 128, green = blue = 0."""
    image = photo(side=60)
    expected = from_pil(to_pil(image).transform((60, 60), Image.Transform.AFFINE, (1, 0, -8, 0, 1, 0), fillcolor=128))
    outside = v._outside(image[None], "red")
    shift = torch.tensor([[[1.0, 0.0, -16 / 60], [0.0, 1.0, 0.0]]])
    torch.testing.assert_close(v.warp(image[None], shift, outside)[0], expected, atol=1.5 / 255, rtol=0)
    assert expected[:, 0, 0].tolist() == pytest.approx([128 / 255, 0, 0])
    assert v._outside(image[None], "grey").flatten().tolist() == [0.5]
    assert v._outside(image[None, :1], "red").flatten().tolist() == [0.5]


def test_the_border_shows_in_the_views() -> None:
    white = torch.ones(1, 3, 12, 12)
    numbers = v.draw(1, 200, torch.Generator().manual_seed(0))
    grey, red = (v.augmix_views(white, numbers, fill=fill) for fill in ("grey", "red"))  # type: ignore[arg-type]
    changed = (grey != red).flatten(2).any(dim=2)[0]
    assert 10 < changed.sum() < 200  # only rotations, shears and shifts have a border


def test_padded_crops_by_hand() -> None:
    images = torch.stack([photo(1, 8), photo(2, 8)])
    numbers = v.draw(2, 40, torch.Generator().manual_seed(3), v.CROP_NUMBERS)
    made = v.crops(images, numbers)
    flips = 0
    for i in range(2):
        padded = torch.zeros(3, 16, 16)
        padded[:, 4:12, 4:12] = images[i]
        for j in range(40):
            top, left = int(numbers[i, j, 0] * 9), int(numbers[i, j, 1] * 9)
            expected = padded[:, top : top + 8, left : left + 8]
            if numbers[i, j, 2] < 0.5:
                expected = expected.flip(-1)
                flips += 1
            assert torch.equal(made[i, j], expected)
    assert 25 < flips < 55


def test_resized_crops_by_hand() -> None:
    image = torch.arange(64.0).view(1, 1, 8, 8) / 64
    whole = torch.tensor([[[0.3, 0.9, 0.7, 1.0, 0.5], [0.3, 0.9, 0.2, 1.0, 0.5]]])  # area 1, ratio 1; second flipped
    made = v.crops(image, whole, "resize")[0]
    torch.testing.assert_close(made[0], image[0])
    torch.testing.assert_close(made[1], image[0].flip(-1))
    quarter = torch.tensor([[[1.0, 0.0, 0.7, (0.25 - 0.08) / 0.92, 0.5]]])  # area 1/4 at the right end of the top
    made = v.crops(image, quarter, "resize")[0, 0, 0]
    corner = image[..., :4, 4:]
    expected = torch.nn.functional.interpolate(corner, (8, 8), mode="bilinear")[0, 0]
    torch.testing.assert_close(made[1:-1, 1:-1], expected[1:-1, 1:-1])


def naive_view(image: Tensor, numbers: Tensor) -> Tensor:
    """AugMix for one view, written as a loop over chains and links."""
    cropped = v.crops(image[None], numbers.view(1, 1, -1))[0]
    mixing, rest = numbers[5:9].tolist(), numbers[9:]
    exponentials = [-math.log(max(1 - u, 1e-7)) for u in mixing[:3]]
    mixed = torch.zeros_like(cropped)
    for chain in range(3):
        own = rest[10 * chain : 10 * chain + 10]
        x = cropped
        for link in range(1 + int(own[0] * 3)):
            pick, strength, way = own[1 + 3 * link : 4 + 3 * link]
            level, sign = 0.1 + 0.9 * strength, -1.0 if way < 0.5 else 1.0
            number = int(pick * 9)
            if number == 0:
                x = v.autocontrast(x)
            elif number == 1:
                x = v.equalize(x)
            elif number == 2:
                x = v.posterize(x)
            elif number == 3:
                x = v.solarize(x, 256 - (25.6 * level).floor().view(1))
            else:
                sides = image.shape[1:]
                x = v.warp(x, v._maps(torch.tensor([number]), level.view(1), torch.tensor([sign]), *sides))
        mixed = mixed + exponentials[chain] / sum(exponentials) * x
    return (mixing[3] * cropped + (1 - mixing[3]) * mixed)[0].clamp(0, 1)


def test_views_agree_with_a_loop_over_images_views_chains_and_links() -> None:
    images = torch.stack([photo(1, 12), photo(2, 12)])
    numbers = v.draw(2, 30, torch.Generator().manual_seed(0))
    made = v.augmix_views(images, numbers)
    for i in range(2):
        for j in range(30):
            torch.testing.assert_close(made[i, j], naive_view(images[i], numbers[i, j]), atol=1e-5, rtol=1e-5)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), side=st.integers(5, 20), crop=st.sampled_from(["pad", "resize"]))
def test_views_stay_in_the_unit_interval_and_depend_on_seed_and_place_alone(seed: int, side: int, crop: v.Crop) -> None:
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(3, 2, side, side + 1, generator=generator) * 1.4 - 0.2
    together = v.augmix_views(images, v.draw(3, 4, torch.Generator().manual_seed(seed)), crop)
    assert together.min() >= 0
    assert together.max() <= 1
    again = torch.Generator().manual_seed(seed)
    for i in range(3):  # one image at a time from the same generator
        alone = v.augmix_views(images[i : i + 1], v.draw(1, 4, again), crop)
        torch.testing.assert_close(alone[0], together[i], atol=1e-6, rtol=0)


def test_views_do_not_depend_on_the_batch() -> None:
    both, generator = v.draw(2, 8, torch.Generator().manual_seed(0)), torch.Generator().manual_seed(0)
    assert torch.equal(torch.cat([v.draw(1, 8, generator), v.draw(1, 8, generator)]), both)
    images = torch.rand(2, 3, 8, 8)
    assert v.crops(images, both).shape == (2, 8, 3, 8, 8)
    views = v.augmix_views(images, both)
    assert views.shape == (2, 8, 3, 8, 8)
    assert 0 <= views.min() <= views.max() <= 1


def test_views_differ_from_each_other_and_between_seeds() -> None:
    image = photo()[None]
    first = v.augmix_views(image, v.draw(1, 8, torch.Generator().manual_seed(0)))[0]
    second = v.augmix_views(image, v.draw(1, 8, torch.Generator().manual_seed(1)))[0]
    apart = (first.unsqueeze(0) - first.unsqueeze(1)).abs().flatten(2).amax(dim=2)
    assert (apart + torch.eye(8) > 0.01).all()
    assert not torch.allclose(first, second, atol=0.01)
