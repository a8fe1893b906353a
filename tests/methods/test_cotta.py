from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.adaptation.problem import CIFAR_SIZE, IMAGENET_SIZE
from midway.testing import batches, tiny_network


class NaiveCoTTA:
    """CoTTA in float64: three networks in training mode, Nesterov's SGD by hand, views and random numbers given.

    Adam would amplify rounding: the first gradient of a student that agrees with its teacher is zero.
    """

    def __init__(self, network: nn.Module, *, lr: float, threshold: float, symmetric: bool, restore: float) -> None:
        self.source, self.teacher, self.student = (copy.deepcopy(network).double().train() for _ in range(3))
        self.lr, self.threshold, self.symmetric, self.restore = lr, threshold, symmetric, restore
        self.weights = list(self.student.parameters())
        self.momentum = [torch.zeros_like(p) for p in self.weights]

    def __call__(self, images: Tensor, views: list[Tensor], numbers: list[Tensor]) -> Tensor:
        answer: Tensor
        with torch.no_grad():
            confidences = [row.softmax(0).max() for row in self.source(images.double())]
            if sum(confidences) / len(images) < self.threshold:
                answer = torch.stack([self.teacher(view.double()) for view in views]).mean(dim=0)
            else:
                answer = self.teacher(images.double())
        loss = torch.zeros((), dtype=torch.float64)
        for ours, theirs in zip(self.student(images.double()), answer, strict=True):
            forward = -(theirs.softmax(0) * ours.softmax(0).log()).sum()
            backward = -(ours.softmax(0) * theirs.softmax(0).log()).sum()
            loss = loss + ((forward + backward) / 2 if self.symmetric else forward) / len(images)
        gradients = torch.autograd.grad(loss, self.weights)
        with torch.no_grad():
            for p, g, m in zip(self.weights, gradients, self.momentum, strict=True):
                m.copy_(0.9 * m + g)
                p.sub_(self.lr * (g + 0.9 * m))
            for mine, theirs in zip(self.teacher.parameters(), self.weights, strict=True):
                mine.copy_(0.999 * mine + 0.001 * theirs)
            for p, source, drawn in zip(self.weights, self.source.parameters(), numbers, strict=True):
                for index, number in enumerate(drawn.flatten().tolist()):
                    if number < self.restore:
                        p.view(-1)[index] = source.reshape(-1)[index]
        return answer


class Recorded:
    """Augments as another does, and remembers the results."""

    def __init__(self, augmentation: Any) -> None:
        self.augmentation, self.views = augmentation, list[Tensor]()

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        self.views.append(self.augmentation(images, generator))
        return self.views[-1]


