from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.adaptation.optimization import sam_step
from midway.adaptation.parameters import last_stage
from midway.adaptation.problem import CIFAR_SIZE, IMAGENET_SIZE
from midway.adaptation.step_sizes import published_lr
from midway.testing import Norm, batches, tiny_network

Network = Callable[..., nn.Module]


class NaiveSAR:
    """SAR written plainly from its description: image by image, the weights moved up and down by hand."""

    def __init__(self, network: nn.Module, *, lr: float, rho: float, recover_below: float) -> None:
        self.network, self.lr, self.rho, self.recover_below = network.train(), lr, rho, recover_below
        norms = (nn.BatchNorm2d, nn.GroupNorm)
        self.affine = [p for m in network.modules() if isinstance(m, norms) for p in (m.weight, m.bias)]
        self.source = [p.detach().clone() for p in self.affine]
        self.velocity: list[Tensor] | None = None
        self.mean: float | None = None
        self.recoveries = self.dropped = 0

    def entropies(self, logits: Tensor) -> list[Tensor]:
        return [-(row.softmax(0) * row.softmax(0).log()).sum() for row in logits]

    def __call__(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images)
        margin = 0.4 * math.log(logits.shape[1])
        entropies = self.entropies(logits)
        first = [i for i, h in enumerate(entropies) if h.item() < margin]
        if not first:
            return logits.detach()
        here = [p.detach().clone() for p in self.affine]
        uphill = torch.autograd.grad(sum(entropies[i] for i in first) / len(first), self.affine)  # type: ignore[arg-type]
        norm = math.sqrt(sum((g * g).sum().item() for g in uphill))
        self.move([p + self.rho * g / norm for p, g in zip(here, uphill, strict=True)])
        entropies = self.entropies(self.network(images))
        second = [i for i in first if entropies[i].item() < margin]
        self.dropped += len(first) - len(second)
        loss = sum(entropies[i] for i in second) / len(second)
        gradients = torch.autograd.grad(loss, self.affine)  # type: ignore[arg-type]
        if self.velocity is None:
            self.velocity = list(gradients)
        else:
            self.velocity = [0.9 * v + g for v, g in zip(self.velocity, gradients, strict=True)]
        self.move([p - self.lr * v for p, v in zip(here, self.velocity, strict=True)])
        value = loss.item()  # type: ignore[union-attr]
        self.mean = value if self.mean is None else 0.9 * self.mean + 0.1 * value
        if self.mean < self.recover_below:
            self.move(self.source)
            self.velocity = self.mean = None
            self.recoveries += 1
        return logits.detach()

    def move(self, to: list[Tensor]) -> None:
        with torch.no_grad():
            for p, value in zip(self.affine, to, strict=True):
                p.copy_(value)


@pytest.mark.parametrize(("norm", "recover_below"), [("batch", 0.0), ("batch", 0.35), ("group", 0.0)])
def test_agrees_with_a_naive_implementation_over_batches(
    norm: Norm, recover_below: float, sharp_network: Network
) -> None:
    factor, lr = (40, 0.02) if norm == "batch" else (100, 0.005)  # features have less contrast in the latter
    naive = NaiveSAR(sharp_network(factor, norm=norm), lr=lr, rho=0.3, recover_below=recover_below)
    method = midway.SAR(sharp_network(factor, norm=norm), lr=lr, rho=0.3, recover_below=recover_below)
    for images in batches(6):
        torch.testing.assert_close(method(images), naive(images), rtol=1e-3, atol=2e-3)
    assert naive.dropped > 0  # uphill the filter drops images that it let pass before
    assert method.diagnostics.get("recoveries", 0) == naive.recoveries
    assert (naive.recoveries > 0) == (recover_below > 0)
    assert 0.1 < method.diagnostics["reliable_share"] < 0.9


