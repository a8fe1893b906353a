from __future__ import annotations

import copy
import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.adaptation.batch_norm.instance_aware import shrink, use_instance_aware_statistics
from midway.adaptation.batch_norm.replacement import updating_statistics
from midway.adaptation.reservoir_memory import ReservoirMemory
from midway.methods.note import NOTE, mean_entropy
from midway.sampling import Randomness
from midway.testing import CONTRACT, batches, tiny_network


class NaiveIABN(nn.Module):
    """IABN from its formulas: one image and one channel at a time."""

    def __init__(self, layer: nn.BatchNorm2d, k: float) -> None:
        super().__init__()
        self.weight, self.bias, self.eps, self.k = layer.weight, layer.bias, layer.eps, k
        self.mean, self.var = layer.running_mean.tolist(), layer.running_var.tolist()  # type: ignore[union-attr]
        self.momentum: float | None = None
        self.always = False  # the statistics of the batch in every pass

    def forward(self, x: Tensor) -> Tensor:
        rows = []
        for c in range(x.shape[1]):
            mean, var = torch.as_tensor(self.mean[c]).to(x), torch.as_tensor(self.var[c]).to(x)
            if self.always:
                mean, var = x[:, c].mean(), x[:, c].var()
            elif self.momentum is not None:
                mean, var = x[:, c].mean(), x[:, c].var()  # unbiased
                self.mean[c] += self.momentum * (mean.item() - self.mean[c])
                self.var[c] += self.momentum * (var.item() - self.var[c])
            rows.append(torch.stack([self.normal(image[c], mean, var, c) for image in x]))
        return torch.stack(rows, dim=1)

    def normal(self, plane: Tensor, mean: Tensor, var: Tensor, c: int) -> Tensor:
        positions = plane.numel()
        if positions > 1:
            far = self.k * ((var + self.eps) / positions).sqrt()
            wide = self.k * (var + self.eps) * math.sqrt(2 / (positions - 1))
            mean = mean + self.soft(plane.mean() - mean, far)
            var = (var + self.soft(plane.var() - var, wide)).clamp(min=0)
        return (plane - mean) / (var + self.eps).sqrt() * self.weight[c] + self.bias[c]

    @staticmethod
    def soft(value: Tensor, bound: Tensor) -> Tensor:
        if value.abs() <= bound:
            return 0 * value
        return value - bound if value > 0 else value + bound


class NaiveNOTE:
    """NOTE from its description: one image at a time, a memory by class, Adam by hand."""

    def __init__(self, network: Any, *, k: float, size: int, momentum: float, lr: float, decay: float = 0.0) -> None:
        self.network, self.size, self.momentum, self.lr, self.decay = copy.deepcopy(network), size, momentum, lr, decay
        for index, module in enumerate(self.network):
            if isinstance(module, nn.BatchNorm2d):
                self.network[index] = NaiveIABN(module, k)
        self.layers = [m for m in self.network if isinstance(m, NaiveIABN)]
        self.affine = [p for m in self.layers for p in (m.weight, m.bias)]
        self.moments = [[torch.zeros_like(p), torch.zeros_like(p)] for p in self.affine]
        self.memory = ReservoirMemory(size, Randomness(0))
        self.count = self.steps = 0

    def __call__(self, images: Tensor) -> Tensor:
        answers = []
        for image in images:
            with torch.no_grad():
                answers.append(self.network(image[None]))
            self.memory.add(image, int(answers[-1].argmax()))
            self.count += 1
            if self.count % self.size == 0:
                for layer in self.layers:
                    layer.momentum = self.momentum
                p = self.network(torch.stack(self.memory.images)).softmax(dim=1)
                for layer in self.layers:
                    layer.momentum = None
                loss = -sum((row * (row + 1e-6).log()).sum() for row in p) / p.numel()
                self.adam(torch.autograd.grad(loss, self.affine))
        return torch.cat(answers)

    def adam(self, gradients: tuple[Tensor, ...]) -> None:
        self.steps += 1
        with torch.no_grad():
            for p, gradient, (m, v) in zip(self.affine, gradients, self.moments, strict=True):
                g = gradient + self.decay * p
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                p -= self.lr * (m / (1 - 0.9**self.steps)) / ((v / (1 - 0.999**self.steps)).sqrt() + 1e-8)


