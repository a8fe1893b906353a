from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.methods.aea import AEA, energy_alignment, logit_alignment
from midway.testing import batches, tiny_network

Network = Callable[..., nn.Module]


class NaiveAEA:
    """AEA from its description: image by image, train-mode BatchNorm, Nesterov's momentum by hand."""

    def __init__(
        self, network: Any, *, lr: float, threshold: float, weights: tuple[float, float] = (1.0, 25.0)
    ) -> None:
        self.network, self.lr, self.threshold, self.weights = copy.deepcopy(network).train(), lr, threshold, weights
        self.affine = [p for m in self.network.modules() if isinstance(m, nn.BatchNorm2d) for p in (m.weight, m.bias)]
        self.velocity: list[Tensor] | None = None
        self.sure = 0

    def __call__(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images)
        energies = [-row.exp().sum().log() for row in logits]
        low = sorted(energy.item() for energy in energies)[: -(-len(energies) // 2)]
        target = sum(low) / len(low)
        head = self.network[-1].weight.detach()
        entropies, energy_terms, logit_terms = [], [], []
        for row, energy in zip(logits, energies, strict=True):
            p = row.softmax(0)
            entropies.append(-(p * p.log()).sum())
            energy_terms.append((1 + (energy - target).exp()).log())
            label = int(p.argmax())
            if p[label].item() >= self.threshold:
                wanted = head @ head[label]
                cosine = (row @ wanted) / (row.norm() * wanted.norm())
                logit_terms.append(math.exp(p[label].item() - self.threshold) * (1 - cosine))
        self.sure += len(logit_terms)
        count = len(images)
        loss = sum(entropies) / count + self.weights[0] * sum(energy_terms) / count
        if logit_terms:
            loss = loss + self.weights[1] * sum(logit_terms) / len(logit_terms)
        gradients = torch.autograd.grad(loss, self.affine)  # type: ignore[arg-type]
        if self.velocity is None:
            self.velocity = [g.clone() for g in gradients]
        else:
            self.velocity = [0.9 * v + g for v, g in zip(self.velocity, gradients, strict=True)]
        with torch.no_grad():
            for p, g, v in zip(self.affine, gradients, self.velocity, strict=True):
                p -= self.lr * (g + 0.9 * v)
        return logits.detach()


def test_agrees_with_a_naive_implementation_over_batches(sharp_network: Network) -> None:
    naive = NaiveAEA(sharp_network().double(), lr=1e-2, threshold=0.9)
    method = AEA(sharp_network().double(), lr=1e-2, threshold=0.9)
    for images in batches(6):
        torch.testing.assert_close(method(images.double()), naive(images.double()), rtol=1e-6, atol=1e-6)
    for mine, theirs in zip(method.model.parameters(), naive.network.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-10)
    assert method.diagnostics["confident"] == naive.sure
    assert 0.1 < method.diagnostics["confident_share"] < 0.9


def test_the_energy_term_by_hand() -> None:
    """Energies -4, -2, 0, 1: the lower half has mean -3, so softplus(-1), softplus(1), softplus(3), softplus(4)."""
    energies = torch.tensor([0.0, -4.0, 1.0, -2.0], requires_grad=True)
    loss = energy_alignment(energies, 0.5)
    assert loss.item() == pytest.approx(sum(math.log1p(math.exp(d)) for d in (-1, 1, 3, 4)) / 4)
    (gradient,) = torch.autograd.grad(loss, energies)  # the target is a constant
    expected = [1 / (1 + math.exp(-d)) / 4 for d in (3, -1, 4, 1)]
    assert gradient.tolist() == pytest.approx(expected)
    assert energy_alignment(torch.tensor([2.0]), 0.5).item() == pytest.approx(math.log(2))
    odd = energy_alignment(torch.tensor([0.0, -4.0, -2.0]), 0.5)  # of three the lower half are two, with mean -3
    assert odd.item() == pytest.approx(sum(math.log1p(math.exp(d)) for d in (-1, 1, 3)) / 3)


def test_the_logit_term_by_hand() -> None:
    """W = (1, 0), (1, 1): W W^T = (1, 1), (1, 2). Logits (ln 3, 0) have p = 3/4 and cosine 1 / sqrt 2 with (1, 1)."""
    correlations = torch.tensor([[1.0, 1.0], [1.0, 2.0]])
    logits = torch.tensor([[math.log(3), 0.0], [0.0, 0.1]])
    loss, sure = logit_alignment(logits, correlations, 0.7)
    assert sure.tolist() == [True, False]
    assert loss.item() == pytest.approx(math.exp(0.05) * (1 - 1 / math.sqrt(2)))
    logits = logits[:1].requires_grad_()
    loss, _ = logit_alignment(logits, correlations, 0.7)
    (gradient,) = torch.autograd.grad(loss, logits)  # 1 - a / sqrt(2 (a^2 + b^2)) at b = 0: only b changes the cosine
    expected = [0.0, -math.exp(0.05) / (math.sqrt(2) * math.log(3))]
    assert gradient[0].tolist() == pytest.approx(expected, abs=1e-7)


def test_without_confident_images_the_term_is_zero_and_not_nan() -> None:
    loss, sure = logit_alignment(torch.zeros(3, 2), torch.eye(2), 0.99)
    assert loss.item() == 0
    assert not sure.any()
    method = AEA(tiny_network(), threshold=0.999, lr=0.1)
    before = copy.deepcopy(method.model.state_dict())
    for images in batches(2):
        assert method(images).isfinite().all()
    assert method.diagnostics["confident"] == 0
    assert "skipped_steps" not in method.diagnostics
    assert not torch.equal(method.model.state_dict()["1.weight"], before["1.weight"])


def test_the_body_adapts_and_the_head_is_frozen() -> None:
    method = AEA(tiny_network(), trainable="body", lr=1e-2)
    before = copy.deepcopy(method.model.state_dict())
    method(batches(1)[0])
    moved = {
        key.split(".")[0] for key, value in method.model.state_dict().items() if not torch.equal(value, before[key])
    }
    assert moved == {"0", "1", "3", "4"}
    assert method.hyperparameters["head"] == "8"
    after = AEA(tiny_network(), lr=1e-2, predict="after")
    assert not torch.allclose(after(batches(1)[0]), AEA(tiny_network(), lr=1e-2)(batches(1)[0]))


def test_mistakes_are_refused() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"energy_weight": -1}, "energy_weight must be at least 0, got -1"),
        ({"threshold": 1.0}, "threshold must be at least 0 and below 1, got 1.0"),
        ({"share": 0.0}, "share must be above 0 and at most 1, got 0.0"),
        ({"trainable": "all"}, "trainable must be 'norm' or 'body', got 'all'"),
        ({"momentum": 0.0}, "momentum must be above 0 and below 1, got 0.0"),
        ({"steps": 0}, "steps must be at least 1"),
    ]
    for settings, message in wrong:
        with pytest.raises(ValueError, match=message):
            AEA(tiny_network(), **settings)
    two = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 5), nn.LayerNorm(5), nn.Linear(5, 4))
    with pytest.raises(ValueError, match="the layer '2' has 5 outputs, the model 4 logits"):
        midway.adapt(two, "aea", head="2")(batches(1)[0])
