"""Losses without labels, by hand and against plain formulas."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import midway
from midway.adaptation.losses import (
    entropy_loss,
    opinion_entropy,
    soft_cross_entropy,
    soft_likelihood_ratio,
    symmetric_cross_entropy,
)
from midway.methods.shot import information_maximization
from midway.testing import CONTRACT, batches, tiny_network

PREDICTIONS = torch.tensor([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]])
LN2 = math.log(2)


def logits_of(probabilities: Tensor) -> Tensor:
    return probabilities.log() + 3


def test_cross_entropies_by_hand() -> None:
    p, q = logits_of(PREDICTIONS[:1]), logits_of(torch.tensor([[0.25, 0.5, 0.25]]))
    assert soft_cross_entropy(p, q).item() == pytest.approx(0.25 * LN2 + 0.5 * 2 * LN2 + 0.25 * 2 * LN2)
    assert soft_cross_entropy(p, p).item() == pytest.approx(1.5 * LN2)
    assert symmetric_cross_entropy(p, q).item() == pytest.approx(1.75 * LN2)
    one_sided = logits_of(torch.tensor([[0.5, 0.5, 0.0]]))
    assert soft_cross_entropy(one_sided, one_sided).item() == pytest.approx(LN2)  # a class that is ruled out


def test_gradients_flow_through_both_sides() -> None:
    first, second = (torch.rand(2, 3, requires_grad=True) for _ in range(2))
    symmetric_cross_entropy(first, second).sum().backward()
    assert all(each.grad is not None and each.grad.abs().sum() > 0 for each in (first, second))


def test_the_soft_likelihood_ratio_by_hand() -> None:
    expected = [
        -(0.5 * math.log(1 + 1e-5) + 2 * 0.25 * math.log(1 / 3 + 1e-5)),
        -(2 * 0.2 * math.log(0.25 + 1e-5) + 0.6 * math.log(1.5 + 1e-5)),
    ]
    torch.testing.assert_close(soft_likelihood_ratio(logits_of(PREDICTIONS)), torch.tensor(expected))
    certain = torch.tensor([[50.0, 0.0, 0.0]], requires_grad=True)  # clamped to 0.99: finite, and no gradient
    loss = soft_likelihood_ratio(certain)
    assert loss.item() == pytest.approx(-0.99 * math.log(99), rel=1e-5)
    loss.sum().backward()
    assert certain.grad is not None
    assert certain.grad.abs().max() < 1e-6


def naive_come(row: Tensor) -> Tensor:
    """The published formula, literally: exponentials without a shift, the length as a constant."""
    z = row / row.norm() * row.norm().detach()
    total = z.exp().sum() + len(row)
    masses = [*(z.exp() / total), len(row) / total]
    return -torch.stack([(mass + 1e-7) * (mass + 1e-7).log() for mass in masses]).sum()


def test_the_opinion_entropy_by_hand_and_against_the_formula() -> None:
    logits = torch.log(torch.tensor([[1.0, 2.0]]))  # S = 1 + 2 + 2
    by_hand = -(0.2 * math.log(0.2) + 0.8 * math.log(0.4))
    assert opinion_entropy(logits).item() == pytest.approx(by_hand, abs=1e-6)
    assert opinion_entropy(torch.zeros(1, 3)).item() == pytest.approx(-3 / 6 * math.log(1 / 6) - 0.5 * math.log(0.5))
    generator = torch.Generator().manual_seed(0)
    logits = (4 * torch.randn(5, 7, generator=generator, dtype=torch.float64)).requires_grad_()
    ours, theirs = opinion_entropy(logits), torch.stack([naive_come(row) for row in logits])
    torch.testing.assert_close(ours, theirs, atol=3e-6, rtol=0)
    gradients = [torch.autograd.grad(each.sum(), logits, retain_graph=True)[0] for each in (ours, theirs)]
    torch.testing.assert_close(*gradients, atol=3e-6, rtol=0)
    along = (gradients[0] * logits).sum(dim=1)
    torch.testing.assert_close(along, torch.zeros(5, dtype=torch.float64), atol=1e-12, rtol=0)  # not longer


def test_large_and_zero_logits_have_finite_losses_and_gradients() -> None:
    logits = torch.tensor([[500.0, 0.0, -500.0], [0.0, 0.0, 0.0]], requires_grad=True)
    loss = opinion_entropy(logits)
    loss.sum().backward()
    assert loss.isfinite().all()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_unknown_losses_are_refused() -> None:
    with pytest.raises(ValueError, match="loss must be 'entropy' or 'come', got 'com'"):
        entropy_loss("com")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="loss must be 'entropy' or 'come'"):
        midway.Tent(tiny_network(), loss="energy")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["tent", "eata", "rdumb", "sar", "deyo", "shot", "delta", "aea", "note"])
def test_come_replaces_the_entropy(name: str) -> None:
    settings = {"margin": 2.0} if name in ("eata", "rdumb", "sar", "deyo") else {}
    settings |= {"redundancy": 1.1} if name in ("eata", "rdumb") else {}
    settings |= {"threshold": -1.0} if name == "deyo" else {}
    settings |= {"memory": 4} if name == "note" else {}
    stream = batches(3)
    plain, default = (midway.adapt(tiny_network(), name, **settings, **s) for s in ({"loss": "entropy"}, {}))
    come = midway.adapt(tiny_network(), name, **settings, loss="come")
    for images in stream[:2]:
        expected = plain(images)
        assert torch.equal(default(images), expected)
        come(images)
    assert not torch.equal(come(stream[2]), plain(stream[2]))
    assert come.hyperparameters["loss"] == "come"


def test_the_filter_uses_the_loss() -> None:
    (images,) = batches(1, size=40)
    network = tiny_network()
    opinions = opinion_entropy(midway.BN(network)(images)) / math.log(4)
    margin = opinions.median().item() + 1e-6
    method = midway.EATA(network, loss="come", margin=margin)
    method(images)
    assert method.diagnostics["reliable"] == 20


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_contract_with_come(check: object) -> None:
    check(lambda model: midway.SAR(model, loss="come", margin=2.0, lr=1e-2))  # type: ignore[operator]


def test_shot_with_come_still_subtracts_the_diversity() -> None:
    """SHOT's loss by hand: the mean opinion entropy, minus the entropy of the mean prediction."""
    logits = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    mean = logits.softmax(dim=1).mean(dim=0)
    by_hand = torch.stack([naive_come(row) for row in logits]).mean() + (mean * mean.log()).sum()
    torch.testing.assert_close(information_maximization(logits, opinion_entropy), by_hand, atol=1e-5, rtol=0)


def test_the_margin_of_delta_uses_the_loss() -> None:
    logits = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    opinions = opinion_entropy(logits)
    margin = opinions.median().item() / math.log(4) + 1e-6
    losses, selected = midway.DELTA(tiny_network(), objective="weighted", loss="come", margin=margin).losses(logits)
    assert selected.sum() == 20
    weights = (margin * math.log(4) - opinions).exp()
    torch.testing.assert_close(losses, weights * opinions)
