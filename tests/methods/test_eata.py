from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import midway
from midway.adaptation.selection import logits_to_learn_from, mixes_images, redundancy_margin, reliable
from midway.functional import entropy
from midway.testing import CONTRACT, NORMS, Factory, batches, tiny_network

Network = Callable[..., nn.Module]


class NaiveEATA:
    """EATA written plainly from its description, image by image, with SGD and momentum by hand."""

    def __init__(self, network: nn.Module, *, lr: float, d: float, fisher_images: Tensor, weight: float) -> None:
        self.network, self.lr, self.d, self.weight = network.train(), lr, d, weight
        self.affine = [p for m in network.modules() if isinstance(m, nn.BatchNorm2d) for p in (m.weight, m.bias)]
        self.source = [p.detach().clone() for p in self.affine]
        self.velocity: list[Tensor | None] = [None] * len(self.affine)
        self.mean: list[float] | None = None
        self.fisher = [torch.zeros_like(p) for p in self.affine]
        parts = [fisher_images[:8], fisher_images[8:]]
        for part in parts:
            logits = network(part)
            loss = -sum(row.log_softmax(0).max() for row in logits) / len(part)
            for total, gradient in zip(self.fisher, torch.autograd.grad(loss, self.affine), strict=True):  # type: ignore[arg-type]
                total += gradient * gradient / 2

    def __call__(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images)
        margin = 0.4 * math.log(logits.shape[1])
        losses, kept = [], []
        for row in logits:
            p = row.softmax(0)
            h = -(p * p.log()).sum()
            if h.item() >= margin:
                continue
            if self.mean is not None:
                dot = sum(a * b for a, b in zip(p.tolist(), self.mean, strict=True))
                norms = math.sqrt(sum(a * a for a in p.tolist())) * math.sqrt(sum(b * b for b in self.mean))
                if dot / norms >= self.d:
                    continue
            losses.append(h / math.exp(h.item() - margin))
            kept.append(p.tolist())
        if losses:
            now = [sum(column) / len(kept) for column in zip(*kept, strict=True)]
            past = self.mean or now
            self.mean = [0.9 * a + 0.1 * b for a, b in zip(past, now, strict=True)]
            loss = sum(losses) / len(losses)
            for fisher, p, source in zip(self.fisher, self.affine, self.source, strict=True):
                loss = loss + self.weight * (fisher * (p - source) ** 2).sum()
            self.sgd(torch.autograd.grad(loss, self.affine))
        return logits.detach()

    def sgd(self, gradients: tuple[Tensor, ...]) -> None:
        with torch.no_grad():
            for i, (p, g) in enumerate(zip(self.affine, gradients, strict=True)):
                old = self.velocity[i]
                self.velocity[i] = new = g.clone() if old is None else 0.9 * old + g
                p -= self.lr * new


def test_agrees_with_a_naive_implementation_over_batches(sharp_network: Network) -> None:
    fisher_images = batches(1, size=16, seed=7)[0]
    method = midway.EATA(
        sharp_network(),
        optimizer="sgd",
        lr=0.05,
        redundancy=0.9,
        fisher_images=fisher_images,
        fisher_weight=50,
        fisher_batch_size=8,
    )
    naive = NaiveEATA(sharp_network(), lr=0.05, d=0.9, fisher_images=fisher_images, weight=50)
    for images in batches(5):
        torch.testing.assert_close(method(images), naive(images), rtol=1e-3, atol=1e-3)
    assert 0 < method.diagnostics["selected"] < method.diagnostics["reliable"] < method.diagnostics["judged"]


def test_the_fisher_penalty_holds_the_weights_near_the_source(sharp_network: Network) -> None:
    fisher_images = batches(1, seed=7)[0]

    def distance(**extra: object) -> float:
        method = midway.EATA(sharp_network(), optimizer="sgd", lr=0.02, redundancy=1.1, **extra)  # type: ignore[arg-type]
        for images in batches(6):
            method(images)
        moved = torch.nn.utils.parameters_to_vector(method.trainable) - method.source_weights
        return moved.norm().item()

    free = distance()
    assert distance(fisher_images=fisher_images, fisher_weight=0) == free
    assert distance(fisher_images=fisher_images, fisher_weight=10) < 0.9 * free


def test_the_margin_follows_the_number_of_classes() -> None:
    """0.4 ln 1000 = 2.76 is above ln 10 = 2.30: as a fixed margin it would let the most uncertain answer pass."""
    uncertain = torch.zeros(1, 10)
    assert entropy(uncertain).item() < 0.4 * math.log(1000)
    assert not reliable(uncertain, 0.4)
    for classes in (2, 10, 100, 1000):
        threshold = 0.4 * math.log(classes)
        logits = torch.zeros(200, classes)
        logits[:, 0] = torch.linspace(0, 30, 200)
        passed = reliable(logits, 0.4)
        assert torch.equal(passed, entropy(logits) < threshold)
        assert 0 < passed.float().mean() < 1


