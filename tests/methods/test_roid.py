from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.adaptation.augmentation import Augmentation
from midway.adaptation.problem import CIFAR_SIZE, IMAGENET_SIZE
from midway.methods.cmf import kalman_gain
from midway.methods.roid import corrected, diversity_weights, finite_probabilities, min_max
from midway.testing import batches, tiny_network


class NaiveROID:
    """ROID in float64 by loops over images: train-mode BatchNorm, Adam by hand, the average with the source."""

    def __init__(self, network: nn.Module, lr: float) -> None:
        self.network = copy.deepcopy(network).double().train()
        self.lr, self.count = lr, 0
        self.q: Tensor | None = None
        self.affine = [p for m in self.network.modules() if isinstance(m, nn.BatchNorm2d) for p in (m.weight, m.bias)]
        self.source = [p.detach().clone() for p in self.affine]
        self.first = [torch.zeros_like(p) for p in self.affine]
        self.second = [torch.zeros_like(p) for p in self.affine]

    def __call__(self, images: Tensor, augmented: Tensor) -> Tensor:
        logits: Tensor = self.network(images.double())
        p = [row.softmax(0) for row in logits]
        n, classes = logits.shape
        q = torch.full((classes,), 1 / classes).double() if self.q is None else self.q
        with torch.no_grad():
            d = [1 - (q @ row / (q.norm() * row.norm())).item() for row in p]
            c = [(row * row.log()).sum().item() for row in p]
            d = [(value - min(d)) / (max(d) - min(d)) for value in d]
            c = [(value - min(c)) / (max(c) - min(c)) for value in c]
            kept = [i for i in range(n) if d[i] >= sum(d) / n]
            self.q = 0.9 * q + 0.1 * torch.stack(p).mean(0)
        again = self.network(augmented[kept].double())
        loss = torch.zeros((), dtype=torch.float64)
        for row, i in enumerate(kept):
            a = again[row].softmax(0)
            clamped = p[i].clamp(max=0.99)
            slr = -(clamped * (clamped / (1 - clamped) + 1e-5).log()).sum()
            sce = -0.5 * (p[i] * a.log()).sum() - 0.5 * (a * p[i].log()).sum()
            loss = loss + math.exp(d[i] * c[i] * 3) * (slr + sce) / n
        gradients = torch.autograd.grad(loss, self.affine)
        self.count += 1
        with torch.no_grad():
            for weight, g, m, v in zip(self.affine, gradients, self.first, self.second, strict=True):
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                weight.sub_(self.lr * (m / (1 - 0.9**self.count)) / ((v / (1 - 0.999**self.count)).sqrt() + 1e-8))
            self.average()
            mean = torch.stack(p).mean(0)
            gamma = max(1 / n, 1 / classes) / mean.max()
            return logits * ((mean + gamma) / (1 + gamma * classes))

    def average(self) -> None:
        for weight, source in zip(self.affine, self.source, strict=True):
            weight.copy_(0.99 * weight + 0.01 * source)


class NaiveCMF(NaiveROID):
    """The recursion over all scalars, with lists."""

    def __init__(self, network: nn.Module, lr: float) -> None:
        super().__init__(network, lr)
        self.hidden, self.variance = [p.clone() for p in self.source], 0.0
        self.noise = 0.005 * sum(p.numel() for p in self.affine) / 38400

    def average(self) -> None:
        self.variance = 0.99**2 * self.variance + self.noise
        gain = max((1 - self.noise) / (self.variance + 1 - self.noise), 0.89)
        gain = 1 if gain > 0.9999 else gain
        self.variance = gain * self.variance
        for i, weight in enumerate(self.affine):
            hidden = 0.99 * self.hidden[i] + 0.01 * self.source[i]
            self.hidden[i] = gain * hidden + (1 - gain) * weight
            weight.copy_(0.99 * weight + 0.01 * self.hidden[i])


