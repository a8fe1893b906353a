from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.adaptation.problem import CIFAR_SIZE, IMAGENET_SIZE
from midway.methods import deyo
from midway.methods.deyo import shuffle_patches
from midway.testing import batches, tiny_network


class NaiveDeYO:
    """DeYO in float64 by loops over images, Adam by hand; the shuffled images are given."""

    def __init__(self, network: nn.Module, *, lr: float, margin: float, threshold: float) -> None:
        self.network = copy.deepcopy(network).double().train()
        self.affine = [p for m in self.network.modules() if isinstance(m, nn.BatchNorm2d) for p in (m.weight, m.bias)]
        self.first = [torch.zeros_like(p) for p in self.affine]
        self.second = [torch.zeros_like(p) for p in self.affine]
        self.lr, self.margin, self.threshold, self.count = lr, margin, threshold, 0
        self.kept: list[tuple[int, int]] = []

    def __call__(self, images: Tensor, shuffled: Tensor) -> Tensor:
        logits: Tensor = self.network(images.double())
        most = math.log(logits.shape[1])
        p = [row.softmax(0) for row in logits]
        entropies = [-(row * row.log()).sum() for row in p]
        reliable = [i for i in range(len(p)) if entropies[i].item() < self.margin * most]
        losses = []
        if reliable:
            with torch.no_grad():
                again = self.network(shuffled[reliable].double())
            for i, row in zip(reliable, again, strict=True):
                label = int(p[i].argmax())
                difference = p[i][label].item() - row.softmax(0)[label].item()
                if difference > self.threshold:
                    weight = 1 / math.exp(entropies[i].item() - 0.4 * most) + 1 / math.exp(-difference)
                    losses.append(weight * entropies[i])
        self.kept.append((len(reliable), len(losses)))
        if losses:
            gradients = torch.autograd.grad(torch.stack(losses).mean(), self.affine)
            self.count += 1
            with torch.no_grad():
                for w, g, m, v in zip(self.affine, gradients, self.first, self.second, strict=True):
                    m.mul_(0.9).add_(0.1 * g)
                    v.mul_(0.999).add_(0.001 * g * g)
                    w.sub_(self.lr * (m / (1 - 0.9**self.count)) / ((v / (1 - 0.999**self.count)).sqrt() + 1e-8))
        return logits.detach()


def test_agrees_with_a_naive_implementation_over_batches(
    monkeypatch: pytest.MonkeyPatch, sharp_network: Callable[..., nn.Module]
) -> None:
    settings = {"lr": 0.02, "margin": 0.5, "threshold": 0.1}
    method = midway.DeYO(sharp_network(), **settings)  # type: ignore[arg-type]
    other = NaiveDeYO(sharp_network(), **settings)
    seen: list[Tensor] = []

    def recorded(*arguments: Any) -> Tensor:
        seen.append(shuffle_patches(*arguments))
        return seen[-1]

    monkeypatch.setattr(deyo, "shuffle_patches", recorded)
    for images in batches(5, size=30):
        seen.append(images)  # if none is reliable, none is shuffled
        logits = method(images)
        torch.testing.assert_close(logits.double(), other(images, seen[-1]), rtol=1e-4, atol=1e-4)
    kept = [sum(each) for each in zip(*other.kept, strict=True)]
    assert [method.diagnostics["reliable"], method.diagnostics["selected"]] == kept
    assert 0 < kept[1] < kept[0] < 150, "both filters have something to do"


def test_patches_are_shuffled_image_by_image() -> None:
    images = torch.arange(3 * 2 * 8 * 12, dtype=torch.float32).view(3, 2, 8, 12)
    shuffled = shuffle_patches(images, 4, torch.Generator().manual_seed(0))
    orders = []
    for before, after in zip(images, shuffled, strict=True):
        cells = {(r, c): before[:, 2 * r : 2 * r + 2, 3 * c : 3 * c + 3] for r in range(4) for c in range(4)}
        order = []
        for r in range(4):
            for c in range(4):
                cell = after[:, 2 * r : 2 * r + 2, 3 * c : 3 * c + 3]
                (origin,) = [place for place, each in cells.items() if torch.equal(each, cell)]
                order.append(origin)
        assert len(set(order)) == 16
        orders.append(tuple(order))
    assert len(set(orders)) == 3
    again = shuffle_patches(images, 4, torch.Generator().manual_seed(0))
    assert torch.equal(again, shuffled)


