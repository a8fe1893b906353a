"""Small data sets in the layouts people have on disk."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from midway.data.loaders.cifar import CIFAR10, CIFAR100, CifarFacts

WriteImage = Callable[..., Path]
Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]


@pytest.fixture
def write_image() -> WriteImage:
    """Write one file of a single colour."""

    def write(path: Path, colour: int = 0, size: tuple[int, int] = (16, 16), mode: str = "RGB") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new(mode, size, colour if mode == "L" else (colour,) * len(mode)).save(path)
        return path

    return write


@pytest.fixture
def write_cifar() -> Callable[..., dict[str, Batch]]:
    """Write CIFAR pickles as published: a row is the red plane, then the green, then the blue."""

    def write(root: Path, facts: CifarFacts = CIFAR10, count: int = 6, protocol: int = 2) -> dict[str, Batch]:
        folder = root / facts.archive.folder
        folder.mkdir(parents=True)
        rng = np.random.default_rng(0)
        written: dict[str, Batch] = {}
        for split, files in facts.batches.items():
            batches = []
            for file in files:
                rows = rng.integers(0, 256, (count, 3072), dtype=np.uint8)
                labels = rng.integers(0, len(facts.class_names), count)
                content = {
                    "batch_label": file,
                    facts.label_key: labels.tolist(),
                    "data": rows,
                    "filenames": ["a"] * count,
                }
                (folder / file).write_bytes(pickle.dumps(content, protocol=protocol))
                batches.append((rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), labels))
            written[split] = (
                np.concatenate([images for images, _ in batches]),
                np.concatenate([labels for _, labels in batches]),
            )
        return written

    assert CIFAR100.label_key == "fine_labels"
    return write


@pytest.fixture
def write_cifar_c() -> Callable[..., None]:
    """Write CIFAR-10-C as published, but with few images: image i of severity s is filled with 10 s + i."""

    def write(folder: Path, corruptions: tuple[str, ...] = ("fog", "snow"), count: int = 4) -> None:
        folder.mkdir(parents=True)
        values = np.array([10 * severity + i for severity in range(1, 6) for i in range(count)], np.uint8)
        for corruption in corruptions:
            np.save(folder / f"{corruption}.npy", np.broadcast_to(values[:, None, None, None], (5 * count, 32, 32, 3)))
        np.save(folder / "labels.npy", np.tile(np.arange(count, dtype=np.uint8), 5))

    return write


@pytest.fixture
def shared_data() -> Path:
    """Real data beside the repository, where there is some."""
    path = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("there is no ../shared/data beside the repository")
    return path
