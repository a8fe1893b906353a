"""Laws that all nineteen corruptions keep."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from midway.data import corrupt, corrupted, corruption_names

NINETEEN = corruption_names("benchmark") + corruption_names("tuning")
Images = NDArray[np.uint8]

DETERMINISTIC = {
    "defocus_blur",
    "zoom_blur",
    "brightness",
    "contrast",
    "pixelate",
    "jpeg_compression",
    "gaussian_blur",
    "saturate",
}


def pictures(count: int, height: int = 32, width: int = 32, channels: int = 3, seed: int = 0) -> Images:
    """Smooth random colours with a bright and a dark square, so that every corruption has something to change."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(30, 220, (count, 4, 4, channels))
    rows, columns = np.arange(height) * 4 // height, np.arange(width) * 4 // width
    images = coarse[:, rows][:, :, columns] + rng.integers(-20, 20, (count, height, width, channels))
    images[:, : height // 4, : width // 4] = 255
    images[:, -(height // 4) :, : width // 4] = 0
    return np.clip(images, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("name", NINETEEN)
def test_gives_new_images_of_the_same_kind_and_leaves_its_input(name: str) -> None:
    images = pictures(3)
    before = images.copy()
    images.flags.writeable = False
    for severity in range(1, 6):
        result = corrupt(images, name, severity=severity)
        assert result.dtype == np.uint8
        assert result.shape == images.shape
        assert not np.shares_memory(result, images)
        assert (result != images).any()
    np.testing.assert_array_equal(images, before)


@pytest.mark.parametrize("name", NINETEEN)
@settings(max_examples=6)
@given(
    chosen=st.lists(st.integers(0, 11), min_size=1, max_size=12, unique=True),
    severity=st.integers(1, 5),
    seed=st.integers(-5, 2**70),
)
def test_an_image_does_not_depend_on_its_neighbours(name: str, chosen: list[int], severity: int, seed: int) -> None:
    images = pictures(12, 20, 24)
    together = corrupt(images, name, severity=severity, seed=seed)
    apart = corrupt(images[chosen], name, severity=severity, seed=seed, indices=chosen)
    np.testing.assert_array_equal(apart, together[chosen])


@pytest.mark.parametrize("name", NINETEEN)
def test_chunks_and_threads_do_not_show(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    images = pictures(40)
    whole = corrupt(images, name, severity=3, seed=2)
    monkeypatch.setattr(corrupted, "VALUES_PER_CHUNK", 7 * images[0].size)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    np.testing.assert_array_equal(corrupt(images, name, severity=3, seed=2), whole)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    np.testing.assert_array_equal(corrupt(images, name, severity=3, seed=2), whole)


@pytest.mark.parametrize("name", NINETEEN)
def test_seed_index_and_severity_decide(name: str) -> None:
    images = np.repeat(pictures(1), 4, axis=0)
    first = corrupt(images, name)
    np.testing.assert_array_equal(corrupt(images, name), first)
    if name in DETERMINISTIC:
        np.testing.assert_array_equal(corrupt(images, name, seed=1), first)
        np.testing.assert_array_equal(first, np.repeat(first[:1], 4, axis=0))
    else:
        assert (corrupt(images, name, seed=1) != first).any(axis=(1, 2, 3)).all()
        assert len({image.tobytes() for image in first}) == 4
        np.testing.assert_array_equal(
            corrupt(images, name, indices=[7, 7, 7, 2])[:3], corrupt(images[:3], name, indices=[7] * 3)
        )


@pytest.mark.parametrize("size", [(8, 8), (28, 28), (32, 20), (1, 1), (3, 17)])
@pytest.mark.parametrize("name", NINETEEN)
def test_any_size_and_greyscale(name: str, size: tuple[int, int]) -> None:
    for channels in (1, 3):
        images = pictures(2, *size, channels)
        for strengths in (32, 64, 224):
            for severity in (1, 5):
                result = corrupt(images, name, severity=severity, strengths=strengths)
                assert result.shape == images.shape


@pytest.mark.parametrize("size", [(96, 128), (224, 230)])
@pytest.mark.parametrize("name", NINETEEN)
def test_large_images(name: str, size: tuple[int, int]) -> None:
    images = pictures(2, *size)
    result = corrupt(images, name, severity=2)
    assert result.shape == images.shape
    np.testing.assert_array_equal(corrupt(images[1:], name, severity=2, indices=[1]), result[1:])


@pytest.mark.parametrize("name", sorted(set(NINETEEN) - {"saturate", "frost", "impulse_noise", "spatter"}))
def test_greyscale_is_the_grey_image_in_colour(name: str) -> None:
    """Where the corruption draws the same numbers for both, one channel gives what three equal ones give."""
    grey = pictures(3, channels=1)
    colour = np.repeat(grey, 3, axis=3)
    one, three = corrupt(grey, name), corrupt(colour, name)
    if name.endswith("noise"):  # a channel of its own noise each
        assert abs(float(one.mean()) - float(three.mean())) < 2
    else:
        difference = np.abs(three.astype(int) - one)
        assert difference.max() <= (3 if name == "jpeg_compression" else 1)


def test_greyscale_is_left_by_saturate_and_covered_by_frost_and_spatter() -> None:
    grey = pictures(3, channels=1)
    np.testing.assert_array_equal(corrupt(grey, "saturate"), grey)
    for name in ("frost", "spatter"):
        three = corrupt(np.repeat(grey, 3, axis=3), name).astype(float)
        luma = three @ np.array([0.299, 0.587, 0.114])
        inside = (three.max(axis=3) < 255) & (three.min(axis=3) > 0)  # not clipped
        assert np.abs(luma - corrupt(grey, name)[..., 0])[inside].max() <= 1.5


@pytest.mark.parametrize("strengths", [32, 64, 224])
@pytest.mark.parametrize("name", sorted(set(NINETEEN) - {"elastic_transform", "saturate", "spatter"}))
def test_a_higher_severity_moves_the_image_further(name: str, strengths: int) -> None:
    """The three left out have severities that differ in kind, not in degree."""
    height = 40
    waves = np.add.outer(np.sin(np.arange(height) / 3), np.cos(np.arange(height) / 5))
    images = (np.stack([waves, -waves, waves.T], axis=2) * 50 + 110).astype(np.uint8)[None].repeat(12, axis=0)
    distances = np.array(
        [
            np.abs(corrupt(images, name, severity=s, strengths=strengths).astype(int) - images).mean()
            for s in range(1, 6)
        ]
    )
    assert distances[4] > 1.15 * distances[0]
    assert (np.diff(distances) > -0.2 * distances[4]).all()


def test_names_and_their_order() -> None:
    assert corruption_names("benchmark") == (
        "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur",
        "snow", "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression",
    )  # fmt: skip
    assert corruption_names("tuning") == ("speckle_noise", "gaussian_blur", "spatter", "saturate")
    assert corruption_names() == corruption_names("benchmark") + corruption_names("tuning")


def test_an_empty_batch_gives_an_empty_batch() -> None:
    for channels in (1, 3):
        images = np.empty((0, 32, 32, channels), np.uint8)
        assert corrupt(images, "fog", indices=[]).shape == images.shape


def test_views_and_read_only_memory_maps_are_welcome() -> None:
    images = pictures(6)
    flipped = images[::-1, :, ::-1]
    np.testing.assert_array_equal(corrupt(flipped, "glass_blur"), corrupt(flipped.copy(), "glass_blur"))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"name": "clean"}, ValueError, "unknown corruption 'clean'.*gaussian_noise, .*saturate"),
        ({"name": "gausian_noise"}, ValueError, "did you mean 'gaussian_noise'"),
        ({"severity": 0}, ValueError, "severity must be an integer from 1 to 5, got 0"),
        ({"severity": 6}, ValueError, "severity must be an integer from 1 to 5, got 6"),
        ({"severity": 2.5}, ValueError, "severity must be an integer from 1 to 5, got 2.5"),
        ({"strengths": 128}, ValueError, "strengths must be 32, 64, 224 or None"),
        ({"images": np.zeros((2, 8, 8, 3), np.float32)}, TypeError, "images are float32, expected uint8"),
        ({"images": np.zeros((8, 8, 3), np.uint8)}, ValueError, r"shape \(8, 8, 3\), expected \(N, H, W, 3\)"),
        ({"images": np.zeros((2, 3, 8, 8), np.uint8)}, ValueError, r"expected \(N, H, W, 3\).*transpose"),
        ({"images": np.zeros((2, 0, 8, 3), np.uint8)}, ValueError, "at least one pixel"),
        ({"indices": [1]}, ValueError, r"one number per image, shape \(2,\), got \(1,\)"),
        ({"indices": [0.5, 1]}, TypeError, "integers, got float64"),
        ({"indices": [0, -1]}, ValueError, "must not be negative, got -1"),
    ],
)
def test_bad_arguments_are_named(change: dict[str, object], error: type[Exception], words: str) -> None:
    arguments: dict[str, object] = {"images": np.zeros((2, 8, 8, 3), np.uint8), "name": "fog"}
    with pytest.raises(error, match=words):
        corrupt(**(arguments | change))  # type: ignore[arg-type]
