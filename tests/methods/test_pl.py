from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.testing import batches, tiny_network


class NaivePL:
    """Pseudo labels written plainly: image by image, train-mode BatchNorm, Adam by hand, answer from before."""

    def __init__(self, network: nn.Module, *, lr: float, threshold: float) -> None:
        self.network, self.lr, self.threshold = network.train(), lr, threshold
        self.affine = [p for m in network.modules() if isinstance(m, nn.BatchNorm2d) for p in (m.weight, m.bias)]
        self.first = [torch.zeros_like(p) for p in self.affine]
        self.second = [torch.zeros_like(p) for p in self.affine]
        self.count = 0

    def __call__(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images)
        losses = []
        for row in logits:
            probabilities = row.exp() / row.exp().sum()
            if probabilities.max() > self.threshold:
                losses.append(-probabilities[probabilities.argmax()].log())
        if losses:
            self.adam(torch.autograd.grad(sum(losses) / len(losses), self.affine))  # type: ignore[arg-type]
        return logits.detach()

    def adam(self, gradients: tuple[Tensor, ...]) -> None:
        self.count += 1
        with torch.no_grad():
            for p, g, m, v in zip(self.affine, gradients, self.first, self.second, strict=True):
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                p -= self.lr * (m / (1 - 0.9**self.count)) / ((v / (1 - 0.999**self.count)).sqrt() + 1e-8)


def test_agrees_with_a_naive_implementation_over_batches(sharp_network: Callable[..., nn.Module]) -> None:
    method = midway.PL(sharp_network(), lr=1e-2, threshold=0.8)
    naive = NaivePL(sharp_network(), lr=1e-2, threshold=0.8)
    for images in batches(4):
        torch.testing.assert_close(method(images), naive(images), rtol=1e-3, atol=1e-3)
    assert 0.1 < method.diagnostics["selected_share"] < 0.9


def test_as_published_all_weights_move_under_the_source_statistics(sharp_network: Callable[..., nn.Module]) -> None:
    method = midway.adapt(sharp_network(), "pl", preset="published", lr=1e-2)
    naive = NaivePL(sharp_network(), lr=1e-2, threshold=0.9)
    naive.network.eval()  # keeps the running statistics
    naive.affine = list(naive.network.parameters())
    naive.first, naive.second = ([torch.zeros_like(p) for p in naive.affine] for _ in range(2))
    before = method.model.state_dict()["1.running_mean"].clone()
    for images in batches(4):
        torch.testing.assert_close(method(images), naive(images), rtol=1e-3, atol=1e-3)
    assert method.diagnostics["selected"] > 0
    assert torch.equal(method.model.state_dict()["1.running_mean"], before)


def test_without_confident_images_nothing_changes() -> None:
    method, bn = midway.PL(tiny_network(), threshold=0.999), midway.BN(tiny_network())
    for images in batches(2):
        assert torch.equal(method(images), bn(images))
    assert method.diagnostics == {"judged": 24, "selected": 0, "selected_share": 0.0}


def test_all_trains_every_weight_and_norm_only_scales_and_shifts() -> None:
    for trainable, expected in (("norm", {"1", "4"}), ("all", {"0", "1", "3", "4", "8"})):
        method = midway.PL(tiny_network(), threshold=0.0, trainable=trainable)  # type: ignore[arg-type]
        before = {name: p.clone() for name, p in method.model.named_parameters()}
        method(batches(1)[0])
        moved = {name.split(".")[0] for name, p in method.model.named_parameters() if not torch.equal(p, before[name])}
        assert moved == expected


def test_after_is_the_answer_of_the_moved_network() -> None:
    (images,) = batches(1)
    before, after = (midway.PL(tiny_network(), threshold=0.0, lr=1e-2, predict=p) for p in ("before", "after"))  # type: ignore[arg-type]
    assert torch.equal(before(images), midway.BN(tiny_network())(images))
    moved = after(images)
    assert torch.equal(before(images), moved)


def test_mistakes_are_refused() -> None:
    with pytest.raises(ValueError, match="threshold must be at least 0 and below 1"):
        midway.PL(tiny_network(), threshold=90)
    with pytest.raises(ValueError, match="trainable must be 'norm' or 'all', got 'head'"):
        midway.PL(tiny_network(), trainable="head")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        midway.PL(tiny_network(), steps=0)
    with pytest.raises(ValueError, match="predict must be 'before' or 'after'"):
        midway.PL(tiny_network(), predict="during")  # type: ignore[arg-type]
