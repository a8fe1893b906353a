from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from midway import data
from midway.data.loaders import npm_cifar10
from midway.data.loaders.cifar import CIFAR10, CIFAR10_CLASSES, CIFAR100, CIFAR100_CLASSES, CifarFacts


@pytest.mark.parametrize("facts", [CIFAR10, CIFAR100], ids=lambda facts: facts.name)
@pytest.mark.parametrize("split", ["test", "train"])
def test_published_pickles(
    tmp_path: Path, write_cifar: Callable[..., dict[str, tuple[np.ndarray, np.ndarray]]], facts: CifarFacts, split: str
) -> None:
    images, labels = write_cifar(tmp_path, facts)[split]
    for root in (tmp_path, tmp_path / facts.archive.folder):
        loaded = data.load(facts.name, root, split=split)
        np.testing.assert_array_equal(loaded.images[:], images)
        np.testing.assert_array_equal(loaded.labels, labels)
        assert loaded.class_names == facts.class_names
        assert loaded.name == facts.name


def test_class_names_are_the_canonical_ones() -> None:
    assert len(CIFAR10_CLASSES) == 10
    assert len(CIFAR100_CLASSES) == 100
    assert list(CIFAR100_CLASSES) == sorted(set(CIFAR100_CLASSES))
    assert CIFAR10_CLASSES[3] == "cat"
    assert CIFAR100_CLASSES[99] == "worm"


def test_hostile_batch_does_not_run(tmp_path: Path, write_cifar: Callable[..., object]) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[object, ...]:
            return os.system, (f"touch {tmp_path / 'trace'}",)

    write_cifar(tmp_path)
    (tmp_path / CIFAR10.archive.folder / "test_batch").write_bytes(pickle.dumps({"data": Hostile(), "labels": [0]}))
    with pytest.raises(ValueError, match="test_batch is refused"):
        data.load("cifar10", tmp_path)
    assert not (tmp_path / "trace").exists()


def test_npz_and_npy(tmp_path: Path) -> None:
    images = np.arange(3 * 3072).astype(np.uint8).reshape(3, 32, 32, 3)
    np.savez(tmp_path / "cifar100_test.npz", images=images, labels=np.array([0, 99, 5]))
    for root in (tmp_path, tmp_path / "cifar100_test.npz"):
        loaded = data.load("cifar100", root)
        np.testing.assert_array_equal(loaded.images[[2, 0]], images[[2, 0]])
        assert loaded.labels.tolist() == [0, 99, 5]
    np.save(tmp_path / "train_images.npy", images)
    np.save(tmp_path / "train_labels.npy", np.array([1, 2, 3], np.uint8))
    stored = data.load("cifar10", tmp_path, split="train")
    assert isinstance(stored.images, np.memmap)
    assert stored.labels.tolist() == [1, 2, 3]


def test_sprites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npm_cifar10, "SHEET_SIZE", (1024, 2))
    sheet = np.arange(2 * 1024 * 3).astype(np.uint8).reshape(2, 1024, 3)
    Image.fromarray(sheet).save(tmp_path / "test_batch.png")
    (tmp_path / "test_lables.json").write_text("[3, 8]")
    loaded = data.load("cifar10", tmp_path)
    np.testing.assert_array_equal(loaded.images[:], sheet.reshape(2, 32, 32, 3))
    assert loaded.labels.tolist() == [3, 8]


@pytest.mark.parametrize("split_folder", ["test", "."])
def test_image_folders_keep_the_canonical_labels(
    tmp_path: Path, write_image: Callable[..., Path], split_folder: str
) -> None:
    for name in ("cat", "airplane"):
        write_image(tmp_path / split_folder / name / "0.png", CIFAR10_CLASSES.index(name), (32, 32))
    loaded = data.load("cifar10", tmp_path)
    assert loaded.labels.tolist() == [0, 3]
    assert loaded.images[[0, 1]][:, 0, 0, 0].tolist() == [0, 3]


