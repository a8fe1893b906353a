"""Corruptions with chance against slow second implementations fed the same random numbers, and their statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import ndimage

from midway.data import corrupt, corruption_names
from midway.data.corruptions import REGISTRY
from midway.data.corruptions.pixels import smooth, to_bytes, to_unit
from midway.data.corruptions.randomness import Draws, random_key
from midway.data.corruptions.registry import closest_size
from midway.data.corruptions.resampling import sample, streak
from midway.data.corruptions.spatter import edge_distance, edges, equalise
from midway.data.corruptions.weather import FROST_PHOTOGRAPHS, frost_photograph, plasma

Images = NDArray[np.uint8]


def noise_images(count: int, height: int = 16, width: int = 16, channels: int = 3) -> Images:
    return np.random.default_rng(3).integers(0, 256, (count, height, width, channels), dtype=np.uint8)


def draws_of(name: str, severity: int, count: int, seed: int = 0) -> Draws:
    return Draws(random_key(name, severity, seed), np.arange(count, dtype=np.uint64))


@pytest.mark.parametrize(
    ("severity", "strengths", "size"),
    [(1, 32, (16, 16)), (5, 32, (32, 32)), (4, 64, (16, 21)), (5, 64, (13, 9)), (4, 224, (20, 20)), (5, 224, (24, 31))],
)
def test_glass_blur_is_the_pixel_loop_bit_for_bit(severity: int, strengths: int, size: tuple[int, int]) -> None:
    images = noise_images(3, *size)
    height, width = size
    sigma, reach, passes = REGISTRY["glass_blur"].strengths[strengths][severity - 1]
    reach, passes = int(reach), int(passes)
    rows, columns = height - 2 * reach, width - 2 * reach
    moves = draws_of("glass_blur", severity, 3).integers(-reach, reach, (passes, rows, columns, 2))
    shuffled = to_bytes(smooth(to_unit(images), sigma))
    for image, moves_of_image in zip(shuffled, moves, strict=True):
        for step in range(passes):
            for h in range(height - reach, reach, -1):
                for w in range(width - reach, reach, -1):
                    right, down = moves_of_image[step, h - reach - 1, w - reach - 1]
                    image[h, w] = image[h + down, w + right]
    expected = to_bytes(smooth(to_unit(shuffled), sigma))
    ours = corrupt(images, "glass_blur", severity=severity, strengths=strengths)
    np.testing.assert_array_equal(ours, expected)


@settings(max_examples=15)
@given(
    angles=st.lists(st.floats(-180, 180, width=32), min_size=1, max_size=4),
    radius=st.integers(1, 8),
    sigma=st.floats(0.5, 6),
)
def test_streaks_are_imagemagicks(angles: list[float], radius: int, sigma: float) -> None:
    height, width = 7, 9
    images = noise_images(len(angles), height, width, 1)
    blurred = streak(images, np.array(angles, np.float32), radius=radius, sigma=sigma)
    taps = range(2 * radius + 1)
    weights = [math.exp(-(i**2) / (2 * sigma**2)) for i in taps]
    for image, angle, result in zip(images, angles, blurred, strict=True):
        down, right = math.sin(math.radians(angle)), math.cos(math.radians(angle))
        for y in range(height):
            for x in range(width):
                total = 0.0
                for i in taps:
                    row = min(max(y + math.ceil(i * down - 0.5), 0), height - 1)
                    column = min(max(x + math.ceil(i * right - 0.5), 0), width - 1)
                    total += weights[i] * int(image[row, column, 0])
                assert abs(total / sum(weights) - int(result[y, x, 0])) <= 0.5 + 1e-3


def test_motion_blur_angles_lie_between_minus_45_and_45_degrees() -> None:
    """A dot leaves its streak to the left of it, in the quarter plane round the axis."""
    images = np.zeros((200, 33, 33, 3), np.uint8)
    images[:, 16, 16] = 255
    blurred = corrupt(images, "motion_blur", strengths=32)
    hit = blurred[..., 0].max(axis=0) > 0
    rows, columns = np.nonzero(hit)
    assert columns.max() == 16
    assert (np.abs(rows - 16) <= 16 - columns + 1).all()
    assert (rows < 16).any()
    assert (rows > 16).any()


@pytest.mark.parametrize(("side", "decay"), [(4, 3.0), (16, 1.75)])
def test_plasma_is_diamond_square_point_by_point(side: int, decay: float) -> None:
    noise = np.random.default_rng(4).random((2, side * side), dtype=np.float32)
    for clouds, numbers in zip(plasma(noise, decay), noise, strict=True):
        fresh = iter((numbers.astype(float) * 2 - 1).tolist())
        field = np.zeros((side, side))
        step, wibble = side, 100.0
        while step >= 2:
            half = step // 2
            grid = [(y, x) for y in range(0, side, step) for x in range(0, side, step)]
            for y, x in grid:
                corners = [field[(y + dy) % side, (x + dx) % side] for dy in (0, step) for dx in (0, step)]
                field[y + half, x + half] = sum(corners) / 4 + wibble**2 * next(fresh)
            for dy, dx in ((0, half), (half, 0)):
                for y, x in grid:
                    cy, cx = y + dy, x + dx
                    around = [(cy - half, cx), (cy + half, cx), (cy, cx - half), (cy, cx + half)]
                    mean = sum(field[a % side, b % side] for a, b in around) / 4
                    field[cy, cx] = mean + wibble**2 * next(fresh)
            step, wibble = half, wibble / decay
        field -= field.min()
        np.testing.assert_allclose(clouds, field / field.max(), atol=1e-5)


@pytest.mark.parametrize(("border", "scipy_mode"), [("reflect", "mirror"), ("symmetric", "reflect")])
def test_sampling_is_scipys(border: str, scipy_mode: str) -> None:
    rng = np.random.default_rng(5)
    images = rng.random((2, 8, 11, 3), dtype=np.float32)
    down, right = rng.uniform(-12, 20, (2, 2, 8, 11)).astype(np.float32)
    ours = sample(images, down, right, border)  # type: ignore[arg-type]
    for i in range(2):
        for channel in range(3):
            expected = ndimage.map_coordinates(images[i, ..., channel], [down[i], right[i]], order=1, mode=scipy_mode)
            np.testing.assert_allclose(ours[i, ..., channel], expected, atol=1e-5)


def test_gaussian_noise_has_its_deviation_and_no_bias() -> None:
    grey = np.full((20, 32, 32, 3), 128, np.uint8)
    difference = corrupt(grey, "gaussian_noise").astype(float) + 0.5 - 128  # truncation takes half a level
    assert difference.std() == pytest.approx(25.5, rel=0.01)
    assert abs(difference.mean()) < 0.3


def test_speckle_noise_grows_with_the_image() -> None:
    levels = np.repeat(np.array([0, 50, 100], np.uint8), 3 * 32 * 32).reshape(3, 32, 32, 3)
    deviation = corrupt(levels, "speckle_noise", severity=3).reshape(3, -1).std(axis=1)
    assert deviation[0] == 0
    np.testing.assert_allclose(deviation[1:], [6, 12], rtol=0.06)


def test_shot_noise_counts_light() -> None:
    grey = np.full((20, 32, 32, 3), 102, np.uint8)  # 0.4 * 50 = 20 events
    events = (corrupt(grey, "shot_noise").astype(float) + 0.5) / 255 * 50
    assert events.mean() == pytest.approx(20, rel=0.01)
    assert events.var() == pytest.approx(20, rel=0.03)
    assert (corrupt(np.zeros_like(grey), "shot_noise") == 0).all()


def test_impulse_noise_turns_its_share_half_to_black_half_to_white() -> None:
    grey = np.full((40, 32, 32, 3), 128, np.uint8)
    noisy = corrupt(grey, "impulse_noise")
    assert (noisy == 0).mean() == pytest.approx(0.035, rel=0.05)
    assert (noisy == 255).mean() == pytest.approx(0.035, rel=0.05)
    turned = noisy != 128
    assert turned.all(axis=-1).mean() < 0.002  # channels turn on their own


def test_frost_is_a_weighted_piece_of_a_photograph() -> None:
    images = noise_images(6, 32, 32)
    ours = corrupt(images, "frost", severity=4)
    for image, result in zip(images, ours, strict=True):
        found = False
        for number in range(len(FROST_PHOTOGRAPHS)):
            pieces = np.lib.stride_tricks.sliding_window_view(
                frost_photograph(number, 0.2, 32, 32), (32, 32), axis=(0, 1)
            )
            corner = np.clip(0.85 * image[0, 0] + 0.4 * pieces[..., 0, 0].astype(float), 0, 255) + 1e-3
            for y, x in zip(*np.nonzero((corner.astype(np.uint8) == result[0, 0]).all(axis=-1)), strict=True):
                whole = np.clip(0.85 * image + 0.4 * pieces[y, x].transpose(1, 2, 0), 0, 255) + 1e-3
                found |= bool((np.abs(whole.astype(np.uint8).astype(int) - result) <= 1).all())
        assert found


def test_overlays_have_the_published_sizes_and_grow_for_large_images() -> None:
    assert [frost_photograph(i, 0.2, 32, 32).shape for i in range(5)] == [
        (120, 180, 3), (63, 112, 3), (63, 112, 3), (70, 105, 3), (99, 132, 3),
    ]  # fmt: skip
    assert frost_photograph(0, 0.3, 64, 64).shape == (180, 270, 3)
    assert frost_photograph(3, 1, 224, 224).shape == (350, 527, 3)
    large = frost_photograph(3, 1, 700, 700)
    assert large.shape[0] >= 700
    assert large.shape[1] >= 700
    # The stored 0.2 pictures are every fifth pixel of the full ones, which JPEG blurs a little.
    difference = np.abs(frost_photograph(4, 0.2, 1, 1).astype(int) - frost_photograph(4, 1, 1, 1)[2::5, 2::5])
    assert difference.mean() < 2


def test_fog_keeps_the_brightest_value() -> None:
    images = noise_images(4, 32, 32)
    foggy = corrupt(images, "fog")
    assert (foggy.max(axis=(1, 2, 3)) <= images.max(axis=(1, 2, 3))).all()
    black = corrupt(np.zeros_like(images), "fog")
    assert (black == 0).all()  # published: scaled by the image's maximum, which is nothing


def test_elastic_transform_moves_but_does_not_colour() -> None:
    rows, columns = np.indices((32, 32))
    board = np.repeat(((rows // 4 + columns // 4) % 2 * 255).astype(np.uint8)[None, ..., None], 3, axis=3)
    moved = corrupt(board, "elastic_transform")
    assert (moved[..., 0] == moved[..., 1]).all()
    assert 0.3 < moved.mean() / 255 < 0.7
    assert (moved != board).mean() > 0.2


def test_canny_finds_the_border_of_a_square_once() -> None:
    layer = np.zeros((2, 12, 12), np.uint8)
    layer[0, 4:8, 4:8] = 200
    found = edges(layer)
    assert not found[1].any()
    assert found[0].sum() >= 12
    assert not found[0, 5:7, 5:7].any()
    assert not found[0, :2].any()
    faint = (layer > 0).astype(np.uint8) * 10  # gradient 40 at most: weaker than a weak edge
    assert not edges(faint).any()


def test_edge_distance_counts_moves() -> None:
    edge = np.zeros((3, 6, 6), bool)
    edge[0, 0, 0] = True
    edge[2, 5, 5] = True
    distance = edge_distance(edge)
    assert np.isinf(distance[1]).all()
    assert distance[0, 0, 3] == 3
    assert distance[0, 2, 2] == pytest.approx(2.8)
    assert distance[0, 1, 2] == pytest.approx(2.1969)
    assert distance[0, 2, 5] == pytest.approx(2 * 2.1969 + 1)
    np.testing.assert_allclose(distance[2], distance[0, ::-1, ::-1])


def test_equalise_spreads_the_levels() -> None:
    layers = np.array([[[3, 3], [5, 9]], [[7, 7], [7, 7]]], np.uint8)
    np.testing.assert_array_equal(equalise(layers), [[[0, 0], [128, 255]], [[7, 7], [7, 7]]])


def test_water_is_turquoise_and_mud_is_brown() -> None:
    black = np.zeros((6, 32, 32, 3), np.uint8)
    water = corrupt(black, "spatter", severity=3).reshape(-1, 3).astype(int)
    wet = water[water.max(axis=1) > 20]
    np.testing.assert_allclose(wet[:, 0] / wet[:, 1], 175 / 238, atol=0.06)
    white = np.full_like(black, 255)
    mud = corrupt(white, "spatter", severity=5).reshape(-1, 3)
    np.testing.assert_allclose(mud[mud[:, 0].argmin()], [63, 42, 20], atol=2)


def test_strengths_spot_checks() -> None:
    assert REGISTRY["gaussian_noise"].strengths[224][3] == (0.26,)
    assert REGISTRY["shot_noise"].strengths[64] == ((250,), (100,), (50,), (30,), (15,))
    assert REGISTRY["glass_blur"].strengths[224][2] == (1, 2, 3)
    assert REGISTRY["motion_blur"].strengths[32][4] == (9, 2.5)
    assert REGISTRY["snow"].strengths[64][4] == (0.3, 0.3, 1.25, 0.65, 14, 12, 0.6)
    assert REGISTRY["snow"].strengths[224][2] == (0.55, 0.3, 4, 0.9, 12, 8, 0.7)
    assert REGISTRY["frost"].strengths[32][4] == (0.75, 0.45, 0.2)
    assert REGISTRY["fog"].strengths[224][4] == (3, 1.4)
    assert REGISTRY["elastic_transform"].strengths[32][4][:3] == (0.1, 0.03, 0.03)
    assert REGISTRY["jpeg_compression"].strengths[224][4] == (7,)
    assert REGISTRY["saturate"].strengths[224][4] == (20, 0.2)
    assert REGISTRY["spatter"].strengths[32][4] == (0.65, 0.1, 0.5, 0.68, 0.6, 1)
    for each in map(REGISTRY.get, corruption_names("benchmark") + corruption_names("tuning")):
        assert each is not None
        assert set(each.strengths) == {32, 64, 224}


def test_the_closest_set_goes_by_the_shorter_side() -> None:
    sizes = [(32, 32), (48, 500), (49, 49), (144, 150), (145, 150), (224, 224)]
    assert [closest_size(*size) for size in sizes] == [32, 32, 64, 64, 224, 224]
    images = noise_images(2, 49, 49)
    np.testing.assert_array_equal(corrupt(images, "contrast"), corrupt(images, "contrast", strengths=64))


def test_streams_differ_by_name_severity_seed_image_and_draw() -> None:
    which = [("fog", 1, 0, 0), ("snow", 1, 0, 0), ("fog", 2, 0, 0), ("fog", 1, 1, 0), ("fog", 1, 0, 1)]
    streams = [
        Draws(random_key(name, severity, seed), np.array([image], dtype=np.uint64)).normal((4,))
        for name, severity, seed, image in which
    ]
    draws = draws_of("fog", 1, 1)
    streams += [draws.normal((4,))[:0], draws.normal((4,))]
    assert len({stream.tobytes() for stream in streams}) == len(streams)


def test_random_numbers_stay_the_same_from_release_to_release() -> None:
    """CIFAR-10-C made from a seed today can be made again tomorrow."""
    draws = draws_of("gaussian_noise", 5, 2)
    np.testing.assert_allclose(draws.uniform((2,)), [[0.4942308, 0.6413869], [0.0370206, 0.7809287]], atol=1e-6)