@pytest.mark.parametrize("shape", [(2, 3, 9, 14), (2, 1, 2, 3), (1, 3, 1, 1)])
def test_sides_that_are_no_multiples_are_resized(shape: tuple[int, ...]) -> None:
    images = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    shuffled = shuffle_patches(images, 4, torch.Generator().manual_seed(0))
    assert shuffled.shape == images.shape
    assert images.min() <= shuffled.min() <= shuffled.max() <= images.max()


@pytest.mark.parametrize("settings", [{"margin": 1e-6}, {"margin": 1.0, "threshold": 1.0}])
def test_no_step_is_made_if_no_image_is_left(settings: dict[str, Any]) -> None:
    method = midway.DeYO(tiny_network(), lr=1.0, **settings)
    bn = midway.BN(tiny_network())
    for images in batches(3):
        assert torch.equal(method(images), bn(images))
    assert method.diagnostics["selected"] == 0


def test_a_single_reliable_image_passes_a_layer_that_refuses_it_alone() -> None:
    body = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
    (images,) = batches(1)
    entropies = midway.functional.entropy(midway.BN(body)(images)).sort().values / math.log(4)
    method = midway.DeYO(body, margin=entropies[:2].mean().item(), threshold=-1.0)
    assert method(images).isfinite().all()
    assert method.diagnostics["reliable"] == 1


def test_the_last_stage_is_frozen_in_deep_networks() -> None:
    with torch.random.fork_rng(devices=[]):
        blocks = [nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.BatchNorm2d(3)) for _ in range(4)]
        network = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 4))
    method = midway.DeYO(network)
    assert method.hyperparameters["exclude"] == ("3",)
    trainable = {name for name, p in method.model.named_parameters() if p.requires_grad}
    assert trainable == {f"{b}.{n}.{k}" for b in range(3) for n in (1, 2) for k in ("weight", "bias")}
    assert midway.DeYO(network, exclude=()).num_trainable() == 4 * 2 * 6


def test_published_settings() -> None:
    assert midway.DeYO.defaults_for(CIFAR_SIZE) == {"threshold": 0.2, "optimizer": "adam", "lr": 1e-3}
    sizes = {64: 2.5e-4, 32: 2.5e-4, 16: 1.25e-4, 1: 2 * 2 * 2.5e-4 / 64}
    for batch_size, lr in sizes.items():
        defaults = midway.DeYO.defaults_for(IMAGENET_SIZE._replace(batch_size=batch_size))
        assert defaults == {"threshold": 0.3 if batch_size > 1 else 0.2, "optimizer": "sgd", "lr": pytest.approx(lr)}


def test_the_published_threshold_of_large_images_depends_on_network_and_batch() -> None:
    for norm, count, threshold in (("batch", 2, 0.3), ("batch", 1, 0.2), ("layer", 2, 0.2), ("group", 2, 0.2)):
        network = nn.Sequential(nn.AvgPool2d(16), tiny_network(norm))  # type: ignore[arg-type]
        method = midway.DeYO(network)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a single image
            method(torch.rand(count, 3, 128, 128))
        assert method.hyperparameters["threshold"] == threshold
    large = torch.rand(2, 3, 128, 128)
    for statistics in ("clustered", "alpha", "unmix"):  # a network with BatchNorm, whatever its statistics are
        method = midway.adapt(nn.Sequential(nn.AvgPool2d(16), tiny_network()), "deyo", statistics=statistics)
        method(large)
        assert method.hyperparameters["threshold"] == 0.3
    assert midway.DeYO(tiny_network("layer"), threshold=0.3).hyperparameters["threshold"] == 0.3


def test_what_it_cannot_do_it_says() -> None:
    with pytest.raises(ValueError, match=r"margin must be above 0, got 0"):
        midway.DeYO(tiny_network(), margin=0)
    with pytest.raises(ValueError, match="grid must be at least 2, got 1"):
        midway.DeYO(tiny_network(), grid=1)
    with pytest.raises(ValueError, match="unknown module of the model '77'"):
        midway.DeYO(tiny_network(), exclude=("77",))