@pytest.mark.parametrize("views_in", [5, 3])
@pytest.mark.parametrize("symmetric", [False, True])
def test_agrees_with_a_naive_implementation_over_batches(
    views_in: int, symmetric: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = midway.BN(tiny_network())
    confidences = sorted(source(images).softmax(dim=1).amax(dim=1).mean().item() for images in batches(5))
    threshold = [*confidences, 1.0][views_in] - 1e-6  # so many of the five batches are below
    settings: dict[str, Any] = {"lr": 2.0, "threshold": threshold, "symmetric": symmetric, "restore": 0.2}
    method: Any = midway.CoTTA(tiny_network(), views=3, optimizer="sgd", **settings)
    other = NaiveCoTTA(tiny_network(), **settings)
    method.augmentation = Recorded(method.augmentation)
    drawn: list[Tensor] = []
    rand = torch.rand

    def recorded(*size: Any, **options: Any) -> Tensor:
        drawn.append(rand(*size, **options))
        return drawn[-1]

    for images in batches(5):
        method.augmentation.views.clear()
        with monkeypatch.context() as patch:
            patch.setattr(torch, "rand", recorded)
            drawn.clear()
            logits = method(images)
        restored = [numbers for numbers in drawn if numbers.shape[0] != 1]  # the others are of the augmentation
        expected = other(images, method.augmentation.views, restored)
        torch.testing.assert_close(logits.double(), expected, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(method.student.parameters(), other.weights, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-3, atol=1e-4)
    for ours, theirs in zip(method.teacher.parameters(), other.teacher.parameters(), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5)
    moved = zip(method.student.parameters(), method.source.parameters(), strict=True)
    assert max((ours - source).abs().max().item() for ours, source in moved) > 1e-2
    assert method.diagnostics["batches_with_views"] == views_in


def test_the_answer_is_the_teachers_from_before_the_update() -> None:
    (images,) = batches(1)
    method = midway.CoTTA(tiny_network(), threshold=0.0, lr=0.1, teacher_share=0.5)
    torch.testing.assert_close(method(images), midway.BN(tiny_network())(images))
    moved = method(images)
    assert not torch.allclose(moved, midway.BN(tiny_network())(images), atol=1e-3)
    torch.testing.assert_close(method.network_logits(images).shape, moved.shape)


@pytest.mark.parametrize(("restore", "share"), [(0.0, 0.0), (1.0, 1.0), (0.3, 0.3)])
def test_a_share_of_the_weights_is_restored(restore: float, share: float) -> None:
    network = midway.models.create("resnet20")
    method = midway.CoTTA(network, restore=restore, lr=1e-2, threshold=0.0)
    method(torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0)))
    pairs = list(zip(method.student.parameters(), method.source.parameters(), strict=True))
    equal = sum(int((mine == source).sum()) for mine, source in pairs)
    total = sum(mine.numel() for mine, _ in pairs)
    assert equal / total == pytest.approx(share, abs=0.02)


def test_only_weights_and_biases_adapt() -> None:
    class Token(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Parameter(torch.zeros(1, 3, 1, 1))
            self.net = tiny_network("layer")

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.net(x + self.token)
            return logits

    method = midway.CoTTA(Token(), lr=1e-2, threshold=0.0, restore=0.0)
    method(batches(1)[0])
    student, source = dict(method.student.named_parameters()), dict(method.source.named_parameters())
    assert torch.equal(student["token"], source["token"])
    assert all(not torch.equal(student[name], source[name]) for name in student if name != "token")


def test_views_that_overflow_are_left_out() -> None:
    class Fragile(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.calls = tiny_network("group"), 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            logits: Tensor = self.net(x)
            return logits * (float("nan") if self.calls % 2 else 1.0)

    (images,) = batches(1)
    method: Any = midway.CoTTA(tiny_network("group"), threshold=1.0, views=4, lr=0.0, restore=0.0)
    method.augmentation = Recorded(method.augmentation)
    method.model = Fragile()
    logits = method.step(images)
    used = [tiny_network("group")(view) for view in method.augmentation.views[1::2]]
    torch.testing.assert_close(logits, sum(used) / 2)
    method.views, method.model.calls = 1, 0
    torch.testing.assert_close(method.step(images), tiny_network("group")(images))


def test_published_settings() -> None:
    assert midway.CoTTA.defaults_for(CIFAR_SIZE)["threshold"] == 0.92
    assert midway.CoTTA.defaults_for(CIFAR_SIZE._replace(classes=100))["threshold"] == 0.72
    assert midway.CoTTA.defaults_for(CIFAR_SIZE)["restore"] == 0.01
    assert midway.CoTTA.defaults_for(IMAGENET_SIZE) == {
        "threshold": 0.1, "restore": 0.001, "symmetric": True, "optimizer": "sgd", "lr": 0.01,
    }  # fmt: skip


def test_what_it_cannot_do_it_says() -> None:
    with pytest.raises(ValueError, match="views must be at least 1, got 0"):
        midway.CoTTA(tiny_network(), views=0)
    with pytest.raises(ValueError, match="restore must be at least 0 and at most 1, or None, got 2"):
        midway.CoTTA(tiny_network(), restore=2)
    with pytest.raises(ValueError, match="teacher_share must be at least 0 and at most 1, got -1"):
        midway.CoTTA(tiny_network(), teacher_share=-1)