def test_published_redundancy_margins_and_the_law_between_them() -> None:
    assert [redundancy_margin(classes) for classes in (10, 100, 1000)] == [0.4, 0.1, 0.05]
    assert redundancy_margin(316) == pytest.approx(math.sqrt(0.1 * 0.05), rel=1e-3)  # half way on a log scale


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 20_000))
def test_a_certain_answer_is_not_redundant_to_a_balanced_past(classes: int) -> None:
    """d = 0.05 on ten classes lets nothing pass after the first batch (the cosine is 1 / sqrt(10) = 0.32)."""
    assert redundancy_margin(classes) >= 1 / math.sqrt(classes) - 1e-12
    assert redundancy_margin(classes + 1) < redundancy_margin(classes)


class Pixels(nn.Module):
    """Answers with the first ten pixel values, scaled and shifted by a norm layer's weights."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(10)

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1)[:, :10] * 20 * self.norm.weight + self.norm.bias


def one_of_each_class(certainty: float) -> Tensor:
    images = torch.zeros(10, 3, 4, 4)
    images.flatten(1)[:, :10] = certainty * torch.eye(10)
    return images


def test_on_ten_classes_something_passes_in_every_batch() -> None:
    method = midway.EATA(Pixels(), lr=0.0)
    wrong = midway.EATA(Pixels(), lr=0.0, redundancy=0.05)  # ImageNet's, silently nothing after the first batch
    for _ in range(3):
        method(one_of_each_class(1.0))
        wrong(one_of_each_class(1.0))
    assert method.diagnostics["selected_share"] == 1.0
    assert wrong.diagnostics["selected_share"] == pytest.approx(1 / 3)


def test_weights_and_mean_prediction_by_hand() -> None:
    method = midway.EATA(Pixels(), optimizer="sgd", lr=1.0)
    images = one_of_each_class(1.0)[:3]
    logits = method(images)
    assert method.mean_prediction is not None
    torch.testing.assert_close(method.mean_prediction, logits.softmax(1).mean(0))
    bias = torch.zeros(10, requires_grad=True)
    h = entropy(logits + bias)
    (gradient,) = torch.autograd.grad((h * torch.exp(0.4 * math.log(10) - h.detach())).mean(), bias)
    torch.testing.assert_close(method.model.norm.bias.detach(), -gradient)  # type: ignore[union-attr]
    half = method(one_of_each_class(1.0)[5:6])
    expected = 0.9 * logits.softmax(1).mean(0) + 0.1 * half.softmax(1).mean(0)
    torch.testing.assert_close(method.mean_prediction, expected)


@pytest.mark.parametrize("norm", NORMS)
def test_learning_from_the_selected_alone_gives_the_same_gradients(norm: str, sharp_network: Network) -> None:
    network = sharp_network(norm=norm)
    midway.adaptation.batch_norm.statistics.use_batch_statistics(network)
    moving = list(midway.adaptation.parameters.norm_affine(network).values())
    images = batches(1)[0]
    chosen = torch.zeros(12, dtype=torch.bool)
    chosen[[2, 7, 9]] = True
    mask = chosen.float() / 3
    plain = torch.autograd.grad((mask * entropy(network(images))).sum(), moving)  # over all, the others weigh nothing
    calls: list[int] = []
    network.register_forward_hook(lambda _module, inputs, _output: calls.append(len(inputs[0])))
    fast = entropy(logits_to_learn_from(network, images, network(images), chosen)).mean()
    for expected, gradient in zip(plain, torch.autograd.grad(fast, moving), strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)
    assert calls == ([12] if norm == "batch" else [12, 3])  # batch statistics need the whole batch
    assert mixes_images(network) == (norm == "batch")


def test_homemade_norm_layers_are_taken_to_mix_images() -> None:
    class MyNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

    assert mixes_images(nn.Sequential(nn.GroupNorm(1, 3), MyNorm()))
    assert not mixes_images(nn.Sequential(nn.GroupNorm(1, 3)))


def test_nothing_selected_runs_no_backward_pass() -> None:
    method, bn = midway.EATA(tiny_network(), margin=1e-6), midway.BN(tiny_network())
    backwards: list[int] = []
    for parameter in method.trainable:
        parameter.register_hook(lambda gradient: backwards.append(1))
    first, *others = batches(3)
    assert torch.equal(method(first), bn(first))
    backwards.clear()  # the first call tries out whether the network has gradients
    for images in others:
        assert torch.equal(method(images), bn(images))
    assert not backwards
    assert method.optimizer.state_dict() == {}


def test_settings_follow_the_problem_and_show() -> None:
    small, large = midway.EATA(tiny_network(classes=10)), midway.EATA(tiny_network(classes=1000))
    assert "redundancy=None" in repr(small)
    small(batches(1)[0])
    large(batches(1, side=128)[0])
    assert "fisher_weight=1, " in repr(small)
    assert "redundancy=0.4, averaging=0.9, optimizer='adam', lr=0.001" in repr(small)
    assert "fisher_weight=2000, " in repr(large)
    assert "redundancy=0.05, averaging=0.9, optimizer='sgd', lr=0.00025" in repr(large)
    given = midway.EATA(tiny_network(classes=10), lr=0.5)
    given(batches(1)[0])
    assert "optimizer='adam', lr=0.5" in repr(given)
    small.reset()
    assert "redundancy=None" in repr(small)


def test_what_the_first_batch_settled_is_part_of_the_state(sharp_network: Network) -> None:
    """The first batch was ImageNet-size; resumed on smaller images, its settings stay."""
    method, other = (midway.EATA(sharp_network(classes=10), margin=2.0) for _ in range(2))
    method(batches(1, size=4, side=128)[0])
    other.load_state_dict(method.state_dict())
    assert other.hyperparameters == method.hyperparameters
    assert other.hyperparameters["optimizer"] == "sgd"
    for images in batches(2):
        assert torch.equal(method(images), other(images))
    with pytest.raises(ValueError, match="the state is of lr=None, this method has lr=1"):
        midway.EATA(sharp_network(classes=10), margin=2.0, lr=1).load_state_dict(method.state_dict())


def test_fisher_images_are_given_and_shown_not_kept() -> None:
    images = batches(1)[0]
    method = midway.EATA(tiny_network(), fisher_images=images)
    assert "fisher_images=tensor of (12, 3, 16, 16)" in repr(method)
    assert not any(isinstance(value, Tensor) for value in method.hyperparameters.values())
    fisher = method.fisher
    assert fisher is not None
    kept = fisher.clone()
    for test_images in batches(3, seed=5):  # test images never enter it
        method(test_images)
    assert torch.equal(method.fisher, kept)  # type: ignore[arg-type]
    assert midway.EATA(tiny_network()).fisher is None


def test_fisher_of_a_network_with_a_branch_that_is_off_and_one_image_over() -> None:
    class Branched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(*list(tiny_network().children())[:8], nn.BatchNorm1d(8), nn.Linear(8, 4)).eval()
            self.aside = nn.BatchNorm2d(3)  # for training alone

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.body(x)
            return logits

    method = midway.EATA(Branched(), fisher_images=batches(1, size=9)[0], fisher_batch_size=4)
    assert method.fisher is not None
    assert (method.fisher[-6:] == 0).all()  # the branch matters to nothing
    assert (method.fisher[:-6] > 0).any()


def test_mistakes_are_refused() -> None:
    images = batches(1)[0]
    with pytest.raises(ValueError, match="fisher_images: images must be in"):
        midway.EATA(tiny_network(), fisher_images=images * 255)
    with pytest.raises(ValueError, match="fisher_images: the model does not accept images of shape"):
        midway.EATA(tiny_network(), fisher_images=images[:, :1])
    with pytest.raises(ValueError, match="fisher_images contains 2001 images: give at most 2000"):
        midway.EATA(tiny_network(), fisher_images=torch.rand(2001, 3, 2, 2))
    with pytest.raises(TypeError, match=r"fisher_images: images must be a torch\.Tensor .*, got list"):
        midway.EATA(tiny_network(), fisher_images=[images])  # type: ignore[arg-type]
    for wrong, words in (
        ({"margin": 0}, "margin must be above 0"),
        ({"redundancy": 0}, "redundancy must be above 0, or None, got 0"),
        ({"averaging": 1}, "averaging must be"),
        ({"fisher_weight": -1}, "fisher_weight must be at least 0"),
        ({"fisher_batch_size": 0}, "fisher_batch_size must be at least 1"),
        ({"optimizer": "adamw"}, "optimizer must be 'adam', 'sgd' or None"),
        ({"lr": -1}, "lr must be at least 0"),
    ):
        with pytest.raises(ValueError, match=words):
            midway.EATA(tiny_network(), **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_contract_with_fisher_images(check: Callable[[Factory], None]) -> None:
    def factory(model: nn.Module) -> midway.EATA:
        first = next(module for module in model.modules() if isinstance(module, nn.Conv2d))
        images = batches(1, channels=first.in_channels, seed=3)[0]
        return midway.EATA(model, margin=2.0, redundancy=1.1, lr=1e-2, fisher_images=images)

    check(factory)