@pytest.mark.parametrize("decay", [0.0, 5e-4])
def test_agrees_with_a_naive_implementation_over_batches(decay: float, sharp_network: Any) -> None:
    arguments: dict[str, Any] = {"k": 1.5, "momentum": 0.2, "lr": 1e-2}
    naive = NaiveNOTE(sharp_network().double(), size=8, decay=decay, **arguments)
    method = NOTE(sharp_network().double(), memory=8, weight_decay=decay, **arguments)
    for images in batches(4, size=13):
        torch.testing.assert_close(method(images.double()), naive(images.double()), rtol=1e-6, atol=1e-6)
    assert method.diagnostics["updates"] == naive.steps == 52 // 8
    for mine, theirs in zip(method.layers, naive.layers, strict=True):
        assert mine.running_mean is not None
        assert mine.running_var is not None
        assert mine.running_mean.tolist() == pytest.approx(theirs.mean, rel=1e-10)
        assert mine.running_var.tolist() == pytest.approx(theirs.var, rel=1e-10)
        torch.testing.assert_close(mine.weight, theirs.weight, rtol=1e-9, atol=1e-10)


def test_note_star_agrees_with_a_naive_implementation(sharp_network: Any) -> None:
    """In batches of the memory's size, as published: predict the batch with its statistics, then a step on it."""
    arguments: dict[str, Any] = {"k": 1.5, "momentum": 0.2, "lr": 1e-2}
    naive = NaiveNOTE(sharp_network().double(), size=8, **arguments)
    for layer in naive.layers:
        layer.always = True
    method = NOTE(sharp_network().double(), memory=8, batch_statistics=True, sampling="recent", **arguments)
    for images in batches(4, size=8):
        with torch.no_grad():
            expected = naive.network(images.double())
        torch.testing.assert_close(method(images.double()), expected, rtol=1e-6, atol=1e-6)
        p = naive.network(images.double()).softmax(dim=1)
        loss = -sum((row * (row + 1e-6).log()).sum() for row in p) / p.numel()
        naive.adam(torch.autograd.grad(loss, naive.affine))
    assert method.diagnostics["updates"] == naive.steps == 4
    assert all(layer.running_mean is None for layer in method.layers)


def test_note_star_predicts_a_batch_together_and_then_updates() -> None:
    images = torch.cat(batches(2, size=10))
    settings: dict[str, Any] = {"memory": 8, "batch_statistics": True, "sampling": "recent", "lr": 1e-2}
    method = NOTE(tiny_network(), **settings)
    still = NOTE(tiny_network(), **(settings | {"lr": 0.0}))
    torch.testing.assert_close(method(images), still(images))
    assert method.diagnostics["updates"] == 2
    torch.testing.assert_close(torch.stack(method.memory.images), images[-8:])
    assert not method(images).equal(still(images))


@pytest.mark.parametrize("check", CONTRACT)
def test_contract_of_note_star(check: Any) -> None:
    check(lambda model: NOTE(model, memory=8, batch_statistics=True, sampling="recent", lr=1e-2))


def test_as_published_weights_decay() -> None:
    assert midway.adapt(tiny_network(), "note", preset="published").optimizer.defaults["weight_decay"] == 5e-4  # type: ignore[union-attr]


def test_predictions_do_not_depend_on_the_batch_they_come_in() -> None:
    images = torch.cat(batches(3))
    whole, parts, single = (NOTE(tiny_network(), memory=7, lr=1e-2, momentum=0.3) for _ in range(3))
    expected = whole(images)
    for method, size in ((parts, 5), (single, 1)):
        torch.testing.assert_close(
            torch.cat([method(few) for few in images.split(size)]), expected, rtol=1e-4, atol=1e-5
        )


def test_the_loss_by_hand() -> None:
    logits = torch.tensor([[0.0, 0.0], [math.log(3), 0.0]])
    entropies = (2 * 0.5 * math.log(0.5 + 1e-6), 0.75 * math.log(0.75 + 1e-6) + 0.25 * math.log(0.25 + 1e-6))
    assert mean_entropy(logits).item() == pytest.approx(-sum(entropies) / 4)  # images times classes


def test_shrinking_by_hand() -> None:
    values = torch.tensor([-5.0, -1.0, 0.0, 2.0, 2.5])
    assert shrink(values, torch.tensor(2.0)).tolist() == [-3.0, 0.0, 0.0, 0.0, 0.5]


def test_statistics_by_hand() -> None:
    """Source (0, 1), eps 0, k 1, positions 2, 2, 4, 4: mean 3 -> 3 - 1/2; variance 4/3 -> 1, within sqrt(2/3) of 1."""
    layer = nn.BatchNorm2d(1, eps=0.0).eval()
    use_instance_aware_statistics(nn.Sequential(layer), k=1.0, momentum=0.5)
    x = torch.tensor([2.0, 2.0, 4.0, 4.0]).view(1, 1, 2, 2)
    torch.testing.assert_close(layer(x), x - 2.5)
    assert layer(x[..., :1, :1]).item() == 2  # one position has no variance: the source's statistics
    within = torch.tensor([0.9, -0.9, 0.9, -0.9]).view(1, 1, 2, 2)
    torch.testing.assert_close(layer(within), within)
    with updating_statistics(layer):
        layer(torch.tensor([1.0, 3.0]).view(2, 1, 1, 1))
    assert layer.running_mean is not None
    assert layer.running_var is not None
    assert (layer.running_mean.item(), layer.running_var.item()) == (1.0, 1.5)  # half of mean 2, of unbiased variance 2


