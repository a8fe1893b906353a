from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import IterableDataset, TensorDataset

from midway.data import from_dataset
from midway.data.torch_datasets import as_array


def test_tensor_dataset() -> None:
    images = torch.arange(4 * 3 * 8 * 6).remainder(256).reshape(4, 3, 8, 6) / 255
    data = from_dataset(TensorDataset(images, torch.tensor([0, 2, 1, 2])), name="mine")
    assert data.images.shape == (4, 8, 6, 3)
    assert data.labels.tolist() == [0, 2, 1, 2]
    assert data.class_names == ("class 0", "class 1", "class 2")
    expected = (images[[3, 1]] * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    np.testing.assert_array_equal(data.images[[3, 1]], expected)


class HuggingFaceLike:
    """The part of a Hugging Face data set that is used; counts how often an image is decoded."""

    column_names = ("image", "label")
    features = {"label": type("ClassLabel", (), {"names": ["cat", "dog"]})()}  # noqa: RUF012

    def __init__(self) -> None:
        self.decoded = 0
        self.column_names = ["image", "label"]  # type: ignore[assignment]

    def __len__(self) -> int:
        return 3

    def __getitem__(self, key: Any) -> Any:
        if key == "label":
            return [0, 1, 1]
        self.decoded += 1
        return {"image": Image.new("L", (10 + key, 10), 40 * key), "label": min(key, 1)}


def test_hugging_face_columns_are_read_without_decoding() -> None:
    dataset = HuggingFaceLike()
    data = from_dataset(dataset)
    assert data.class_names == ("cat", "dog")
    assert data.labels.tolist() == [0, 1, 1]
    assert dataset.decoded == 1  # the first, for its size
    assert data.images[1:].shape == (2, 10, 10, 3)
    assert data.images[2].max() == 80
    assert dataset.decoded == 4


class TorchvisionLike:
    classes = ("zero", "one")
    targets = (0, 1)

    def __init__(self, target_transform: Any = None) -> None:
        self.target_transform = target_transform

    def __len__(self) -> int:
        return 2

    def __getitem__(self, place: int) -> tuple[Image.Image, int]:
        label = self.targets[place]
        return Image.new("RGB", (4, 4)), self.target_transform(label) if self.target_transform else label


def test_targets_are_used_unless_they_are_transformed() -> None:
    assert from_dataset(TorchvisionLike()).labels.tolist() == [0, 1]
    assert from_dataset(TorchvisionLike(lambda label: 1 - label)).labels.tolist() == [1, 0]
    assert from_dataset(TorchvisionLike()).class_names == ("zero", "one")
    assert from_dataset(TorchvisionLike(), size=9).images[:].shape == (2, 9, 9, 3)


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        yield from ((np.full((5, 5), value, np.uint8), value) for value in range(3))


def test_iterable_datasets_are_collected() -> None:
    data = from_dataset(Stream())
    assert data.images[:][:, 0, 0, 0].tolist() == data.labels.tolist() == [0, 1, 2]


def test_labels_are_integers() -> None:
    image = np.zeros((8, 8, 3), np.uint8)
    for label in ("cat", 1.5):
        with pytest.raises(ValueError, match=f"labels must be integers, 0 for the first class, got {label!r}"):
            from_dataset([(image, label)])
    assert from_dataset([(image, np.int64(1)), (image, torch.tensor(0))]).labels.tolist() == [1, 0]


def test_wrong_items_are_explained() -> None:
    with pytest.raises(ValueError, match="is empty"):
        from_dataset([])
    with pytest.raises(ValueError, match="an item is a int"):
        from_dataset([3])
    with pytest.raises(ValueError, match="keys picture, label"):
        from_dataset([{"picture": 0, "label": 1}])
    with pytest.raises(ValueError, match=r"values from -2 to 2, expected \[0, 1\]: remove the normalisation"):
        as_array(torch.tensor([[[-2.0, 2.0]]]))
    with pytest.raises(ValueError, match=r"shape \(2, 4, 4\)"):
        as_array(np.zeros((2, 4, 4), np.uint8))
    with pytest.raises(ValueError, match="an image is int64"):
        as_array(np.zeros((4, 4, 3), np.int64))
    with pytest.raises(ValueError, match="labels are from 0 to 5"):
        from_dataset([(np.zeros((4, 4), np.uint8), 0), (np.zeros((4, 4), np.uint8), 5)], class_names=["a", "b"])
