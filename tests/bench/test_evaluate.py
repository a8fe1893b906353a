from __future__ import annotations

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import midway
from midway.bench import Result
from midway.data import ImageSet
from midway.methods import About, Method
from midway.testing import batches, tiny_network


class Brightness(nn.Module):
    """Class 1 for bright images, class 0 for dark ones."""

    def forward(self, images: Tensor) -> Tensor:
        mean = images.mean(dim=(1, 2, 3))
        return torch.stack([0.5 - mean, mean - 0.5], dim=1)


def black_and_white() -> ImageSet:
    """Ten images: the even ones black, the odd ones white; labels right but for the last two."""
    images = np.zeros((10, 4, 4, 3), np.uint8)
    images[1::2] = 255
    labels = np.array([0, 1, 0, 1, 0, 1, 0, 1, 1, 0])
    return ImageSet(images, labels, ("dark", "bright"), "black and white")


def test_accuracies_by_hand() -> None:
    seen: list[float] = []
    stream = midway.streams.pure(black_and_white(), "clean", batch_size=4)
    result = midway.evaluate(Brightness(), stream, on_batch=seen.append)
    assert result.images == 10
    assert result.accuracy == 80
    assert result.by_group == {"clean": 80}
    assert result.groups["clean"]["images"] == 10
    assert list(result.batch_accuracies) == [100, 100, 0]
    assert seen == [100, 100, 80]
    assert result.seconds_per_batch > 0


def test_groups_are_told_apart() -> None:
    data = black_and_white()
    inverted = ImageSet(255 - np.asarray(data.images), data.labels, data.class_names, "inverted")
    result = midway.evaluate(Brightness(), midway.streams.mixture(data, "clean", inverted, batch_size=10))
    right = {"clean": data.labels != np.array([9] * 8 + [1, 0]), "inverted": data.labels == np.array([9] * 8 + [1, 0])}
    group = midway.streams.mixture(data, "clean", inverted, batch_size=10).group
    assert result.by_group == {
        name: 100 * right[name][group == number].mean() for number, name in enumerate(("clean", "inverted"))
    }


def test_a_result_survives_json() -> None:
    stream = midway.streams.pure(black_and_white(), "clean", batch_size=4)
    result = midway.evaluate(midway.Tent(tiny_network(classes=2), betas=(0.5, 0.9)), stream)
    assert result.hyperparameters["betas"] == [0.5, 0.9]
    assert Result.from_dict(json.loads(json.dumps(asdict(result)))) == result


class Counting(Method):
    """Answers right for the first batch only."""

    about = About("counting", "Counting", "-", "none", "-", "-", "1 F")

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.seen = self.add_state("seen", 0)

    def step(self, images: Tensor) -> Tensor:
        self.seen += 1
        logits: Tensor = self.model(images)
        return logits if self.seen == 1 else -logits


def test_reset_is_the_default_and_can_be_turned_off() -> None:
    stream = midway.streams.pure(black_and_white().first(8), "clean", batch_size=8)
    method = Counting(Brightness())
    assert midway.evaluate(method, stream).accuracy == 100
    assert midway.evaluate(method, stream).accuracy == 100
    assert midway.evaluate(method, stream, reset=False).accuracy == 0


def test_metrics_refuse_what_does_not_match() -> None:
    with pytest.raises(ValueError, match=r"\(2,\) predictions for \(3,\) labels"):
        midway.metrics.accuracy(torch.zeros(2), torch.zeros(3))
    assert math.isnan(midway.metrics.accuracy(torch.zeros(0), torch.zeros(0)))


def test_any_pairs_of_images_and_labels_will_do() -> None:
    images, labels = torch.rand(10, 3, 8, 8), torch.arange(10) % 4
    loader = DataLoader(TensorDataset(images, labels), batch_size=4)
    result = midway.evaluate(tiny_network(), loader)
    logits = midway.Source(tiny_network())(images)
    assert result.accuracy == 100 * int((logits.argmax(1) == labels).sum()) / 10
    assert (result.images, result.by_group) == (10, {"images": result.accuracy})
    assert midway.evaluate(tiny_network().double(), loader).accuracy == result.accuracy
    with pytest.raises(TypeError, match="the stream must give batches of images, got str: give batches"):
        midway.evaluate(tiny_network(), ["a.png"])
    once = iter(loader)
    midway.evaluate(tiny_network(), once)
    with pytest.raises(ValueError, match=r"stream has no batches: .* \(a generator is exhausted after one method\)"):
        midway.evaluate(tiny_network(), once)


def test_labels_that_the_network_does_not_know_are_named() -> None:
    with pytest.raises(ValueError, match="has label 9, but the network has 4 classes, 0 to 3"):
        midway.evaluate(tiny_network(), [(torch.rand(2, 3, 8, 8), torch.tensor([1, 9]))])


def test_labels_are_integers_in_tensors_of_any_type() -> None:
    network, images = tiny_network(), batches(1, size=6)[0]
    labels = torch.zeros(6, dtype=torch.long)
    assert midway.evaluate(network, TensorDataset(images, labels)).images == 6
    with pytest.raises(ValueError, match="labels must be integers"):
        midway.evaluate(network, [(images, torch.full((6,), 0.7))])
    assert midway.evaluate(network, [(images, torch.zeros(6))]).images == 6


def test_what_is_not_a_stream_or_has_too_few_labels_is_refused() -> None:
    data = midway.data.load("cifar10-mini").first(4)
    assert midway.evaluate(tiny_network(classes=10), data).images == 4
    for wrong in (7, tiny_network()):
        with pytest.raises(TypeError, match=r"is not a source of images: give batches"):
            midway.evaluate(tiny_network(classes=10), wrong)
    with pytest.raises(ValueError, match=r"4 images but labels of shape \(3,\)"):
        midway.evaluate(tiny_network(classes=10), [(torch.rand(4, 3, 32, 32), torch.zeros(3, dtype=torch.long))])
