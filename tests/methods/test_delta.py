from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from midway.adaptation.batch_norm.renormalization import use_renormalized_statistics
from midway.adaptation.batch_norm.replacement import updating_statistics
from midway.methods.delta import DELTA, Objective, dot
from midway.testing import batches, tiny_network


class NaiveTBR(nn.Module):
    """TBR in the words of the paper: normalise with the batch, then r and d, which have no gradient."""

    def __init__(self, layer: nn.BatchNorm2d) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = layer.weight, layer.bias, layer.eps
        self.mean: Tensor | None = None
        self.sd: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(dim=(0, 2, 3))
        sd = (((x - mean.view(1, -1, 1, 1)) ** 2).mean(dim=(0, 2, 3)) + self.eps).sqrt()
        if self.mean is None or self.sd is None:
            self.mean, self.sd = mean.detach(), sd.detach()
        r, d = sd.detach() / self.sd, (mean.detach() - self.mean) / self.sd
        normal = (x - mean.view(1, -1, 1, 1)) / sd.view(1, -1, 1, 1) * r.view(1, -1, 1, 1) + d.view(1, -1, 1, 1)
        self.mean = 0.95 * self.mean + 0.05 * mean.detach()
        self.sd = 0.95 * self.sd + 0.05 * sd.detach()
        return normal * self.weight.view(1, -1, 1, 1) + self.bias.view(1, -1, 1, 1)


class NaiveDELTA:
    """DELTA from its description, with loops over images and Adam by hand."""

    def __init__(self, network: Any, *, loss: str, lr: float) -> None:
        self.network, self.loss, self.lr = copy.deepcopy(network), loss, lr
        for index, module in enumerate(self.network):
            if isinstance(module, nn.BatchNorm2d):
                self.network[index] = NaiveTBR(module)
        self.affine = [p for m in self.network if isinstance(m, NaiveTBR) for p in (m.weight, m.bias)]
        self.moments = [[torch.zeros_like(p), torch.zeros_like(p)] for p in self.affine]
        self.q: list[float] | None = None
        self.steps = self.selected = 0

    def __call__(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images)
        classes = logits.shape[1]
        q = self.q or [1 / classes] * classes
        p = logits.softmax(dim=1)
        weights = [1 / q[int(row.argmax())] for row in p]
        terms = []
        for row, weight in zip(p, weights, strict=True):
            share = weight * len(images) / sum(weights)
            entropy = -(row * row.log()).sum()
            if self.loss == "entropy":
                terms.append(share * entropy)
            elif self.loss == "weighted" and entropy.item() < 0.5 * math.log(classes):
                terms.append(share * math.exp(0.5 * math.log(classes) - entropy.item()) * entropy)
            elif self.loss == "pseudo" and row.max().item() > 0.4:
                terms.append(-share * row.max().log())
        self.selected += len(terms)
        if terms:
            self.adam(torch.autograd.grad(sum(terms) / len(terms), self.affine))  # type: ignore[arg-type]
        self.q = [0.95 * old + 0.05 * new for old, new in zip(q, p.mean(dim=0).tolist(), strict=True)]
        return logits.detach()

    def adam(self, gradients: tuple[Tensor, ...]) -> None:
        self.steps += 1
        with torch.no_grad():
            for p, g, (m, v) in zip(self.affine, gradients, self.moments, strict=True):
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                p -= self.lr * (m / (1 - 0.9**self.steps)) / ((v / (1 - 0.999**self.steps)).sqrt() + 1e-8)


@pytest.mark.parametrize("objective", ["entropy", "weighted", "pseudo"])
def test_agrees_with_a_naive_implementation_over_batches(objective: Objective, sharp_network: Any) -> None:
    naive = NaiveDELTA(sharp_network().double(), loss=objective, lr=1e-2)
    method = DELTA(sharp_network().double(), objective=objective, lr=1e-2)
    for images in batches(5):
        torch.testing.assert_close(method(images.double()), naive(images.double()), rtol=1e-6, atol=1e-6)
    for mine, theirs in zip(method.model.parameters(), naive.network.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-10)
    assert method.frequencies is not None
    assert method.frequencies.tolist() == pytest.approx(naive.q)
    assert method.diagnostics["selected"] == naive.selected > 0
    for mine, theirs in zip(method.layers, (m for m in naive.network if isinstance(m, NaiveTBR)), strict=True):
        torch.testing.assert_close((mine.mean, mine.deviation), (theirs.mean, theirs.sd), rtol=1e-12, atol=0)


