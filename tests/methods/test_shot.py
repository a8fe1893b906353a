from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.methods.shot import information_maximization
from midway.testing import batches, tiny_network

Network = Callable[..., nn.Module]


class NaiveSHOT:
    """Online SHOT written plainly: image by image, train-mode BatchNorm, Adam by hand, everything but the head."""

    def __init__(self, network: nn.Sequential, *, lr: float) -> None:
        self.network, self.lr = network.train(), lr
        self.body = [p for module in list(network)[:-1] for p in module.parameters()]
        self.first = [torch.zeros_like(p) for p in self.body]
        self.second = [torch.zeros_like(p) for p in self.body]
        self.count = self.confident = 0

    def __call__(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images)
        rows = [row.softmax(0) for row in logits]
        certainty = sum((p * p.log()).sum() for p in rows) / len(rows)
        mean = sum(rows) / len(rows)
        diversity = -(mean * mean.log()).sum()  # type: ignore[union-attr]
        pseudo = [-p.max().log() for p in rows if p.max() > 0.9]
        self.confident += len(pseudo)
        loss = -certainty - diversity + (0.1 * sum(pseudo) / len(pseudo) if pseudo else 0)
        gradients = torch.autograd.grad(loss, self.body)  # type: ignore[arg-type]
        self.count += 1
        with torch.no_grad():
            for p, g, m, v in zip(self.body, gradients, self.first, self.second, strict=True):
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                p -= self.lr * (m / (1 - 0.9**self.count)) / ((v / (1 - 0.999**self.count)).sqrt() + 1e-8)
        return logits.detach()


def test_agrees_with_a_naive_implementation_over_batches(sharp_network: Network) -> None:
    naive = NaiveSHOT(sharp_network(), lr=1e-3)  # type: ignore[arg-type]
    method = midway.SHOT(sharp_network(), trainable="body", lr=1e-3)
    for images in batches(4):
        torch.testing.assert_close(method(images), naive(images), rtol=1e-2, atol=1e-2)
    assert method.diagnostics["confident"] == naive.confident
    assert 0.1 < method.diagnostics["confident_share"] < 0.9


def test_the_head_is_frozen_and_the_rest_adapts() -> None:
    for trainable, expected in (("body", {"0", "1", "3", "4"}), ("norm", {"1", "4"})):
        method = midway.SHOT(tiny_network(), trainable=trainable)  # type: ignore[arg-type]
        before = {name: p.clone() for name, p in method.model.named_parameters()}
        method(batches(1)[0])
        moved = {name.split(".")[0] for name, p in method.model.named_parameters() if not torch.equal(p, before[name])}
        assert moved == expected


def test_diversity_keeps_the_answers_from_falling_into_one_class() -> None:
    """Certain and balanced answers have the lowest loss there is, -ln C; certain answers of one class have 0."""
    balanced = 50 * torch.eye(4)
    assert information_maximization(balanced).item() == pytest.approx(-torch.tensor(4.0).log().item(), abs=1e-5)
    assert information_maximization(balanced[[0, 0, 0, 0]]).item() == pytest.approx(0, abs=1e-5)


def test_a_class_that_nothing_is_likely_to_be_leaves_the_gradient_finite() -> None:
    """Its mean probability underflows to 0, whose logarithm has no finite gradient."""
    logits = torch.tensor([[300.0, 0.0, 0.0], [250.0, 0.0, -90.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(information_maximization(logits), logits)
    assert gradient.isfinite().all()


def test_the_head_is_found_or_given_and_shown() -> None:
    assert "head='8'" in repr(midway.SHOT(tiny_network(), trainable="body"))
    assert "head='8'" in repr(midway.SHOT(tiny_network(), trainable="body", head="8"))
    assert "head=None" in repr(midway.SHOT(tiny_network()))
    headless = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    with pytest.raises(ValueError, match="no linear layer"):
        midway.SHOT(headless, trainable="body")
    assert midway.SHOT(headless)(batches(1)[0]).shape == (12, 4)


def test_after_is_the_answer_of_the_moved_network() -> None:
    (images,) = batches(1)
    before = midway.SHOT(tiny_network())
    after = midway.SHOT(tiny_network(), predict="after")
    assert torch.equal(before(images), midway.BN(tiny_network())(images))
    assert torch.equal(after(images), before(images))


def test_mistakes_are_refused() -> None:
    with pytest.raises(ValueError, match="trainable must be 'body' or 'norm'"):
        midway.SHOT(tiny_network(), trainable="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="pseudo_weight must be at least 0"):
        midway.SHOT(tiny_network(), pseudo_weight=-1)
    with pytest.raises(ValueError, match="threshold must be at least 0 and below 1"):
        midway.SHOT(tiny_network(), threshold=1)
