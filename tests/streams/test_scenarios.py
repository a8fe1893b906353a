from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import midway
from midway.data import ImageSet
from midway.streams import Stream
from midway.streams.scenarios import assign_groups


def toy(count: int, seed: int = 0) -> ImageSet:
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, size=(count, 8, 8, 3), dtype=np.uint8)
    return ImageSet(images, rng.integers(0, 3, size=count), ("a", "b", "c"), "toy")


def test_one_in_two_hundred_is_one_outlier_in_every_batch() -> None:
    stream = midway.streams.outlier(toy(1000), "contrast", "gaussian_noise", ratio=0.005)
    assert stream.groups == ("contrast", "gaussian_noise")
    assert [(batch.group == 0).sum().item() for batch in stream] == [1] * 5
    places = {int((batch.group == 0).nonzero()) for batch in stream}
    assert len(places) > 1, "the outlier stands at the same place in every batch"


@given(
    count=st.integers(1, 700),
    batch_size=st.integers(1, 300),
    ratio=st.sampled_from([0.005, 0.02, 0.05, 0.1, 0.145, 0.2, 0.5, 0.9]),
    seed=st.integers(0, 5),
)
def test_the_share_of_a_is_as_near_as_whole_images_allow(count: int, batch_size: int, ratio: float, seed: int) -> None:
    group = assign_groups(count, ratio=ratio, batch_size=batch_size, seed=seed)
    assert set(np.unique(group)) <= {0, 1}
    for stop in [*range(batch_size, count, batch_size), count]:
        assert abs((group[:stop] == 0).sum() - ratio * stop) <= 0.5 + 1e-6
    again = assign_groups(count, ratio=ratio, batch_size=batch_size, seed=seed)
    assert np.array_equal(group, again)