def test_sam_steps_by_the_gradient_uphill_and_comes_back_first() -> None:
    """f = x^2 + 10 y at (3, 0): the gradient is (6, 10), so rho along it is at x = 3 + 6 rho / sqrt(136)."""
    x, y = nn.Parameter(torch.tensor(3.0)), nn.Parameter(torch.tensor(0.0))
    optimizer = torch.optim.SGD([x, y], lr=0.1)
    seen: list[float] = []

    def loss() -> Tensor:
        seen.append(x.item())
        return x * x + 10 * y

    assert sam_step(loss(), loss, optimizer, rho=2.0)
    up = 3 + 2 * 6 / math.sqrt(136)
    assert seen == [3.0, pytest.approx(up)]
    assert x.item() == pytest.approx(3 - 0.1 * 2 * up)
    assert y.item() == pytest.approx(-1.0)


def test_sam_without_a_loss_uphill_or_with_one_that_is_not_finite_changes_nothing() -> None:
    x = nn.Parameter(torch.tensor(3.0))
    optimizer = torch.optim.SGD([x], lr=0.1, momentum=0.9)
    assert not sam_step(x * x, lambda: None, optimizer, rho=2.0)
    assert not sam_step(x * x, lambda: x * float("nan"), optimizer, rho=2.0)
    assert not sam_step(x * float("inf"), lambda: x * float("inf"), optimizer, rho=2.0)
    assert x.item() == 3.0
    assert optimizer.state_dict()["state"] == {}
    with pytest.raises(RuntimeError, match="broken"):
        sam_step(x * x, broken, optimizer, rho=2.0)
    assert x.item() == 3.0
    with pytest.raises(ValueError, match="rho must be at least 0"):
        midway.SAR(tiny_network(), rho=-1)


def test_sam_comes_back_even_if_the_backward_pass_uphill_is_interrupted() -> None:
    x = nn.Parameter(torch.tensor(3.0))

    def interrupted() -> Tensor:
        there = x * x
        there.register_hook(stop)
        return there

    def stop(_: Tensor) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as held:  # as a notebook holds the last error
        sam_step(x * x, interrupted, torch.optim.SGD([x], lr=0.1), rho=2.0)
    assert held.value is not None
    assert x.item() == 3.0


def test_modules_to_leave_out_must_exist() -> None:
    with pytest.raises(TypeError, match=r"exclude must be a tuple of names, got '4': write \('4',\)"):
        midway.SAR(tiny_network(), exclude="4")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown module of the model '44'"):
        midway.SAR(tiny_network(), exclude=("44",))
    assert len(midway.SAR(tiny_network(), exclude=("4",)).optimizer.param_groups[0]["params"]) == 2


def broken() -> Tensor:
    raise RuntimeError("broken")


def test_a_recovery_clears_the_mean_and_the_momentum_and_is_counted(sharp_network: Network) -> None:
    method = midway.SAR(sharp_network(), lr=0.5, recover_below=100.0)
    fresh = midway.SAR(sharp_network(), lr=0.5, recover_below=100.0)
    first, second = batches(2)
    method(first)
    assert method.mean_loss is None
    assert method.diagnostics["recoveries"] == 1
    assert not method.optimizer.state
    assert torch.equal(method(second), fresh(second))
    assert method.diagnostics["recoveries"] == 2
    assert method.diagnostics["judged"] == 24  # what was recorded stays


def test_the_threshold_is_heeded_and_follows_the_number_of_classes(sharp_network: Network) -> None:
    stream = batches(4)
    never, always = (midway.SAR(sharp_network(), lr=0.05, recover_below=t) for t in (0.0, 100.0))
    for images in stream:
        never(images)
        always(images)
    assert "recoveries" not in never.diagnostics
    assert never.mean_loss is not None
    assert always.diagnostics["recoveries"] == 4
    for classes, expected in ((1000, 0.2), (10, 0.0667), (100, 0.1333)):
        method = midway.SAR(tiny_network(classes=classes))
        method(stream[0])
        assert method.hyperparameters["recover_below"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(64, 2.5e-4), (200, 2.5e-4), (32, 2.5e-4), (31, 5e-4 * 31 / 64), (2, 5e-4 / 32), (1, 1e-3 / 64)],
)
def test_the_step_size_of_residual_networks_is_constant_from_32_images_on(size: int, expected: float) -> None:
    assert published_lr(IMAGENET_SIZE._replace(batch_size=size)) == pytest.approx(expected, rel=1e-12)