def test_renormalisation_by_hand() -> None:
    """Batches (0, 2) and (3, 7): means 1, 5 and deviations 1, 2. The second is seen through (1, 1): (3 - 1) / 1, ..."""
    layer = nn.BatchNorm1d(1, eps=0.0)
    use_renormalized_statistics(nn.Sequential(layer), 0.75)
    with updating_statistics(layer):
        assert layer(torch.tensor([[0.0], [2.0]])).flatten().tolist() == pytest.approx([-1, 1])
        assert layer(torch.tensor([[3.0], [7.0]])).flatten().tolist() == pytest.approx([2, 6])
    assert (layer.mean.item(), layer.deviation.item()) == pytest.approx((2.0, 1.25))  # three quarters of the past
    layer(torch.tensor([[30.0], [70.0]]))  # outside the block nothing moves
    assert layer.mean.item() == pytest.approx(2.0)


def test_the_gradient_sees_the_statistics_of_the_batch() -> None:
    """Shifting or scaling a batch changes (x - M) / S but its gradient is that of BatchNorm, times r."""
    torch.manual_seed(0)
    layer, plain = nn.BatchNorm1d(2, eps=1e-12), nn.BatchNorm1d(2, eps=1e-12).train()
    use_renormalized_statistics(nn.Sequential(layer), 0.9)
    with updating_statistics(layer):
        layer(torch.randn(6, 2) * 3 + 1)
    x = torch.randn(6, 2, requires_grad=True)
    weights = torch.randn(6, 2)
    (mine,) = torch.autograd.grad((layer(x) * weights).sum(), x)
    r = x.detach().std(dim=0, correction=0) / layer.deviation
    (theirs,) = torch.autograd.grad((plain(x) * weights * r).sum(), x)
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


def test_class_weights_by_hand() -> None:
    """Two images of class 0 and one of class 1 after frequencies (.8, .2): 1/.8, 1/.8, 1/.2 scaled to sum 3."""
    losses, labels, frequencies = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 0, 1]), torch.tensor([0.8, 0.2])
    weights = [3 * w / (1.25 + 1.25 + 5) for w in (1.25, 1.25, 5)]
    assert dot(losses, labels, frequencies).tolist() == pytest.approx([weights[0], 2 * weights[1], 3 * weights[2]])


def test_frequencies_move_to_the_mean_prediction() -> None:
    (images,) = batches(1)
    method = DELTA(tiny_network(), lr=0.0)
    mean = method(images).softmax(dim=1).mean(dim=0)
    assert method.frequencies is not None
    torch.testing.assert_close(method.frequencies, 0.95 * torch.full((4,), 0.25) + 0.05 * mean)


def test_statistics_start_with_the_first_batch_and_a_reset_forgets_them() -> None:
    first, second, _ = batches()
    method = DELTA(tiny_network(), lr=0.0)
    assert not method.layers[0].deviation.any()
    method(first)
    mean = nn.Sequential(*list(tiny_network().children())[:1])(first).mean(dim=(0, 2, 3))
    torch.testing.assert_close(method.layers[0].mean, mean)
    expected = method(second)
    method.reset()
    assert not method.layers[0].deviation.any()
    assert not torch.allclose(method(second), expected, atol=1e-3)


def test_published_settings_follow_the_size_of_the_images() -> None:
    small, large = DELTA(tiny_network()), DELTA(tiny_network())
    small(batches(1)[0])
    large(batches(1, size=4, side=128)[0])
    assert (small.hyperparameters["optimizer"], small.hyperparameters["lr"]) == ("adam", 1e-3)
    assert (large.hyperparameters["optimizer"], large.hyperparameters["lr"]) == ("sgd", 2.5e-4)


def test_no_image_that_counts_is_no_step_but_frequencies_follow() -> None:
    method = DELTA(tiny_network(), objective="pseudo", threshold=0.999, lr=1.0)
    weight = method.model.state_dict()["1.weight"].clone()
    method(batches(1)[0])
    assert torch.equal(method.model.state_dict()["1.weight"], weight)
    assert method.frequencies is not None
    assert method.frequencies.std() > 0


def test_mistakes_are_refused() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"objective": "none"}, "objective must be 'entropy', 'weighted' or 'pseudo', got 'none'"),
        ({"margin": 0.0}, "margin must be above 0, got 0.0"),
        ({"averaging": 1.0}, "averaging must be at least 0 and below 1, got 1.0"),
        ({"class_averaging": -1.0}, "class_averaging must be at least 0 and below 1, got -1.0"),
    ]
    for settings, message in wrong:
        with pytest.raises(ValueError, match=message):
            DELTA(tiny_network(), **settings)
