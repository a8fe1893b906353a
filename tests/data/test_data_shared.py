"""The loaders on real data, where it is present."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np

from midway import data


def test_imagenet_streams_lazily(shared_data: Path) -> None:
    loaded = data.load("imagenet", shared_data / "imagenet_val_1000")
    assert loaded.images.shape == (1000, 224, 224, 3)
    assert loaded.labels.tolist() == list(range(1000))
    batches = np.arange(192).reshape(24, 8)
    tracemalloc.start()
    try:
        means = [float(batch.mean()) for batch in data.prefetched(loaded.images, batches)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(set(means)) == 24
    assert 80 < np.mean(means) < 150
    assert peak < batches.size * 224 * 224 * 3 / 2  # the batches read ahead and the files in work, not all images


def test_pacs_domains(shared_data: Path) -> None:
    root = shared_data / "pacs_128"
    for domain in ("photo", "art_painting", "cartoon", "sketch"):
        loaded = data.load("pacs", root, domain=domain)
        assert loaded.images.shape == (420, 128, 128, 3)
        assert np.bincount(loaded.labels).tolist() == [60] * 7
        assert loaded.images[[0, 419]].std() > 10
    foggy = data.load("pacs", root, domain="photo", corruption="contrast", severity=5)
    assert foggy.images[[0, 1]].std() < loaded.images[[0, 1]].std()


def test_cifar100(shared_data: Path) -> None:
    loaded = data.load("cifar100", shared_data / "cifar100_test.npz")
    assert loaded.images.shape == (10_000, 32, 32, 3)
    assert np.bincount(loaded.labels).tolist() == [100] * 100
