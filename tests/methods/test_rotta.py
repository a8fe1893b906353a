from __future__ import annotations

import copy
import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.adaptation.balanced_memory import BalancedMemory
from midway.adaptation.batch_norm.replacement import updating_statistics
from midway.adaptation.batch_norm.robust import RobustBatchNorm, use_robust_statistics
from midway.testing import batches, tiny_network


class NaiveMemory:
    """The memory as lists of (image, entropy, age) by class, written from the rules."""

    def __init__(self, capacity: int, classes: int) -> None:
        self.capacity, self.classes = capacity, classes
        self.lists: list[list[list[Any]]] = [[] for _ in range(classes)]

    def score(self, age: int, uncertainty: float) -> float:
        return 1 / (1 + math.exp(-age / self.capacity)) + uncertainty

    def offer(self, image: Any, label: int, uncertainty: float) -> None:
        sizes = [len(items) for items in self.lists]
        wanted = True
        if sizes[label] < self.capacity / self.classes and sum(sizes) < self.capacity:
            pass
        else:
            under = sizes[label] < self.capacity / self.classes
            places = [k for k in range(self.classes) if sizes[k] == max(sizes)] if under else [label]
            worst, where = -1.0, (0, 0)
            for k in places:
                for i, (_, entropy, age) in enumerate(self.lists[k]):
                    if self.score(age, entropy) >= worst:
                        worst, where = self.score(age, entropy), (k, i)
            wanted = worst > self.score(0, uncertainty)
            if wanted:
                del self.lists[where[0]][where[1]]
        if wanted:
            self.lists[label].append([image, uncertainty, 0])
        for items in self.lists:
            for item in items:
                item[2] += 1


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
def test_the_memory_agrees_with_a_naive_one(classes: int) -> None:
    rng = random.Random(classes)
    memory, naive = BalancedMemory(12), NaiveMemory(12, classes)
    for number in range(400):
        label = min(int(rng.expovariate(3 / classes)), classes - 1)  # some classes are frequent
        uncertainty = rng.choice([0.1, 0.2, 0.5, rng.random()])  # ties happen
        memory.add(torch.tensor([[[float(number)]]]), label=label, uncertainty=uncertainty, classes=classes)
        naive.offer(number, label, uncertainty)
        ours = sorted((item.label, int(item.image.item()), item.uncertainty, item.age) for item in memory.items)
        theirs = sorted((k, image, u, age) for k, items in enumerate(naive.lists) for image, u, age in items)
        assert ours == theirs
    assert len(memory) <= 12


def test_the_memory_by_hand() -> None:
    memory = BalancedMemory(2)

    def stored() -> list[tuple[int, int]]:
        return [(item.label, item.age) for item in memory.items]

    image = torch.zeros(1, 2, 2)
    memory.add(image, label=0, uncertainty=0.5, classes=2)
    memory.add(image, label=0, uncertainty=0.9, classes=2)  # at its quota of one, and worse, although there is room
    assert stored() == [(0, 2)]
    memory.add(image, label=1, uncertainty=0.5, classes=2)
    memory.add(image, label=1, uncertainty=0.5, classes=2)  # the old one is aged 1: a higher score, so it goes
    assert stored() == [(0, 4), (1, 1)]
    memory.add(image, label=1, uncertainty=math.nan, classes=2)
    assert stored() == [(0, 5), (1, 2)]
    assert memory.ages() == [2.5, 1.0]
    memory.add(torch.zeros(1, 3, 3), label=1, uncertainty=0.5, classes=2)  # other sizes cannot be stacked
    assert memory.images().shape == (1, 1, 3, 3)
    with pytest.raises(ValueError, match="capacity must be at least 1, got 0"):
        BalancedMemory(0)


class NaiveRBN(nn.Module):
    """Robust BatchNorm by hand: the moving average is stored, and used at once."""

    def __init__(self, layer: nn.BatchNorm2d) -> None:
        super().__init__()
        assert layer.running_mean is not None
        assert layer.running_var is not None
        self.weight, self.bias, self.eps = layer.weight, layer.bias, layer.eps
        self.mean, self.var = layer.running_mean.clone(), layer.running_var.clone()

    def forward(self, x: Tensor) -> Tensor:
        columns = []
        for c in range(x.shape[1]):
            values = x[:, c]
            mean, var = self.mean[c], self.var[c]
            if self.training:
                mean = 0.95 * mean + 0.05 * values.mean()
                var = 0.95 * var + 0.05 * ((values - values.mean()) ** 2).mean()
                self.mean[c], self.var[c] = mean.detach(), var.detach()
            columns.append((values - mean) / (var + self.eps).sqrt() * self.weight[c] + self.bias[c])
        return torch.stack(columns, dim=1)


def naive_network(network: nn.Module) -> nn.Sequential:
    layers = [NaiveRBN(m) if isinstance(m, nn.BatchNorm2d) else m for m in copy.deepcopy(network).double().children()]
    return nn.Sequential(*layers).eval()


