"""Corruptions without chance against formulas and libraries of their own."""

from __future__ import annotations

import colorsys
import io

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from midway.data import corrupt
from midway.data.corruptions.blur import disk

Images = NDArray[np.uint8]


@pytest.fixture
def images() -> Images:
    """Noise, greys, black and white, a flat colour."""
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (3, 12, 14, 3), dtype=np.uint8)
    images[1, :6] = rng.integers(0, 256, (6, 14, 1))
    images[1, 6:, :4] = 0
    images[1, 6:, 4:8] = 255
    images[2] = (200, 30, 77)
    return images


def truncated(values: NDArray[np.float64]) -> Images:
    return np.uint8(np.clip(values, 0, 1) * 255 + 1e-3)


def assert_close(ours: Images, reference: Images, share: float = 0.01) -> None:
    """At most a level apart, and that seldom: single against double precision at the edge of a level."""
    difference = np.abs(ours.astype(int) - reference)
    assert difference.max() <= 1
    assert (difference > 0).mean() <= share


def per_pixel(images: Images, change: str, *numbers: float) -> Images:
    result = np.empty(images.shape)
    for place in np.ndindex(images.shape[:3]):
        hue, saturation, value = colorsys.rgb_to_hsv(*(images[place] / 255).tolist())
        if change == "value":
            value = min(value + numbers[0], 1)
        else:
            saturation = min(saturation * numbers[0] + numbers[1], 1)
        result[place] = colorsys.hsv_to_rgb(hue, saturation, value)
    return truncated(result)


@pytest.mark.parametrize(("severity", "added"), [(1, 0.05), (3, 0.15), (5, 0.3)])
def test_brightness_is_the_hsv_value_raised(images: Images, severity: int, added: float) -> None:
    assert_close(corrupt(images, "brightness", severity=severity), per_pixel(images, "value", added))


@pytest.mark.parametrize(
    ("severity", "strengths", "times", "plus"),
    [(1, 32, 0.3, 0), (3, 32, 1.5, 0), (4, 32, 2, 0.1), (5, 32, 2.5, 0.2), (5, 64, 30, 0.2), (5, 224, 20, 0.2)],
)
def test_saturate_is_the_hsv_saturation_changed(
    images: Images, severity: int, strengths: int, times: float, plus: float
) -> None:
    ours = corrupt(images, "saturate", severity=severity, strengths=strengths)
    assert_close(ours, per_pixel(images, "saturation", times, plus))


@pytest.mark.parametrize(("severity", "factor"), [(1, 0.75), (5, 0.15)])
def test_contrast_pulls_towards_the_channel_mean(images: Images, severity: int, factor: float) -> None:
    values = images / 255
    means = values.mean(axis=(1, 2), keepdims=True)
    assert_close(corrupt(images, "contrast", severity=severity), truncated(means + factor * (values - means)))


@pytest.mark.parametrize(("severity", "factor"), [(1, 0.95), (5, 0.65)])
def test_pixelate_averages_boxes_and_repeats_them(images: Images, severity: int, factor: float) -> None:
    height, width = images.shape[1:3]
    rows, columns = int(height * factor), int(width * factor)

    def box(size: int, cells: int) -> NDArray[np.float64]:
        """Pixels whose centres lie in each cell, evenly."""
        centres = (np.arange(size) + 0.5) * cells / size
        inside = (np.arange(cells)[:, None] - 1e-9 <= centres) & (centres < np.arange(cells)[:, None] + 1 - 1e-9)
        return inside / inside.sum(axis=1, keepdims=True)

    small = np.einsum("rh,nhwx,cw->nrcx", box(height, rows), images, box(width, columns))
    down = ((np.arange(height) + 0.5) * rows / height).astype(int)
    right = ((np.arange(width) + 0.5) * columns / width).astype(int)
    difference = np.abs(corrupt(images, "pixelate", severity=severity) - small[:, down][:, :, right])
    assert difference.max() <= 1  # Pillow rounds twice


@pytest.mark.parametrize(("severity", "quality"), [(1, 80), (5, 40)])
@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_is_pillows(images: Images, severity: int, quality: int, channels: int) -> None:
    ours = corrupt(images[..., :channels], "jpeg_compression", severity=severity)
    for image, result in zip(images[..., :channels], ours, strict=True):
        file = io.BytesIO()
        Image.fromarray(image.squeeze()).save(file, "JPEG", quality=quality)
        np.testing.assert_array_equal(result.squeeze(), np.asarray(Image.open(file)))


