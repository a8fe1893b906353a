from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.functional import entropy
from midway.testing import batches, tiny_network


def test_entropy_by_hand() -> None:
    probabilities = torch.tensor([[0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3]])
    expected = torch.tensor([0.5 * math.log(2) + 0.5 * math.log(4), math.log(3)])
    torch.testing.assert_close(entropy(probabilities.log() + 7), expected)
    assert entropy(torch.tensor([[1000.0, 0.0]])).item() == 0
    masked = torch.tensor([[1.0, 1.0, -math.inf]], requires_grad=True)  # a class that is ruled out
    entropy(masked).backward()
    assert entropy(masked).item() == pytest.approx(math.log(2))
    assert masked.grad is not None
    assert masked.grad.isfinite().all()


class NaiveTent:
    """TENT written plainly from the paper: train-mode BatchNorm, Adam by hand, answer from before the update."""

    def __init__(self, network: nn.Sequential, lr: float) -> None:
        self.network = network.train()
        self.lr = lr
        self.affine = [p for m in network if isinstance(m, nn.BatchNorm2d) for p in (m.weight, m.bias)]
        self.first = [torch.zeros_like(p) for p in self.affine]
        self.second = [torch.zeros_like(p) for p in self.affine]
        self.count = 0

    def __call__(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images)
        loss = torch.stack([-sum(p * p.log() for p in row.softmax(0)) for row in logits]).mean()
        gradients = torch.autograd.grad(loss, self.affine)
        self.count += 1
        with torch.no_grad():
            for p, g, m, v in zip(self.affine, gradients, self.first, self.second, strict=True):
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                corrected = (v / (1 - 0.999**self.count)).sqrt() + 1e-8
                p -= self.lr * (m / (1 - 0.9**self.count)) / corrected
        return logits.detach()


def test_agrees_with_a_naive_implementation_over_batches() -> None:
    naive = NaiveTent(tiny_network(), lr=1e-2)  # type: ignore[arg-type]
    method = midway.Tent(tiny_network(), lr=1e-2)
    for images in batches(4):
        torch.testing.assert_close(method(images), naive(images), rtol=1e-3, atol=1e-4)


def test_after_is_the_answer_of_the_moved_network() -> None:
    (first,) = batches(1)
    before, after = midway.Tent(tiny_network(), lr=1e-2), midway.Tent(tiny_network(), lr=1e-2, predict="after")
    bn = midway.BN(tiny_network())
    assert torch.equal(before(first), bn(first))
    moved = after(first)
    before.optimizer.get("adam", lr=1e-2).param_groups[0]["lr"] = 0.0
    assert torch.equal(before(first), moved)
    assert not torch.equal(moved, bn(first))


def test_only_norm_scales_and_shifts_move() -> None:
    method = midway.Tent(tiny_network("layer"), lr=1e-2)
    before = {name: p.clone() for name, p in method.model.named_parameters()}
    method(batches(1)[0])
    moved = {name for name, p in method.model.named_parameters() if not torch.equal(p, before[name])}
    assert moved == {f"{layer}.{kind}" for layer in (1, 4, 8) for kind in ("weight", "bias")}


def test_homemade_norm_layers_move_too() -> None:
    class MyRMSNorm2d(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(8))

        def forward(self, x: Tensor) -> Tensor:
            return x / x.square().mean(dim=1, keepdim=True).add(1e-6).sqrt() * self.weight.view(1, -1, 1, 1)

    network = nn.Sequential(nn.Conv2d(3, 8, 3), MyRMSNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4))
    network(torch.rand(1, 3, 16, 16))
    assert set(midway.adaptation.parameters.norm_affine(network)) == {"1.weight"}
    midway.Tent(network)(batches(1)[0])


class MyBatchNorm(nn.Module):
    """A BatchNorm layer that is not derived from torch's."""

    def __init__(self, like: nn.BatchNorm2d) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(like.weight.clone()), nn.Parameter(like.bias.clone())
        self.register_buffer("running_mean", like.running_mean)
        self.register_buffer("running_var", like.running_var)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, self.training)


@pytest.mark.parametrize("method", [midway.Tent, partial(midway.BN, prior=16)])
def test_layers_whose_statistics_cannot_be_exchanged_are_named(method: Callable[[nn.Module], midway.Method]) -> None:
    network = tiny_network()
    network[4] = MyBatchNorm(network[4])  # type: ignore[index, operator, arg-type]
    with pytest.warns(UserWarning, match=r"^4 \(MyBatchNorm\) will keep the statistics of training") as warned:
        method(network)
    assert warned[0].filename == __file__  # it points at the line that made the method


def test_layers_that_share_parameters_move_them_once() -> None:
    network = tiny_network()
    network[4].weight, network[4].bias = network[1].weight, network[1].bias  # type: ignore[index, union-attr]
    method = midway.Tent(network, lr=0.01)
    method(batches(1)[0])
    moved = method.model[1].weight - network[1].weight  # type: ignore[index, operator]
    torch.testing.assert_close(moved.abs().max(), torch.tensor(0.01), rtol=1e-3, atol=0)  # Adam's first step


def test_what_it_cannot_do_it_says() -> None:
    with pytest.raises(ValueError, match="no normalisation layer"):
        midway.Tent(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)))
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        midway.Tent(tiny_network(), steps=0)
    with pytest.raises(ValueError, match="predict must be 'before' or 'after'"):
        midway.Tent(tiny_network(), predict="during")  # type: ignore[arg-type]