def test_the_step_size_of_transformers_is_per_64_images() -> None:
    problems = [IMAGENET_SIZE._replace(batch_size=size, is_transformer=True) for size in (64, 16, 1)]
    assert [published_lr(problem) for problem in problems] == [1e-3, 2.5e-4, 1e-3 / 32]
    plain = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.LayerNorm(12), nn.Linear(12, 4))
    for method in (midway.SAR(plain, margin=2.0), midway.DeYO(plain, margin=2.0)):
        method(batches(1, size=16, side=128)[0])
        assert method.hyperparameters["lr"] == 2.5e-4
    given = midway.SAR(plain, margin=2.0, lr=0.5)
    given(batches(1, size=16, side=128)[0])
    assert given.hyperparameters["lr"] == 0.5


def test_the_step_size_is_the_papers_on_imagenet_size() -> None:
    method = midway.SAR(tiny_network(classes=1000), margin=2.0)
    assert "lr=None" in repr(method)
    method(batches(1, size=16, side=128)[0])
    assert method.hyperparameters["lr"] == pytest.approx(2.5e-4 / 2)
    assert method.optimizer.param_groups[0]["lr"] == method.hyperparameters["lr"]
    small = midway.SAR(tiny_network())
    small(batches(1)[0])
    assert small.hyperparameters["lr"] == 0.01
    assert midway.SAR.defaults_for(CIFAR_SIZE._replace(classes=100))["lr"] == 0.001


def test_networks_without_batch_statistics_answer_again_only_for_the_reliable(sharp_network: Network) -> None:
    sizes: list[int] = []
    method = midway.SAR(sharp_network(100, norm="group"))
    method.model.register_forward_hook(lambda _module, inputs, _output: sizes.append(len(inputs[0])))
    method(batches(1)[0])
    assert sizes[:3] == [2, 2, 12]  # the shape and the gradient are tried out, then the batch
    assert sizes[-1] == method.diagnostics["reliable"] < 12


def block(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(width, width, 1), nn.BatchNorm2d(width), nn.Conv2d(width, width, 1), nn.BatchNorm2d(width)
    )


def resnet(stages: int) -> nn.Module:
    layers = {f"layer{i + 1}": nn.Sequential(block(4), block(4)) for i in range(stages)}
    parts = {"conv1": nn.Conv2d(3, 4, 1), "bn1": nn.BatchNorm2d(4), **layers}
    tail = {"pool": nn.AdaptiveAvgPool2d(1), "flat": nn.Flatten(), "fc": nn.Linear(4, 4)}
    network = nn.Sequential()
    for name, module in (parts | tail).items():
        network.add_module(name, module)
    return network


def test_the_last_stage_of_deep_networks_stays() -> None:
    assert last_stage(resnet(4)) == ("layer4",)
    assert last_stage(nn.Sequential(nn.Identity(), resnet(4))) == ("1.layer4",)
    assert last_stage(resnet(3)) == ()
    assert last_stage(tiny_network()) == ()
    assert last_stage(midway.models.create("resnet20")) == ()
    assert last_stage(midway.models.load("wrn16_2.cifar10")) == ()
    method = midway.SAR(resnet(4).eval())
    assert "exclude=('layer4',)" in repr(method)
    moving = {name for name, p in method.model.named_parameters() if p.requires_grad}
    assert moving
    assert all(name.startswith(("bn1", "layer1", "layer2", "layer3")) for name in moving)
    everything = midway.SAR(resnet(4).eval(), exclude=())
    assert sum(p.requires_grad for p in everything.model.parameters()) == len(moving) + 8


def test_mistakes_are_refused() -> None:
    with pytest.raises(ValueError, match="leaves no normalisation layer to adapt"):
        midway.SAR(tiny_network(), exclude=("1", "4"))
    with pytest.raises(ValueError, match="margin must be above 0"):
        midway.SAR(tiny_network(), margin=0)
    with pytest.raises(ValueError, match="lr must be at least 0"):
        midway.SAR(tiny_network(), lr=-1)
    with pytest.raises(ValueError, match="rho must be at least 0"):
        midway.SAR(tiny_network(), rho=-0.1)
