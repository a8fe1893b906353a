"""Which logit each class folder is: names, indices, files and published lists."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import midway
from midway import data
from midway.bench import Grid, LocalEngine, PlanError
from midway.bench.record import Cell, Record

FISH, SHARK = "n01443537", "n01484850"  # logits 1 and 2 of ImageNet


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two class folders: goldfish are bright, sharks dark."""
    for name, value in ((FISH, 250), (SHARK, 5)):
        for index in range(4):
            path = tmp_path / "images" / name / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (value,) * 3).save(path)
    return tmp_path / "images"


class FishOrShark(nn.Module):
    """Answers logit 1 for bright and logit 2 for dark images, among 1,000; without a limit it prefers logit 0."""

    def forward(self, images: Tensor) -> Tensor:
        bright = images.mean(dim=(1, 2, 3))
        logits = torch.zeros(len(images), 1000)
        logits[:, 0], logits[:, 1], logits[:, 2] = 9.0, 4 * bright, 4 * (1 - bright)
        return logits


def fish_or_shark() -> nn.Module:
    return FishOrShark()


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        ("imagenet", [1, 2]),
        ([1, 2], [1, 2]),
        (np.array([7, 3]), [7, 3]),
        ({FISH: 1, SHARK: 2}, [1, 2]),
        ([f"{SHARK}=0", f"{FISH}=5"], [5, 0]),
        (["a", SHARK, FISH], [2, 1]),
    ],
)
def test_forms_of_classes(folder: Path, classes: data.class_lists, labels: list[int]) -> None:  # type: ignore[valid-type]
    loaded = data.load("folder", folder, classes=classes)  # type: ignore[arg-type]
    assert loaded.labels[[0, -1]].tolist() == labels
    assert loaded.class_names[labels[0]] == FISH
    assert loaded.logits is None
    by_names = isinstance(classes, str) or (isinstance(classes, list) and classes[0] == "a")
    assert loaded.complete is not by_names