def test_missing_and_wrong_files_are_named(tmp_path: Path, write_cifar: Callable[..., object]) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere does not exist.*midway data fetch cifar10"):
        data.load("cifar10", tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="has no cifar100 test set in a known layout"):
        data.load("cifar100", tmp_path)
    write_cifar(tmp_path)
    folder = tmp_path / CIFAR10.archive.folder
    with pytest.raises(ValueError, match="split is 'val'"):
        data.load("cifar10", tmp_path, split="val")
    (folder / "data_batch_4").unlink()
    with pytest.raises(FileNotFoundError, match=r"data_batch_4 is missing.*midway data fetch"):
        data.load("cifar10", tmp_path, split="train")
    rows = np.zeros((2, 3072), np.uint8)
    for content, message in [
        ({"labels": [0, 1]}, "has labels, expected 'data' and 'labels'"),
        ({"data": rows[:, :5], "labels": [0, 1]}, r"shape \(2, 5\), expected uint8 of shape \(N, 3072\)"),
        ({"data": rows, "labels": [0]}, r"labels of shape \(1,\), expected \(2,\)"),
        ({"data": rows, "labels": [0, 10]}, "has labels from 0 to 10, expected 0 to 9"),
        ([1], "has list"),
    ]:
        (folder / "test_batch").write_bytes(pickle.dumps(content))
        with pytest.raises(ValueError, match=message):
            data.load("cifar10", tmp_path)
    content = (folder / "data_batch_1").read_bytes()
    (folder / "test_batch").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="test_batch is damaged"):
        data.load("cifar10", tmp_path)


def test_damaged_npz(tmp_path: Path) -> None:
    path = tmp_path / "cifar10_test.npz"
    images = np.zeros((2, 32, 32, 3), np.uint8)
    np.savez(path, images=images, labels=np.zeros(3, int))
    with pytest.raises(ValueError, match=r"cifar10_test.npz has labels of shape \(3,\), expected \(2,\)"):
        data.load("cifar10", path)
    np.savez(path, pictures=images)
    with pytest.raises(ValueError, match="has no array 'images', it has pictures"):
        data.load("cifar10", path)
    np.savez(path, images=images[:, :16], labels=np.zeros(2, int))
    with pytest.raises(ValueError, match=r"expected uint8 of shape \(N, 32, 32, 3\)"):
        data.load("cifar10", path)
    np.savez(path, images=np.array([None, {}]), labels=np.zeros(2, int))
    with pytest.raises(ValueError, match=r"cifar10_test.npz cannot be read"):
        data.load("cifar10", path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"cifar10_test.npz cannot be read \(100 bytes"):
        data.load("cifar10", path)


def test_nested_lists_of_labels_are_refused(tmp_path: Path) -> None:
    labels: list[object] = [0] * 10
    for _ in range(9):
        labels = [labels] * 10  # 10^10 numbers as an array
    content = {"data": np.zeros((1, 3072), np.uint8), "labels": labels}
    (tmp_path / "test_batch").write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(ValueError, match="'labels' is not a list of integers"):
        data.load("cifar10", tmp_path)


def test_a_negative_shape_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "test_images.npy", np.zeros((10, 32, 32, 3), np.uint8))
    np.save(tmp_path / "test_labels.npy", np.zeros(10, np.int64))
    path = tmp_path / "test_images.npy"
    path.write_bytes(path.read_bytes().replace(b"(10, 32, 32, 3)", b"(-1, 32, 32, 3)"))
    with pytest.raises(ValueError, match=r"test_images.npy is not a .npy file \(its shape is \(-1, 32, 32, 3\)\)"):
        data.load("cifar10", tmp_path)


@pytest.mark.parametrize("compressed", [True, False])
def test_every_flipped_bit_of_an_archive_is_noticed(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "cifar10_test.npz"
    images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), np.uint8)
    (np.savez_compressed if compressed else np.savez)(path, images=images, labels=np.zeros(2, np.int64))
    whole, named = path.read_bytes(), list[bool]()
    for position in range(60, len(whole), 97):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
        try:
            loaded = data.load("cifar10", path)
        except ValueError as error:
            named.append("cifar10_test.npz" in str(error))
        else:
            np.testing.assert_array_equal(loaded.images[:], images)  # a bit that no array depends on, such as a date
    assert all(named)
    assert len(named) > 10


def test_an_archive_that_claims_too_much_is_refused(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (10**12,)})
    with zipfile.ZipFile(tmp_path / "cifar10_test.npz", "w") as archive:
        archive.writestr("images.npy", header.getvalue())
        archive.writestr("labels.npy", header.getvalue())
    with pytest.raises(ValueError, match=r"the array 'images' of shape \(1000000000000,\) does not fit its 128 bytes"):
        data.load("cifar10", tmp_path / "cifar10_test.npz")
