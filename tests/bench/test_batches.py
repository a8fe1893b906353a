"""What loaders really give: every form of a batch is the same to evaluate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import midway
from midway.testing import tiny_network

BYTES = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
IMAGES = torch.from_numpy(BYTES).permute(0, 3, 1, 2).float() / 255
LABELS = torch.arange(12) % 4
CUTS = [slice(0, 5), slice(5, 10), slice(10, 12)]


class Pictures(Dataset[Any]):
    """A data set of single pictures in dictionaries, as Hugging Face's are."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index >= 12:
            raise IndexError
        return {"image": Image.fromarray(BYTES[index]), "label": int(LABELS[index])}


class OneByOne(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return zip(IMAGES, LABELS.tolist(), strict=True)


LABELLED: dict[str, Any] = {
    "pairs": [(IMAGES[cut], LABELS[cut]) for cut in CUTS],
    "triples": [(IMAGES[cut], LABELS[cut], ["a.png"] * len(IMAGES[cut])) for cut in CUTS],
    "paths before labels": [(IMAGES[cut], ["a.png"] * len(IMAGES[cut]), LABELS[cut]) for cut in CUTS],
    "dicts": [{"pixel_values": IMAGES[cut], "labels": LABELS[cut], "id": 3} for cut in CUTS],
    "numpy": [(IMAGES[cut].numpy(), LABELS[cut].numpy()) for cut in CUTS],
    "bytes": [(BYTES[cut], LABELS[cut].tolist()) for cut in CUTS],
    "bytes first": [(torch.from_numpy(BYTES[cut]).movedim(-1, 1), LABELS[cut]) for cut in CUTS],
    "doubles": [(IMAGES[cut].double(), LABELS[cut].double()) for cut in CUTS],
    "loader": DataLoader(TensorDataset(IMAGES, LABELS), batch_size=5),
    "loader of dicts": DataLoader([{"x": x, "y": y} for x, y in zip(IMAGES, LABELS, strict=True)], batch_size=5),
    "arrays": (BYTES, LABELS.numpy()),
    "tensors": (IMAGES, LABELS),
    "arrays and a list": (BYTES, LABELS.tolist()),
    "image set": midway.data.ImageSet(BYTES, LABELS.numpy(), tuple("abcd")),
    "pictures": Pictures(),
    "data set of tensors": TensorDataset(IMAGES, LABELS),
    "iterable data set": OneByOne(),
    "lists of pictures": [([Image.fromarray(each) for each in BYTES[cut]], LABELS[cut]) for cut in CUTS],
}
UNLABELLED: dict[str, Any] = {
    "tensors": [IMAGES[cut] for cut in CUTS],
    "tuples of one": DataLoader(TensorDataset(IMAGES), batch_size=5),
    "dicts": [{"image": IMAGES[cut]} for cut in CUTS],
    "one array": BYTES,
    "one tensor": IMAGES,
    "hidden labels": [(IMAGES[cut], torch.full_like(LABELS[cut], -1)) for cut in CUTS],
    "images and paths": [(IMAGES[cut], ["a.png"] * len(IMAGES[cut])) for cut in CUTS],
    "pictures": [Image.fromarray(each) for each in BYTES],
}


@pytest.fixture(scope="module")
def expected() -> torch.Tensor:
    return midway.Source(tiny_network())(IMAGES)


@pytest.mark.parametrize("form", LABELLED)
def test_labelled_forms(form: str, expected: torch.Tensor) -> None:
    result = midway.evaluate(tiny_network(), LABELLED[form])
    assert result.images == 12
    assert result.accuracy == pytest.approx(100 * (expected.argmax(1) == LABELS).double().mean().item())
    nll = torch.nn.functional.cross_entropy(expected, LABELS).item()
    assert result.metrics["nll"] == pytest.approx(nll, rel=1e-4)


@pytest.mark.parametrize("form", UNLABELLED)
def test_unlabelled_forms(form: str) -> None:
    seen: list[float] = []
    result = midway.evaluate(tiny_network(), UNLABELLED[form], on_batch=seen.append)
    assert result.images == 12
    assert "accuracy" not in result.metrics
    assert result.by_group == {}
    assert result.batch_accuracies == ()
    assert all(math.isnan(value) for value in seen)
    assert result.seconds_per_batch > 0


def test_endless_sources_are_cut_without_waiting_for_more() -> None:
    def endless() -> Iterator[Any]:
        yield IMAGES[:5], LABELS[:5]
        yield IMAGES[5:10], LABELS[5:10]
        raise AssertionError("asked for a third batch")

    assert midway.evaluate(tiny_network(), endless(), images=8).images == 8
    assert midway.evaluate(tiny_network(), endless(), images=10).images == 10
    assert midway.evaluate(tiny_network(), ((IMAGES, LABELS) for _ in itertools.count()), images=30).images == 30
    with pytest.raises(ValueError, match="images must be at least 1, got 0"):
        midway.evaluate(tiny_network(), endless(), images=0)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([{"path": "a.png"}], r"a batch has the keys path, none of which .* call it one of image, images"),
        ([3], "the stream must give batches of images, got int"),
        ([(IMAGES, LABELS + 0.5)], "labels must be integers"),
        ([(IMAGES, LABELS), (IMAGES, None)], "batches with labels and batches without"),
        ((IMAGES, LABELS[:5]), "12 images but 5 labels"),
        ([IMAGES[0], IMAGES[0, :, :4]], "single images have sizes"),
    ],
)
def test_what_cannot_be_read_is_named(source: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        midway.evaluate(tiny_network(), source)


def test_classes_are_for_folders() -> None:
    with pytest.raises(ValueError, match="classes= applies to folders"):
        midway.evaluate(tiny_network(), (IMAGES, LABELS), classes="imagenet")


def test_signals_in_batches() -> None:
    layers = [torch.nn.Conv1d(2, 4, 3), torch.nn.BatchNorm1d(4), torch.nn.AdaptiveAvgPool1d(1), torch.nn.Flatten()]
    network = torch.nn.Sequential(*layers)
    assert midway.evaluate(midway.Tent(network), [(torch.randn(6, 2, 50), torch.zeros(6))]).images == 6
    assert midway.evaluate(network, (torch.randn(6, 2, 50), torch.zeros(6))).images == 6


def test_signals_without_labels() -> None:
    layers = [torch.nn.Conv1d(2, 4, 3), torch.nn.BatchNorm1d(4), torch.nn.AdaptiveAvgPool1d(1), torch.nn.Flatten()]
    network, signals = torch.nn.Sequential(*layers), torch.randn(6, 2, 50)
    for data in (signals, signals.numpy(), [signals, signals[:3]], DataLoader(TensorDataset(signals), batch_size=4)):
        result = midway.compare(network, data, "bn", batch_size=4, progress=False)
        assert (result.labelled, result["bn"].images) == (False, 9 if isinstance(data, list) else 6)
    with pytest.raises(ValueError, match="these inputs are no images"):
        midway.recommend(network, signals, "bn", progress=False)


def test_hugging_face_data_sets() -> None:
    datasets = pytest.importorskip("datasets")
    columns = {"image": [Image.fromarray(each) for each in BYTES], "label": LABELS.tolist()}
    data = datasets.Dataset.from_dict(columns).cast_column("image", datasets.Image())
    assert midway.evaluate(tiny_network(), data).images == 12
    assert midway.evaluate(tiny_network(), data.to_iterable_dataset()).images == 12
    assert midway.evaluate(tiny_network(), data.remove_columns("label")).images == 12