def test_names_of_some_classes_are_refused_where_the_network_has_more(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"2 class folders and the network 1000 logits.*the names of all 1000 classes"):
        midway.evaluate(FishOrShark(), folder, classes=[FISH, SHARK])
    assert midway.evaluate(FishOrShark(), folder, classes={FISH: 1, SHARK: 2}).images == 8


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("names.txt", f"# all classes\nnone\n{FISH}\n{SHARK}\n"),
        ("pairs.txt", f"{SHARK} 2\n{FISH} 1\n"),
        ("pairs.csv", f"{SHARK},2\n{FISH},1\n"),
        ("names.json", json.dumps(["none", FISH, SHARK])),
        ("index.json", json.dumps({"1": [FISH, "goldfish"], "2": [SHARK, "great white shark"], "0": ["x", "y"]})),
        ("map.json", json.dumps({FISH: 1, SHARK: 2})),
    ],
)
def test_files_of_classes(folder: Path, tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    for given in (tmp_path / name, str(tmp_path / name)):
        assert data.load("folder", folder, classes=given).labels[[0, -1]].tolist() == [1, 2]


def test_subsets_of_imagenet_limit_the_network(folder: Path) -> None:
    loaded = data.load("folder", folder, classes="imagenet-r")
    assert len(loaded.class_names) == 200
    assert loaded.logits is not None
    assert [loaded.logits[label] for label in loaded.labels[[0, -1]]] == [1, 2]
    assert midway.evaluate(FishOrShark(), folder, classes="imagenet-r").accuracy == 100
    assert midway.evaluate(FishOrShark(), folder, classes="imagenet").accuracy == 0
    with pytest.raises(ValueError, match=r"adapt the network limited to them, midway\.models\.SelectLogits"):
        midway.evaluate(midway.Source(FishOrShark()), folder, classes="imagenet-r")


def test_the_published_lists() -> None:
    imagenet = data.class_indices("imagenet")
    assert list(imagenet) == sorted(imagenet)
    assert list(imagenet.values()) == list(range(1000))
    wnids = list(imagenet)
    for name in ("imagenet-r", "imagenet-a"):
        subset = data.class_indices(name)
        assert len(subset) == 200
        assert all(wnids[index] == wnid for wnid, index in subset.items())
    assert len(data.class_indices("imagenet-r").keys() & data.class_indices("imagenet-a").keys()) == 86
    of_domains = data.class_indices("imagenet-d109")
    assert (len(of_domains), len(set(of_domains.values()))) == (109, 109)
    assert list(of_domains)[:2] == ["aircraft_carrier", "ambulance"]
    with pytest.raises(ValueError, match="did you mean 'imagenet-r'"):
        data.class_indices("imagenet-rr")


def test_fewer_folders_than_logits_are_refused_with_the_remedy(folder: Path) -> None:
    loaded = data.load("folder", folder)
    for shown in (folder, loaded, midway.streams.pure(loaded, "clean"), midway.streams.pure(loaded, "clean").cached()):
        with pytest.raises(ValueError, match=r"2 class folders and the network 1000 logits.*give classes="):
            midway.evaluate(FishOrShark(), shown)
    assert midway.evaluate(midway.models.SelectLogits(FishOrShark(), [1, 2]), folder).accuracy == 100


def test_folders_named_by_numbers_are_in_the_order_of_the_numbers(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / str(number)).mkdir()
        Image.new("RGB", (4, 4), (number,) * 3).save(tmp_path / str(number) / "a.png")
    loaded = data.load("folder", tmp_path)
    assert loaded.class_names == tuple(map(str, range(12)))
    assert loaded.images[:][:, 0, 0, 0].tolist() == loaded.labels.tolist()


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([1], "has 2 class folders, but classes has 1 indices"),
        ([1, 1], "names 1 twice"),
        ({FISH: 1, SHARK: 1}, "two class folders the same index"),
        ({FISH: "one"}, "must map each class folder to the index of its logit"),
        ({FISH: 1}, f"unknown class folder '{SHARK}'"),
        ([FISH, 2], "must be names or indices"),
        ([-1, 2], "must be names or indices"),
        ("imagenet-x", r"unknown list of classes 'imagenet-x'.*There is no such file either"),
    ],
)
def test_wrong_classes_are_refused(folder: Path, classes: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        data.load("folder", folder, classes=classes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "# nothing\n", "has no classes"),
        ("a.json", "{", "is not JSON"),
        ("b.json", "3", "must be a list of names"),
    ],
)
def test_wrong_files_are_refused(folder: Path, tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        data.load("folder", folder, classes=tmp_path / name)


def plan(folder: Path, **content: object) -> Grid:
    here = f"{Path(__file__)}:fish_or_shark"
    facts = {
        "methods": "source",
        "networks": here,
        "data": f"folder@{folder}",
        "scenarios": "pure:clean",
        "device": "cpu",
    }
    return Grid.from_dict({**facts, **content})


@pytest.mark.parametrize(
    ("classes", "accuracy"),
    [
        ("imagenet-r", 100),
        ("imagenet", 0),
        ("1,2", 0),
        ([1, 2], 0),
        (f"{FISH}=2,{SHARK}=1", 0),
        ({FISH: 1, SHARK: 2}, 0),
    ],
)
def test_classes_in_plans(folder: Path, classes: object, accuracy: float) -> None:
    (cell,) = plan(folder, classes=classes).cells()
    (record,) = LocalEngine().run([cell])
    assert record.result is not None, record.failure
    assert record.result.accuracy == accuracy
    again = Record.from_line(record.to_line().rstrip(), "")
    assert again.cell == cell
    assert again.cell.key == cell.key


def test_class_folders_without_classes_need_as_many_logits(folder: Path) -> None:
    (without,) = plan(folder).cells()
    assert Cell.from_dict(without.to_dict()) == without
    (record,) = LocalEngine().run([without])
    assert record.failure is not None
    assert "2 class folders and the network 1000 logits" in record.failure.error


def test_plans_refuse_wrong_classes(folder: Path) -> None:
    with pytest.raises(PlanError, match="unknown list of classes 'imagenet-x'"):
        plan(folder, classes="imagenet-x")
    with pytest.raises(PlanError, match="must be names, indices, a file"):
        plan(folder, classes=3)
    with pytest.raises(PlanError, match="classes does not apply to the data set cifar10-mini"):
        plan(folder, data="cifar10-mini", classes="imagenet").cells()


def test_an_unlabelled_folder_has_no_accuracy(folder: Path) -> None:
    plain = folder / FISH
    result = midway.evaluate(FishOrShark(), plain)
    assert result.images == 4
    with pytest.raises(ValueError, match="there is no accuracy: the images have no labels"):
        _ = result.accuracy
    from midway.bench.resources import ResourceCache, check_data

    with pytest.raises(ValueError, match=r"has no class folders, so its images have no labels.*midway\.compare"):
        check_data(plan(plain).cells(), ResourceCache())