def test_disk_by_hand() -> None:
    ninth = 1 / 9  # radius 1.5 holds the centre and its eight neighbours; the rim of sigma 0.1 is all but nothing
    kernel = disk(1.5, 0.1)
    np.testing.assert_allclose(kernel[1:-1, 1:-1], np.full((3, 3), ninth), atol=1e-6)
    for radius, softness in [(0.3, 0.4), (1, 0.2), (3, 0.1), (8, 0.5), (10, 0.5)]:
        kernel = disk(radius, softness)
        assert kernel.sum() == pytest.approx(1, abs=0.02)  # published: the grid cuts the rim at radii 8 and 10
        np.testing.assert_allclose(kernel, kernel.T, atol=1e-15)
        np.testing.assert_allclose(kernel, kernel[::-1, ::-1], atol=1e-15)


@pytest.mark.parametrize(("severity", "strengths"), [(1, 32), (5, 32), (5, 64), (2, 224)])
def test_defocus_is_the_sum_over_the_disk(images: Images, severity: int, strengths: int) -> None:
    radius, softness = {(1, 32): (0.3, 0.4), (5, 32): (1.5, 0.1), (5, 64): (3, 0.1), (2, 224): (4, 0.5)}[
        severity, strengths
    ]
    line = np.arange(-8, 9)
    inside = np.add.outer(line**2, line**2) <= radius**2
    side = np.exp(-1 / (2 * softness**2))
    rim = np.array([side, 1, side]) / (1 + 2 * side)
    kernel = ndimage.convolve(inside / inside.sum(), np.outer(rim, rim), mode="constant")
    height, width = images.shape[1:3]
    padded = np.pad(images / 255, ((0, 0), (8, 8), (8, 8), (0, 0)), mode="reflect")
    expected = sum(
        kernel[dy, dx] * padded[:, dy : dy + height, dx : dx + width] for dy in range(17) for dx in range(17)
    )
    assert_close(
        corrupt(images, "defocus_blur", severity=severity, strengths=strengths), truncated(np.asarray(expected))
    )


@pytest.mark.parametrize(("severity", "sigma"), [(1, 0.4), (5, 1.0)])
def test_gaussian_blur_is_the_sum_over_a_gaussian(images: Images, severity: int, sigma: float) -> None:
    radius = int(4 * sigma + 0.5)
    weights = np.exp(-(np.arange(-radius, radius + 1) ** 2) / (2 * sigma**2))
    weights /= weights.sum()
    height, width = images.shape[1:3]
    padded = np.pad(images / 255, ((0, 0), (radius, radius), (radius, radius), (0, 0)), mode="edge")
    span = range(2 * radius + 1)
    expected = sum(
        weights[dy] * weights[dx] * padded[:, dy : dy + height, dx : dx + width] for dy in span for dx in span
    )
    assert_close(corrupt(images, "gaussian_blur", severity=severity), truncated(np.asarray(expected)))


@pytest.mark.parametrize(
    ("severity", "strengths", "end", "step"),
    [(1, 32, 1.06, 0.01), (5, 64, 1.26, 0.01), (3, 224, 1.21, 0.02), (5, 224, 1.31, 0.03)],
)
@pytest.mark.parametrize("side", [31, 32])
def test_zoom_blur_is_the_mean_of_scipys_zooms(
    severity: int, strengths: int, end: float, step: float, side: int
) -> None:
    images = np.random.default_rng(2).integers(0, 256, (2, side, side, 3), dtype=np.uint8)
    expected = []
    for image in images / 255:
        layers = [image]
        for factor in np.arange(1, end, step):
            kept = int(np.ceil(side / factor))
            top = (side - kept) // 2
            zoomed = ndimage.zoom(image[top : top + kept, top : top + kept], (factor, factor, 1), order=1)
            trim = (len(zoomed) - side) // 2
            layers.append(zoomed[trim : trim + side, trim : trim + side])
        expected.append(np.mean(layers, axis=0))
    assert_close(corrupt(images, "zoom_blur", severity=severity, strengths=strengths), truncated(np.stack(expected)))


def test_flat_images_stay_flat_under_every_blur() -> None:
    """Single precision never costs a level: weights that sum to 0.9999999 leave 255 at 255."""
    for level in (0, 1, 77, 254, 255):
        flat = np.full((1, 16, 16, 3), level, np.uint8)
        for name in (
            "gaussian_blur",
            "glass_blur",
            "motion_blur",
            "zoom_blur",
            "elastic_transform",
            "pixelate",
            "contrast",
        ):
            for strengths in (32, 64, 224):
                np.testing.assert_array_equal(corrupt(flat, name, strengths=strengths), flat)