class NaiveRoTTA:
    """RoTTA in float64 by loops, Adam by hand; augmented images are given by a function."""

    def __init__(self, network: nn.Module, *, lr: float, capacity: int, augment: Any) -> None:
        self.teacher, self.student = naive_network(network), naive_network(network)
        self.affine = [p for m in self.student if isinstance(m, NaiveRBN) for p in (m.weight, m.bias)]
        self.first = [torch.zeros_like(p) for p in self.affine]
        self.second = [torch.zeros_like(p) for p in self.affine]
        self.memory, self.seen, self.count, self.lr, self.augment = NaiveMemory(capacity, 4), 0, 0, lr, augment

    def __call__(self, images: Tensor) -> Tensor:
        with torch.no_grad():
            answer: Tensor = self.teacher(images.double())
        for image, row in zip(images, answer, strict=True):
            p = row.softmax(0)
            self.memory.offer(image, int(p.argmax()), -(p * p.log()).sum().item() / math.log(4))
            self.seen += 1
            if self.seen % self.memory.capacity == 0:
                self.update()
        return answer

    def update(self) -> None:
        items = [item for each in self.memory.lists for item in each]
        images = torch.stack([item[0] for item in items])
        with torch.no_grad():
            targets = self.teacher.train()(images.double())
        predictions = self.student.train()(self.augment(images).double())
        self.teacher.eval()
        self.student.eval()
        loss = torch.zeros((), dtype=torch.float64)
        for (_, _, age), target, row in zip(items, targets, predictions, strict=True):
            old = math.exp(-age / self.memory.capacity)
            loss = loss - old / (1 + old) * (target.softmax(0) * row.softmax(0).log()).sum() / len(items)
        gradients = torch.autograd.grad(loss, self.affine)
        self.count += 1
        with torch.no_grad():
            for p, g, m, v in zip(self.affine, gradients, self.first, self.second, strict=True):
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                p.sub_(self.lr * (m / (1 - 0.9**self.count)) / ((v / (1 - 0.999**self.count)).sqrt() + 1e-8))
            for mine, theirs in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                mine.copy_(0.999 * mine + 0.001 * theirs)


def test_agrees_with_a_naive_implementation_over_batches() -> None:
    method: Any = midway.RoTTA(tiny_network(), memory=8, interval=8, lr=0.05)
    mirrored = lambda images, *_: images.flip(-1) * 0.9  # noqa: E731
    method.augmentation = mirrored
    other = NaiveRoTTA(tiny_network(), lr=0.05, capacity=8, augment=mirrored)
    for images in batches(5, size=20):  # two or three updates in a batch
        torch.testing.assert_close(method(images).double(), other(images), rtol=1e-4, atol=1e-5)
    assert method.diagnostics["updates"] == other.count == 12
    for ours, theirs in zip(method.student.parameters(), other.student.parameters(), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-3, atol=1e-4)
    for network, naive in ((method.teacher, other.teacher), (method.student, other.student)):
        for layer, plain in zip(network, naive, strict=True):
            if isinstance(plain, NaiveRBN):
                torch.testing.assert_close(layer.running_mean.double(), plain.mean, rtol=1e-4, atol=1e-5)
                torch.testing.assert_close(layer.running_var.double(), plain.var, rtol=1e-4, atol=1e-5)


def test_the_robust_layer_by_hand() -> None:
    layer = nn.BatchNorm2d(1, eps=0)
    use_robust_statistics(nn.Sequential(layer), 0.25)
    assert isinstance(layer, RobustBatchNorm)
    x = torch.tensor([1.0, 3.0, 5.0, 7.0]).view(4, 1, 1, 1)  # mean 4, biased variance 5
    torch.testing.assert_close(layer(x), x)  # mean 0, variance 1
    with updating_statistics(layer):
        seen = layer(x)
    torch.testing.assert_close(seen, (x - 1) / math.sqrt(2))
    assert (layer.running_mean.item(), layer.running_var.item()) == (1.0, 2.0)
    torch.testing.assert_close(layer(x), (x - 1) / math.sqrt(2))
    x[0] = math.inf
    with updating_statistics(layer):
        layer(x)
    assert (layer.running_mean.item(), layer.running_var.item()) == (1.0, 2.0)


def test_layers_that_compute_more_are_refused() -> None:
    class Odd(nn.BatchNorm2d):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    with pytest.raises(ValueError, match="layer '0' is a Odd, which computes more than BatchNorm"):
        midway.RoTTA(nn.Sequential(Odd(3), nn.Flatten(), nn.Linear(12, 4)))


def test_a_batch_may_be_split_as_one_likes() -> None:
    (images,) = batches(1, size=30)
    whole, parts = (midway.RoTTA(tiny_network("layer"), memory=8, interval=50) for _ in range(2))
    together = whole(images)
    apart = torch.cat([parts(part) for part in images.split([1, 9, 20])])
    torch.testing.assert_close(together, apart)
    assert [item.age for item in whole.memory.items] == [item.age for item in parts.memory.items]


def test_what_it_cannot_do_it_says() -> None:
    with pytest.raises(ValueError, match="interval must be at least 1, got 0"):
        midway.RoTTA(tiny_network(), interval=0)
    with pytest.raises(ValueError, match=r"statistics_share must be at least 0 and at most 1, got 5"):
        midway.RoTTA(tiny_network(), statistics_share=5)
    with pytest.raises(ValueError, match="does not support clustered statistics"):
        midway.adapt(tiny_network(), "rotta", statistics="clustered")
