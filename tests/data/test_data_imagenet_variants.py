"""ImageNet-R, -A, -V2, -Sketch and -D109 in their published layouts, with one small image in each class."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import midway
from midway import data
from midway.adaptation.class_subset import select_classes
from midway.bench import Grid, ResourceCache
from midway.models import SelectLogits
from midway.testing import tiny_network

WriteImage = Callable[..., Path]


D109 = 3957384
"""The sum over the published list of place times index, against any slip or exchange."""


def same(network: nn.Module, name: str, classes: int) -> nn.Module:
    return network


def wordnet_names(count: int) -> list[str]:
    return [f"n{1440764 + 37 * number:08d}" for number in range(count)]


def write_folders(root: Path, names: list[str], write_image: WriteImage) -> None:
    for number, name in enumerate(names):
        write_image(root / name / f"art_{number}.jpg", number % 250, (16, 16))


@pytest.mark.parametrize(("name", "inner", "count"), [("imagenet-r", ".", 200), ("imagenet-a", "imagenet-a", 200)])
def test_sorted_folders_are_the_classes(
    tmp_path: Path, write_image: WriteImage, name: str, inner: str, count: int
) -> None:
    names = wordnet_names(count)
    write_folders(tmp_path / inner, names, write_image)
    (tmp_path / inner / "README.txt").write_text("about the images")
    loaded = data.load(name, tmp_path, size=8)
    assert loaded.class_names == tuple(names)
    assert loaded.labels.tolist() == list(range(count))
    assert loaded.images[[3]].shape == (1, 8, 8, 3)


def test_all_folders_must_be_there_because_their_order_gives_the_labels(
    tmp_path: Path, write_image: WriteImage
) -> None:
    names = wordnet_names(200)
    write_folders(tmp_path, names[5:8], write_image)
    for name, expected in (("imagenet-r", 200), ("imagenet-sketch", 1000)):
        with pytest.raises(ValueError, match=f"has 3 class folders, expected {expected}, whose order.*get i"):
            data.load(name, tmp_path)
    part = data.load("imagenet-r", tmp_path, classes=names)
    assert part.labels.tolist() == [5, 6, 7]
    with pytest.raises(FileNotFoundError, match=r"is missing.*github\.com/hendrycks/imagenet-r"):
        data.load("imagenet-r", tmp_path / "nothing")


def test_sketch_has_all_classes(tmp_path: Path, write_image: WriteImage) -> None:
    names = wordnet_names(1000)
    for name in names:
        (tmp_path / "sketch" / name).mkdir(parents=True)
    write_image(tmp_path / "sketch" / names[998] / "sketch_1.JPEG")
    loaded = data.load("imagenet-sketch", tmp_path)
    assert (loaded.labels.tolist(), len(loaded.class_names)) == ([998], 1000)


def test_numbers_of_v2_are_labels_not_positions(tmp_path: Path, write_image: WriteImage) -> None:
    root = tmp_path / "imagenetv2-matched-frequency-format-val"
    for number in (0, 1, 2, 10, 100, 999):
        write_image(root / str(number) / "a.jpeg", number % 250)
    loaded = data.load("imagenet-v2", tmp_path)
    assert sorted(loaded.labels.tolist()) == [0, 1, 2, 10, 100, 999]
    assert [int(image[0, 0, 0]) for image in loaded.images[:]] == [label % 250 for label in loaded.labels]
    assert len(loaded.class_names) == 1000
    write_image(root / "1000" / "a.jpeg")
    with pytest.raises(ValueError, match="has a folder '1000', expected numbers from 0 to 999"):
        data.load("imagenet-v2", tmp_path)


def test_d109_reads_its_classes_of_domainnet(tmp_path: Path, write_image: WriteImage) -> None:
    for domain, name in itertools.product(("clipart", "real"), ("zebra", "ambulance", "t-shirt", "The_Mona_Lisa")):
        write_image(tmp_path / domain / name / "1.jpg", 7)
    (tmp_path / "empty").mkdir()
    loaded = data.load("imagenet-d109", tmp_path, domain="real")
    assert len(loaded.class_names) == 109
    assert [loaded.class_names[label] for label in loaded.labels] == ["ambulance", "t-shirt", "zebra"]
    indices = data.imagenet_indices("imagenet-d109")
    assert indices is not None
    assert [indices[label] for label in loaded.labels] == [407, 610, 340]
    assert loaded.name == "imagenet-d109:real"
    with pytest.raises(ValueError, match="imagenet-d109 needs domain=, one of clipart, real"):
        data.load("imagenet-d109", tmp_path)
    with pytest.raises(FileNotFoundError, match="has no domains"):
        data.load("imagenet-d109", tmp_path / "empty", domain="real")


def test_the_lists_are_the_published_ones() -> None:
    r, a, d = (data.imagenet_indices(f"imagenet-{name}") for name in ("r", "a", "d109"))
    assert r is not None
    assert a is not None
    assert d is not None
    assert (len(r), len(a), len(d)) == (200, 200, 109)
    assert r == tuple(sorted(set(r)))
    assert a == tuple(sorted(set(a)))
    assert len(set(d)) == 109
    assert len(set(r) & set(a)) == 86
    assert max(*r, *a, *d) < 1000
    assert {1, 988} <= set(r) <= set(range(1000))
    assert (sum(r), sum(a)) == (86135, 102178)  # any slip of a digit
    for name in ("imagenet-r", "imagenet-a", "imagenet-d109"):  # the list of logits and that of classes
        assert tuple(data.class_indices(name).values()) == data.imagenet_indices(name)
    assert sum((place + 1) * index for place, index in enumerate(d)) == D109
    assert all(
        data.imagenet_indices(name) is None for name in ("imagenet", "imagenet-v2", "imagenet-sketch", "cifar10")
    )


def test_logits_are_chosen_before_the_softmax() -> None:
    network, images = tiny_network(classes=12), midway.testing.batches(1)[0]
    chosen = select_classes(network, [11, 0, 5])
    torch.testing.assert_close(chosen(images), network(images)[:, [11, 0, 5]])
    assert len(network(images)[0]) == 12
    for method in ("lame", "t3a", "tent"):  # the first two need the head
        assert midway.adapt(chosen, method)(images).shape == (12, 3)
    for indices in ([], [1, 1], [-1]):
        with pytest.raises(ValueError, match="indices must be one or more different classes"):
            select_classes(network, indices)
    with pytest.raises(ValueError, match="the model has 12 classes, so there is no class 12"):
        select_classes(network, [12])


def test_networks_whose_head_is_not_linear() -> None:
    class Pooled(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return images.flatten(1)[:, :6]

    images = torch.rand(2, 3, 8, 8)
    chosen = select_classes(Pooled(), [4, 1])
    assert isinstance(chosen, SelectLogits)
    assert torch.equal(chosen(images), images.flatten(1)[:, [4, 1]])
    assert torch.equal(select_classes(Pooled(), [4, 1], or_just_these=True)(images), chosen(images))
    just_these = select_classes(Pooled(), [9, 8, 7, 6, 5, 4], or_just_these=True)  # it was trained on six classes
    assert torch.equal(just_these(images), Pooled()(images))
    with pytest.raises(ValueError, match="there is no logit 9: the network has 6 logits"):
        select_classes(Pooled(), [9, 0], or_just_these=True)(images)
    alone = select_classes(nn.Linear(3, 5), [2])
    assert alone(torch.rand(1, 3)).shape == (1, 1)


def test_plans_give_a_network_of_imagenet_the_classes_of_the_set(tmp_path: Path, write_image: WriteImage) -> None:
    write_folders(tmp_path, wordnet_names(200), write_image)
    networks = {1000: tiny_network(classes=1000), 200: tiny_network(classes=200)}
    answers = {}
    for classes, network in networks.items():
        for name in ("imagenet-r", "imagenet-a"):
            settings = {"methods": "source", "data": name, "root": str(tmp_path), "size": 16, "scenarios": "pure:clean"}
            cell = Grid.from_dict(settings).cells()[0]
            found = ResourceCache(make_network=partial(same, network)).network(cell)
            answers[classes, name] = found(torch.ones(1, 3, 16, 16)).detach()
            assert answers[classes, name].shape == (1, 200)
    whole = networks[1000](torch.ones(1, 3, 16, 16)).detach()
    for name in ("imagenet-r", "imagenet-a"):
        torch.testing.assert_close(answers[1000, name], whole[:, list(data.imagenet_indices(name) or ())])
    assert torch.equal(answers[200, "imagenet-r"], answers[200, "imagenet-a"])
    assert np.isfinite(whole.numpy()).all()


class Thousand(nn.Module):
    """Answers every image with the class that its first pixel names: index 4 * value; its head is not linear."""

    def __init__(self, indices: list[int], classes: int = 1000) -> None:
        super().__init__()
        self.table, self.classes = torch.tensor(indices), classes

    def forward(self, images: Tensor) -> Tensor:
        value = (images[:, 0, 0, 0] * 255).round().long()
        return 10 * nn.functional.one_hot(self.table[value], self.classes).float()


def test_a_network_of_imagenet_is_evaluated_with_the_classes_of_the_set(
    tmp_path: Path, write_image: WriteImage
) -> None:
    for name, value in (("ambulance", 0), ("zebra", 1)):
        write_image(tmp_path / "real" / name / "1.png", value, (16, 16))
    domain = data.load("imagenet-d109", tmp_path, domain="real")
    network = Thousand([407, 340])
    assert midway.evaluate(network, domain).accuracy == 100
    with pytest.raises(ValueError, match="adapt the network limited to them"):
        midway.evaluate(midway.Source(network), domain)
    limited = midway.Source(select_classes(network, domain.logits or ()))
    assert midway.evaluate(limited, midway.streams.pure(domain, "clean")).accuracy == 100
    just_these = Thousand([1, 108], classes=109)
    assert midway.evaluate(just_these, domain).accuracy == 100
    assert midway.evaluate(midway.Source(just_these), domain).accuracy == 100
    assert midway.compare(network, domain, "source", progress=False)["source"].accuracy == 100
    for text in ("mixed:clean", "shuffled:clean", "correlated:clean@0", "imbalanced:clean@5", "long_tailed:clean@0.5"):
        with pytest.raises(ValueError, match=r"109 class folders and the network 1000 logits"):
            midway.evaluate(network, midway.streams.build(text, domain))