def test_wide_bounds_give_the_statistics_of_the_source_and_bounds_of_zero_those_of_the_image() -> None:
    images = batches(1)[0]
    source = midway.Source(tiny_network())(images)
    torch.testing.assert_close(NOTE(tiny_network(), k=1e6)(images), source, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(NOTE(tiny_network(), k=0.0)(images), source, atol=1e-2)  # as InstanceNorm
    with pytest.raises(ValueError, match="k must be 0 or more standard errors, got -1"):
        NOTE(tiny_network(), k=-1)


def test_the_memory_balances_classes_of_a_stream_in_runs() -> None:
    memory = ReservoirMemory(12, Randomness(0))
    for label in [0] * 50 + [1] * 50 + [2] * 4 + [0] * 50:
        memory.add(torch.tensor([float(label)]), label)
    assert sorted(memory.classes) == [0] * 4 + [1] * 4 + [2] * 4
    assert [int(image) for image in memory.images] == memory.classes
    assert memory.seen == {0: 100, 1: 50, 2: 4}


def test_the_memory_agrees_with_a_naive_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules of PBRS on lists by class, with the same random choices: (largest class,) image, and whether at all."""
    memory = ReservoirMemory(9, Randomness(0))
    chance = random.Random(1)
    choices: list[float] = []

    def drawn() -> float:
        choices.append(chance.random())
        return choices[-1]

    monkeypatch.setattr(memory, "_draw", lambda count: int(drawn() * count))
    monkeypatch.setattr(memory, "_uniform", drawn)
    stored: dict[int, list[int]] = {label: [] for label in range(4)}
    seen = dict.fromkeys(stored, 0)
    refused = 0
    for number in range(300):
        label = min(int(random.Random(number).expovariate(1.2)), 3)  # some classes are frequent
        choices.clear()
        memory.add(torch.tensor(number), label)
        seen[label] += 1
        most = max(map(len, stored.values()))
        if sum(map(len, stored.values())) < 9:
            stored[label].append(number)
        elif len(stored[label]) < most:
            largest = [k for k in sorted(stored) if len(stored[k]) == most]
            loser = largest[int(choices[0] * len(largest))]
            del stored[loser][int(choices[1] * most)]
            stored[label].append(number)
        elif choices[0] <= most / seen[label]:
            del stored[label][int(choices[1] * most)]
            stored[label].append(number)
        else:
            refused += 1
        pairs = zip(memory.classes, memory.images, strict=True)
        assert sorted((k, int(image)) for k, image in pairs) == [
            (k, n) for k in sorted(stored) for n in sorted(stored[k])
        ]
    assert memory.seen == seen
    assert 0 < refused < 291


def test_a_class_is_a_reservoir_in_time() -> None:
    """Of 40 images of one class, each is in a memory of 10 with probability 1/4."""
    kept = torch.zeros(40)
    for seed in range(400):
        memory = ReservoirMemory(10, Randomness(seed))
        for number in range(40):
            memory.add(torch.tensor(number), 0)
        kept[torch.stack(memory.images)] += 1
    assert (kept / 400 - 0.25).abs().max() < 0.08  # about four standard errors


def test_the_latest_images_are_an_option() -> None:
    memory = ReservoirMemory(3, Randomness(0), balanced=False)
    for number in range(8):
        memory.add(torch.tensor(number), number % 2)
    assert [int(image) for image in memory.images] == [5, 6, 7]
    method = NOTE(tiny_network(), memory=5, sampling="recent")
    images = batches(1)[0]
    method(images)
    torch.testing.assert_close(torch.stack(method.memory.images), images[-5:])


def test_images_of_several_sizes_and_overflows_do_not_stop_it() -> None:
    method = NOTE(tiny_network(), memory=6, lr=1e-2)
    for side in (16, 24, 16):
        assert method(batches(1, side=side)[0]).isfinite().all()
    assert method.diagnostics["updates"] == 6


def test_mistakes_are_refused() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"memory": 0}, "memory must be at least 1, got 0"),
        ({"sampling": "all"}, "sampling must be 'balanced' or 'recent', got 'all'"),
        ({"momentum": 2.0}, "momentum must be at least 0 and at most 1, got 2.0"),
        ({"k": -1.0}, "k must be 0 or more standard errors, got -1.0"),
    ]
    for settings, message in wrong:
        with pytest.raises(ValueError, match=message):
            NOTE(tiny_network(), **settings)