@settings(max_examples=15)
@given(count=st.integers(2, 60), batch_size=st.integers(1, 25), seed=st.integers(0, 3))
def test_streams_keep_order_labels_and_pixels(count: int, batch_size: int, seed: int) -> None:
    data = toy(count)
    stream = midway.streams.mixture(data, "contrast", "brightness", batch_size=batch_size, seed=seed)
    batches = list(stream)
    assert len(batches) == len(stream)
    assert [len(batch) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
    assert torch.equal(torch.cat([batch.labels for batch in batches]), torch.from_numpy(data.labels))
    images = np.asarray(data.images)
    a = midway.corrupt(images, "contrast", severity=5, seed=seed)
    b = midway.corrupt(images, "brightness", severity=5, seed=seed)
    group = torch.cat([batch.group for batch in batches]).numpy()
    expected = np.where((group == 0)[:, None, None, None], a, b)
    got = torch.cat([batch.images for batch in batches]).mul(255).round().byte().permute(0, 2, 3, 1).numpy()
    assert np.array_equal(got, expected)


def test_iterating_twice_and_caching_give_the_same_bits() -> None:
    stream = midway.streams.outlier(toy(90), "contrast", "gaussian_noise", ratio=0.1, batch_size=20, seed=3)
    for other in (stream, stream.cached(), stream.cached().cached()):
        assert other.groups == stream.groups
        assert other.name == stream.name
        for first, second in zip(stream, other, strict=True):
            assert torch.equal(first.images, second.images)
            assert torch.equal(first.labels, second.labels)
            assert torch.equal(first.group, second.group)


def test_images_are_floats_in_unit_range_channels_last() -> None:
    batch = next(iter(midway.streams.pure(toy(4), "clean")))
    assert batch.images.dtype == torch.float32
    assert batch.images.shape == (4, 3, 8, 8)
    assert batch.images.is_contiguous(memory_format=torch.channels_last)
    assert 0 <= batch.images.min() <= batch.images.max() <= 1


def test_the_seed_moves_the_outliers_and_the_noise() -> None:
    one, two = (midway.streams.outlier(toy(200), "contrast", "gaussian_noise", seed=seed) for seed in (0, 1))
    assert not np.array_equal(one.group, two.group)
    noisy = [next(iter(midway.streams.pure(toy(5), "gaussian_noise", seed=seed))).images for seed in (0, 1)]
    assert not torch.equal(*noisy)


def test_plain_arrays_and_ready_made_shifts() -> None:
    data = toy(6)
    darker = ImageSet(np.asarray(data.images) // 2, data.labels, data.class_names, "darker")
    stream = midway.streams.mixture((np.asarray(data.images), data.labels), darker, "clean", batch_size=6)
    assert stream.groups == ("darker", "clean")
    batch = next(iter(stream))
    dark = batch.group == 0
    assert batch.images[dark].max() <= 0.5
    shuffled = ImageSet(np.asarray(data.images), (data.labels + 1) % 3, data.class_names, "shuffled")
    with pytest.raises(ValueError, match="its labels differ"):
        midway.streams.pure(data, shuffled)


def test_images_that_are_not_bytes_in_the_right_order_are_refused() -> None:
    labels = np.zeros(4, np.int64)
    with pytest.raises(TypeError, match="images are float32, expected uint8: multiply"):
        midway.streams.pure((np.zeros((4, 8, 8, 3), np.float32), labels), "clean")
    with pytest.raises(ValueError, match=r"expected \(N, H, W, 3\).*transpose"):
        midway.streams.pure((np.zeros((4, 3, 8, 8), np.uint8), labels), "clean")
    with pytest.raises(TypeError, match="expected uint8"):
        ImageSet(np.zeros((4, 8, 8, 3)), labels, ("a",), "floats")


def test_errors_say_what_is_wrong() -> None:
    data = toy(50)
    with pytest.raises(ValueError, match="the ratio in outlier must be between 0 and 1, got 0"):
        midway.streams.outlier(data, "contrast", "pixelate", ratio=0)
    with pytest.raises(ValueError, match=r"50 images at ratio 0\.005 contain no image of contrast"):
        midway.streams.outlier(data, "contrast", "pixelate", ratio=0.005)
    with pytest.raises(ValueError, match=r"50 images at ratio 0\.995 contain no image of pixelate"):
        midway.streams.outlier(data, "contrast", "pixelate", ratio=0.995)
    with pytest.raises(ValueError, match="seed must be 0 or more, got -1"):
        midway.streams.mixture(data, "contrast", "pixelate", seed=-1)
    with pytest.raises(ValueError, match="both distributions are pixelate"):
        midway.streams.mixture(data, "pixelate", "pixelate")
    with pytest.raises(ValueError, match="did you mean 'pixelate'"):
        midway.streams.pure(data, "pixelated")
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        midway.streams.pure(data, "clean", batch_size=0)
    small, large = np.zeros((2, 4, 4, 3), np.uint8), np.zeros((2, 8, 8, 3), np.uint8)
    with pytest.raises(ValueError, match="different sizes"):
        Stream({"small": small, "large": large}, np.zeros(2, np.int64), order=[0, 1], group=[0, 1])


def test_two_corruptions_of_a_stored_set_make_a_mixture(tmp_path: Path) -> None:
    folder = midway.data.make_corrupted(toy(8), tmp_path, corruptions=["contrast", "pixelate"], severities=[5], jobs=1)
    assert np.load(folder / "contrast.npy").shape == (8, 8, 8, 3)
    a, b = (
        ImageSet(np.load(folder / f"{name}.npy", mmap_mode="r"), toy(8).labels, ("a", "b", "c"), f"toy-c:{name}")
        for name in ("contrast", "pixelate")
    )
    stored = midway.streams.mixture(a, a, b, batch_size=4)
    made = midway.streams.mixture(toy(8), "contrast", "pixelate", batch_size=4)
    assert stored.groups == ("toy-c:contrast", "toy-c:pixelate")
    for first, second in zip(stored, made, strict=True):
        assert torch.equal(first.images, second.images)