class Recorded:
    """Augments as another does, and remembers the result."""

    def __init__(self, augmentation: Augmentation) -> None:
        self.augmentation = augmentation

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        self.last: Tensor = self.augmentation(images, generator)
        return self.last


@pytest.mark.parametrize(("name", "naive"), [("roid", NaiveROID), ("cmf", NaiveCMF)])
def test_agrees_with_a_naive_implementation_over_batches(name: str, naive: type[NaiveROID]) -> None:
    method: Any = midway.adapt(tiny_network(), name, lr=0.05, preset="published")
    other = naive(tiny_network(), lr=0.05)
    method.augmentation = Recorded(method.augmentation)
    for images in batches(5):
        logits = method(images)
        torch.testing.assert_close(logits.double(), other(images, method.augmentation.last), rtol=1e-4, atol=1e-5)
    assert isinstance(other.q, Tensor)
    torch.testing.assert_close(method.mean_prediction.double(), other.q, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(method.trainable, other.affine, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5)


def test_cmf_agrees_where_the_hidden_model_matters() -> None:
    method: Any = midway.adapt(tiny_network(), "cmf", lr=0.05, noise=30.0, preset="published")  # Q = 0.025, b <= 0.97
    other = NaiveCMF(tiny_network(), lr=0.05)
    other.noise = method.noise
    method.augmentation = Recorded(method.augmentation)
    for images in batches(6):
        logits = method(images)
        torch.testing.assert_close(logits.double(), other(images, method.augmentation.last), rtol=1e-4, atol=1e-5)
    assert method.variance == pytest.approx(other.variance)
    for ours, theirs in zip(method.hidden, other.hidden, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5)
    assert any(
        not torch.allclose(ours, start) for ours, start in zip(method.hidden, method.source_weights, strict=True)
    )
    method.reset()
    assert method.variance == 0  # the published code keeps it


@pytest.mark.parametrize(
    ("parameters", "first", "last"), [(17_952, 0.9977, 0.961), (53_120, 0.993, 0.928), (38_400, 0.995, 0.940)]
)
def test_the_gain_follows_the_known_course(parameters: int, first: float, last: float) -> None:
    noise, variance, gains = 0.005 * parameters / 38_400, 0.0, []
    for _ in range(2000):
        variance = 0.99**2 * variance + noise
        gains.append(kalman_gain(variance, noise))
        variance *= gains[-1]
    assert gains[0] == pytest.approx(first, abs=5e-4)
    assert gains[-1] == pytest.approx(last, abs=5e-4)


def test_the_gain_has_bounds() -> None:
    assert kalman_gain(0.0, 0.0) == 1.0
    assert kalman_gain(5e-5, 0.0) == 1.0
    assert kalman_gain(10.0, 0.0) == 0.89
    assert kalman_gain(1.0, 1.0) == 0.89
    assert kalman_gain(0.0, 1.0) == 1.0


def test_min_max_by_hand_and_for_equal_values() -> None:
    assert min_max(torch.tensor([1.0, 3.0, 2.0])).tolist() == [0.0, 1.0, 0.5]
    assert min_max(torch.full((3,), 0.1)).tolist() == [0.0, 0.0, 0.0]
    assert min_max(torch.tensor([7.0])).tolist() == [0.0]


def test_the_prior_correction_by_hand() -> None:
    logits = torch.tensor([[0.9, 0.1], [0.7, 0.3]]).log()  # mean 0.8, 0.2; smoothing 0.5 / 0.8 = 0.625
    prior = torch.tensor([(0.8 + 0.625) / 2.25, (0.2 + 0.625) / 2.25])
    torch.testing.assert_close(corrected(logits, "unscaled"), logits * prior)
    torch.testing.assert_close(corrected(logits, "logits"), logits * prior * 2)
    expected = torch.tensor([[0.9, 0.1], [0.7, 0.3]]) * prior
    probabilities = corrected(logits, "probabilities").softmax(dim=1)
    torch.testing.assert_close(probabilities, expected / expected.sum(dim=1, keepdim=True))
    assert corrected(logits, None) is logits
    many = 3 * torch.randn(50, 7, generator=torch.Generator().manual_seed(0))
    ours, published = corrected(many, "logits"), corrected(many, "unscaled")
    assert ours.argmax(dim=1).equal(published.argmax(dim=1))
    torch.testing.assert_close(ours, 7 * published)
    broken = torch.cat([logits, torch.tensor([[math.nan, 0.0]])])
    assert corrected(broken, "probabilities")[:2].isfinite().all()
    assert corrected(broken[2:], "logits").isnan().any()


@pytest.mark.parametrize("name", ["roid", "cmf"])
def test_equal_images_and_single_images_have_equal_weights(name: str) -> None:
    (images,) = batches(1)
    same = images[:1].expand(6, -1, -1, -1)
    method: Any = midway.adapt(tiny_network("group"), name, lr=1e-2)
    before = [p.clone() for p in method.trainable]
    assert method(same).isfinite().all()
    assert method.diagnostics["selected_share"] == 1  # min-max is 0 / 0: all count, none is NaN
    assert "skipped_steps" not in method.diagnostics
    assert any(not torch.equal(p, b) for p, b in zip(method.trainable, before, strict=True))
    assert method(images[:1]).isfinite().all()
    assert diversity_weights(torch.randn(1, 4), torch.full((4,), 0.25), temperature=1 / 3).tolist() == [1.0]


def test_an_image_without_a_finite_prediction_is_left_out() -> None:
    logits, mean = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.full((4,), 0.25)
    broken = torch.full((1, 4), math.nan)
    weights = diversity_weights(torch.cat([logits, broken]), mean, temperature=1 / 3)
    assert torch.equal(weights[:6], diversity_weights(logits, mean, temperature=1 / 3))
    assert weights[6] == 0
    assert not diversity_weights(broken, mean, temperature=1 / 3).any()
    assert torch.equal(finite_probabilities(torch.cat([logits, broken])), logits.softmax(dim=1))


def test_a_single_selected_image_passes_a_layer_that_refuses_it_alone() -> None:
    body = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
    method = midway.ROID(body.eval(), lr=1e-2)
    (images,) = batches(1, size=2)
    assert method(images).isfinite().all()  # of two images one is above the mean
    assert method.diagnostics["selected"] == 1


@pytest.mark.parametrize("name", ["roid", "cmf"])
def test_permuting_a_batch_permutes_the_predictions(name: str) -> None:
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    plain, permuted = (midway.adapt(tiny_network(), name, lr=1e-2) for _ in range(2))
    for images in batches(3):
        torch.testing.assert_close(permuted(images[order]), plain(images)[order], rtol=1e-3, atol=1e-4)
    assert 0 < plain.diagnostics["selected_share"] < 1


def test_published_settings() -> None:
    assert midway.ROID.defaults_for(CIFAR_SIZE) == {"optimizer": "adam", "lr": 1e-3}
    assert midway.CMF.defaults_for(IMAGENET_SIZE) == {"optimizer": "sgd", "lr": 2.5e-4}
    method: Any = midway.ROID(tiny_network())
    method(torch.rand(4, 3, 128, 128, generator=torch.Generator().manual_seed(0)))
    (group,) = method.optimizer.get("sgd", 2.5e-4).param_groups
    assert (group["momentum"], group["nesterov"], group["lr"]) == (0.9, True, 2.5e-4)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("roid", {"temperature": 0}, "temperature must be above 0, got 0"),
        ("roid", {"source_share": 2}, "source_share must be at least 0 and at most 1, got 2"),
        ("roid", {"prior_correction": "odds"}, "prior_correction must be 'logits', 'unscaled', 'prob"),
        ("cmf", {"noise": -1}, "noise must be at least 0, got -1"),
        ("cmf", {"hidden_share": 2}, "hidden_share must be at least 0 and at most 1, got 2"),
    ],
)
def test_what_it_cannot_do_it_says(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        midway.adapt(tiny_network(), name, **settings)
