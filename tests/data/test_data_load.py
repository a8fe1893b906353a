from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from midway import data
from midway.data.datasets import REGISTRY


def test_names_and_the_nearest() -> None:
    assert {"cifar10-mini", "cifar10-c", "imagenet-c", "domainnet", "pacs", "folder"} <= set(data.names())
    with pytest.raises(
        ValueError, match=r"unknown data set 'cifar10c': did you mean 'cifar10-c'\? Valid names: .*pacs"
    ):
        data.load("cifar10c")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cifar10", {"domain": "photo"}),
        ("cifar10-c", {"size": 64}),
        ("cifar10-mini", {"classes": ["a"]}),
        ("pacs", {"classes": ["a"]}),
        ("pacs", {"split": "train"}),
        ("cifar10-c", {"split": "train"}),
    ],
)
def test_arguments_without_a_meaning_are_refused(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(arguments))}= does not apply to the data set {name}"):
        data.load(name, **arguments)


def test_arguments_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="cifar10-mini has no train images"):
        data.load("cifar10-mini", split="train")
    with pytest.raises(ValueError, match="needs root="):
        data.load("folder")
    with pytest.raises(ValueError, match="unknown corruption 'frog': did you mean 'fog'"):
        data.load("cifar10-mini", corruption="frog")
    with pytest.raises(ValueError, match="severity must be an integer from 1 to 5, got 0"):
        data.load("cifar10-mini", corruption="fog", severity=0)
    with pytest.raises(ValueError, match="severity must be an integer from 1 to 5, got 9"):
        data.load("cifar10-mini", severity=9)


def test_test_images_are_never_given_for_training_ones(tmp_path: Path) -> None:
    one = {"images": np.zeros((1, 32, 32, 3), np.uint8), "labels": [4]}
    np.savez(tmp_path / "cifar10_test.npz", **one)
    with pytest.raises(ValueError, match="has the test images by its name, but the train images are requested"):
        data.load("cifar10", tmp_path / "cifar10_test.npz", split="train")
    np.savez(tmp_path / "cifar10.npz", **one)
    assert len(data.load("cifar10", tmp_path)) == 1
    with pytest.raises(FileNotFoundError, match="has no cifar10 train set"):
        data.load("cifar10", tmp_path, split="train")


def test_the_data_home_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDWAY_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=str(tmp_path / "cifar10")):
        data.load("cifar10")
    (tmp_path / "cifar10").mkdir()
    np.savez(tmp_path / "cifar10" / "test.npz", images=np.zeros((1, 32, 32, 3), np.uint8), labels=[4])
    assert data.load("cifar10").labels.tolist() == [4]


def test_clean_sets_are_corrupted_on_access() -> None:
    clean = data.load("cifar10-mini")
    noisy = data.load("cifar10-mini", corruption="gaussian_noise", severity=3, seed=7)
    assert isinstance(noisy.images, data.CorruptedImages)
    expected = data.corrupt(clean.images[[4, 9]], "gaussian_noise", severity=3, seed=7, indices=[4, 9])
    np.testing.assert_array_equal(noisy.images[[4, 9]], expected)
    np.testing.assert_array_equal(noisy.labels, clean.labels)


@pytest.mark.parametrize("corruption", ["glass_blur", "fog", "contrast"])
def test_image_i_does_not_depend_on_the_batch(corruption: str) -> None:
    images = data.CorruptedImages(data.load("cifar10-mini").images, corruption, 5, seed=1)
    together = images[:6]
    np.testing.assert_array_equal(images[[5, 2]], together[[5, 2]])
    np.testing.assert_array_equal(images[3], together[3])
    np.testing.assert_array_equal(images[np.arange(len(images)) == 4], together[4:5])
    assert images[[]].shape == (0, 32, 32, 3)
    assert len(images) == 2000


class SlowImages:
    """Counts the batches that are being read or waiting."""

    shape = (100, 1, 1, 1)

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.started, self.lock = seconds, 0, threading.Lock()

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: Any, /) -> np.ndarray:
        with self.lock:
            self.started += 1
        time.sleep(self.seconds)
        if (np.asarray(index) == 99).any():
            raise ValueError("image 99 is damaged")
        return np.asarray(index, np.uint8)[:, None, None, None]


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_prefetching_keeps_the_order_and_bounds_the_memory(depth: int) -> None:
    images = SlowImages(0.001)
    batches = [[i, i + 1] for i in range(20)]
    for number, batch in enumerate(data.prefetched(images, batches, depth)):
        assert batch.ravel().tolist() == batches[number]
        assert images.started <= number + 1 + depth
    assert images.started == 20


def test_prefetching_reads_while_the_batch_is_used() -> None:
    images = SlowImages()
    stream = data.prefetched(images, [[i] for i in range(10)])
    next(stream)
    deadline = time.monotonic() + 600
    while images.started < 3 and time.monotonic() < deadline:  # nothing more is asked for: the threads read ahead
        time.sleep(0.001)
    assert images.started == 3
    assert [int(batch[0, 0, 0, 0]) for batch in stream] == list(range(1, 10))


def test_prefetching_stops_early_and_passes_errors_on() -> None:
    images = SlowImages()
    stream = data.prefetched(images, [[i] for i in range(50)])
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert images.started <= 4
    stream = data.prefetched(images, [[1], [2], [99], [3]])
    assert [int(next(stream)[0, 0, 0, 0]) for _ in range(2)] == [1, 2]
    with pytest.raises(ValueError, match="image 99 is damaged"):
        next(stream)
    with pytest.raises(ValueError, match="depth is -1"):
        data.prefetched(images, [], -1)


def test_importing_takes_no_optional_package() -> None:
    code = (
        "import sys, midway.data; print([n for n in ('torchvision', 'datasets', 'optuna', 'ray') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_registered_data_set_is_loaded_and_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY, "_objects", dict(REGISTRY))

    @data.dataset("flowers", remedy="get it from example.org/flowers.")
    def load_flowers(root: Path, *, split: str, domain: str | None) -> data.ImageSet:
        images, labels = np.zeros((2, 8, 8, 3), np.uint8), np.zeros(2, np.int64)
        return data.ImageSet(images, labels, (f"{split} {root.name}",), "flowers")

    monkeypatch.setenv("MIDWAY_DATA", str(tmp_path))
    assert "flowers" in data.names()
    assert REGISTRY["flowers"].shifts == "domains"
    loaded = data.load("flowers", split="train", domain="garden")
    assert (loaded.name, loaded.class_names) == ("flowers:garden", ("train flowers",))
    with pytest.raises(ValueError, match="size= does not apply to the data set flowers"):
        data.load("flowers", size=32)
    with pytest.raises(ValueError, match=r"flowers cannot be fetched: get it from example\.org/flowers\."):
        data.fetch("flowers")


def test_a_loader_with_an_unknown_argument_is_refused() -> None:
    def load_flowers(root: Path, *, colour: str) -> data.ImageSet:
        raise AssertionError

    with pytest.raises(ValueError, match="the loader of flowers takes colour, expected classes, corruption, domain"):
        data.dataset("flowers", remedy="")(load_flowers)


def test_shifts_follow_from_the_arguments_of_the_loader() -> None:
    kinds = {name: REGISTRY[name].shifts for name in data.names()}
    assert {name for name, kind in kinds.items() if kind == "domains"} == {"domainnet", "imagenet-d109", "pacs"}
    assert {name for name, kind in kinds.items() if kind == "stored"} == {
        "cifar10-c",
        "cifar100-c",
        "imagenet-c",
        "tiny-imagenet-c",
    }
