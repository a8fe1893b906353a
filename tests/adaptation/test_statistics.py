"""Other statistics of BatchNorm layers, alpha-BN and UnMix-TNS: by definition, as state, and under methods."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.adaptation.batch_norm.alpha import AlphaBatchNorm
from midway.adaptation.batch_norm.by_name import BY_NAME, with_statistics
from midway.adaptation.batch_norm.replaced_statistics import statistics_of
from midway.adaptation.batch_norm.statistics import use_batch_statistics
from midway.adaptation.batch_norm.unmix import UnmixBatchNorm
from midway.bench.code import modules_of_method
from midway.testing import batches, tiny_network


def batch_norm(channels: int = 3) -> nn.BatchNorm2d:
    torch.manual_seed(0)
    layer = nn.BatchNorm2d(channels)
    layer.running_mean, layer.running_var = torch.randn(channels), torch.rand(channels) + 0.5
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    return layer.eval()


def images(count: int = 6, channels: int = 3, seed: int = 0) -> Tensor:
    return 2 + 3 * torch.randn(count, channels, 4, 5, generator=torch.Generator().manual_seed(seed))


def normalised(x: Tensor, mean: Tensor, var: Tensor, layer: nn.Module) -> Tensor:
    """One image (C, H, W) in float64, with statistics (C,)."""
    flat = (x.double() - mean[:, None, None]) / (var[:, None, None] + layer.eps).sqrt()
    return flat * layer.weight.double()[:, None, None] + layer.bias.double()[:, None, None]


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_alpha_is_the_mixture_in_fixed_shares(share: float) -> None:
    layer, x = batch_norm(), images()
    values = x.double().transpose(0, 1).flatten(1)
    mean = (1 - share) * layer.running_mean.double() + share * values.mean(1)
    var = (1 - share) * layer.running_var.double() + share * values.var(1)  # unbiased
    expected = torch.stack([normalised(each, mean, var, layer) for each in x])
    torch.testing.assert_close(with_statistics(layer, "alpha", share=share)(x).double(), expected, rtol=1e-5, atol=1e-5)


def test_alpha_passes_no_gradient_through_the_statistics() -> None:
    layer, x = with_statistics(batch_norm(), "alpha"), images().requires_grad_()
    (slope,) = torch.autograd.grad(layer(x).sum(), [x])
    with torch.no_grad():
        var = 0.9 * layer.source_var + 0.1 * x.transpose(0, 1).flatten(1).var(1)
    expected = (layer.weight / (var + layer.eps).sqrt())[:, None, None].expand_as(x)
    torch.testing.assert_close(slope, expected)


def unmixed(
    x: Tensor, means: Tensor, variances: Tensor, layer: nn.Module, full_batch: int = 64
) -> tuple[Tensor, Tensor, Tensor]:
    """The formulas of the module's docstring image by image; also the components afterwards. All in float64."""
    answers, count = [], len(means)
    moved_mean, moved_var = torch.zeros_like(means), torch.zeros_like(variances)
    for image in x:
        own = image.double().flatten(1)
        m, v = own.mean(1), own.var(1, correction=0)
        cosines = torch.stack([m @ each / m.norm() / each.norm() for each in means])
        pi = (cosines / 0.07).softmax(0)
        a = torch.stack([(1 - p) * each + p * m for p, each in zip(pi, means, strict=True)])
        b = torch.stack([(1 - p) * each + p * v for p, each in zip(pi, variances, strict=True)])
        mean = a.sum(0) / count
        var = b.sum(0) / count + (a**2).sum(0) / count - mean**2
        answers.append(normalised(image, mean, var, layer))
        for k in range(count):
            moved_mean[k] += pi[k] * (m - means[k]) / len(x)
            moved_var[k] += pi[k] * (v - variances[k]) / len(x)
    step = 1 - 0.9 ** (len(x) / full_batch)
    return torch.stack(answers), means + step * moved_mean, variances + step * moved_var


@pytest.mark.parametrize("components", [1, 2, 16])
def test_unmix_is_its_definition_batch_after_batch(components: int) -> None:
    source = batch_norm()
    layer = with_statistics(source, "unmix", components=components)
    means, variances = layer.component_mean.double(), layer.component_var.double()
    for seed in range(3):
        x = images(seed=seed)
        expected, means, variances = unmixed(x, means, variances, source)
        torch.testing.assert_close(layer(x).double(), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(layer.component_mean.double(), means, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(layer.component_var.double(), variances, rtol=1e-5, atol=1e-5)


def test_unmix_moves_faster_on_images_of_imagenets_size_as_published() -> None:
    source, x = batch_norm(), torch.rand(2, 3, 128, 130, generator=torch.Generator().manual_seed(0))
    layer = with_statistics(source, "unmix", components=2)
    _, means, variances = unmixed(x, layer.component_mean.double(), layer.component_var.double(), source, full_batch=16)
    layer(x)
    torch.testing.assert_close(layer.component_mean.double(), means, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(layer.component_var.double(), variances, rtol=1e-5, atol=1e-5)


def test_unmix_starts_with_the_moments_of_the_source() -> None:
    source = batch_norm()
    one = with_statistics(source, "unmix", components=1)
    torch.testing.assert_close(one.component_mean[0], source.running_mean)
    torch.testing.assert_close(one.component_var[0], source.running_var)
    layer = with_statistics(source, "unmix", components=4000)
    torch.testing.assert_close(layer.component_mean.mean(0), source.running_mean, rtol=0, atol=0.05)
    total = layer.component_var.mean(0) + layer.component_mean.var(0, correction=0)
    torch.testing.assert_close(total, source.running_var, rtol=0.05, atol=0)
    layers = [with_statistics(source, "unmix", seed=seed) for seed in (0, 0, 1)]
    assert torch.equal(layers[0].component_mean, layers[1].component_mean)
    assert not torch.equal(layers[2].component_mean, layers[0].component_mean)


def test_unmix_gradients_are_exact() -> None:
    layer = with_statistics(batch_norm(), "unmix", components=4).double()
    layer.shared[0].managed = True  # gradcheck calls it often; the components must stay
    x = images(3).double().requires_grad_()
    pi = _matches(layer, x.detach())

    def constant_matches(x: Tensor) -> Tensor:
        return _with_matches(layer, x, pi)

    torch.testing.assert_close(layer(x), constant_matches(x))
    (ours,) = torch.autograd.grad(layer(x).square().sum(), [x])
    (theirs,) = torch.autograd.grad(constant_matches(x).square().sum(), [x])
    torch.testing.assert_close(ours, theirs)


def _matches(layer: nn.Module, x: Tensor) -> Tensor:
    cosines = nn.functional.cosine_similarity(x.mean((2, 3))[:, None], layer.component_mean[None], dim=2)
    return (cosines / 0.07).softmax(1)


def _with_matches(layer: nn.Module, x: Tensor, pi: Tensor) -> Tensor:
    m, v, pi = x.mean((2, 3))[:, None], x.var((2, 3), correction=0)[:, None], pi[..., None]
    a, b = (1 - pi) * layer.component_mean + pi * m, (1 - pi) * layer.component_var + pi * v
    mean = a.mean(1)
    var = b.mean(1) + a.square().mean(1) - mean.square()
    scale = layer.weight / (var + layer.eps).sqrt()
    return x * scale[..., None, None] + (layer.bias - mean * scale)[..., None, None]


def test_unmix_moves_once_per_batch_and_a_reset_brings_the_same_components_back() -> None:
    adapted = midway.adapt(tiny_network(), "tent", statistics="unmix")
    layer = next(each for each in adapted.modules() if isinstance(each, UnmixBatchNorm))
    start = layer.component_mean.clone()
    batch = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    first = adapted(batch)
    moved = layer.component_mean.clone()
    assert not torch.equal(moved, start)
    adapted.network_logits(batch)  # not part of a batch
    assert torch.equal(layer.component_mean, moved)
    adapted.reset()
    assert torch.equal(layer.component_mean, start)
    assert torch.equal(adapted(batch), first)
    alone = with_statistics(tiny_network(), "unmix")
    before = copy.deepcopy(alone.state_dict())
    alone(batch)
    assert any(not torch.equal(value, before[name]) for name, value in alone.state_dict().items())


@pytest.mark.parametrize("momentum", [0.01, None])
def test_unmix_has_the_momentum_of_the_layer(momentum: float | None) -> None:
    source, x = batch_norm(), images()
    source.momentum = momentum
    layer = with_statistics(source, "unmix", components=2)
    start = layer.component_mean.double()
    _, published, _ = unmixed(x, start, layer.component_var.double(), source)
    layer(x)
    share = 1.0 if momentum is None else (1 - 0.99 ** (len(x) / 64)) / (1 - 0.9 ** (len(x) / 64))
    torch.testing.assert_close(layer.component_mean.double(), start.lerp(published, share), rtol=1e-5, atol=1e-6)


def learnt(method: nn.Module) -> dict[str, torch.Tensor]:
    """What replaced statistics have learnt: components, or clusters and their statistics."""
    names = ("component_", "cluster_", "centres", "counts")
    return {key: value.clone() for key, value in method.state_dict().items() if any(name in key for name in names)}


@pytest.mark.parametrize("statistics", ["unmix", "clustered"])
@pytest.mark.parametrize("name", ["eata", "santa"])
def test_source_images_are_no_batch(name: str, statistics: str) -> None:
    """What is measured on source images in the constructor leaves the statistics as they were."""
    source, (batch,) = torch.rand(40, 3, 16, 16, generator=torch.Generator().manual_seed(1)), batches(1)
    given = {"eata": "fisher_images", "santa": "source_images"}[name]
    labels = {"source_labels": torch.arange(40) % 4} if name == "santa" else {}
    measured = midway.adapt(tiny_network(), name, statistics=statistics, **{given: source}, **labels)
    plain = midway.adapt(tiny_network(), name, statistics=statistics)
    for before, other in zip(learnt(plain.model).values(), learnt(measured.model).values(), strict=True):
        assert torch.equal(before, other)
    assert torch.equal(plain(batch), measured(batch))  # before the first update


@pytest.mark.parametrize("statistics", ["unmix", "clustered"])
def test_the_teacher_of_cotta_learns_from_each_batch(statistics: str) -> None:
    """Also if it predicts from augmented views alone."""
    method = midway.adapt(tiny_network(), "cotta", statistics=statistics, threshold=1.0, views=1)
    before = learnt(method.teacher)
    for batch in batches(2):
        method(batch)
    assert method.diagnostics["batches_with_views"] == 2
    assert all(not torch.equal(before[key], after) for key, after in learnt(method.teacher).items() if "_mean" in key)


AROUND_A_WINDOW: dict[str, Callable[[midway.AdaptiveClassifier], midway.AdaptiveClassifier]] = {
    "nothing": lambda method: midway.Window(method),
    "periodic": lambda method: midway.Periodic(midway.Window(method)),
    "mirrored views": lambda method: midway.Window(midway.Mirrored(method)),
}


@pytest.mark.parametrize("around", AROUND_A_WINDOW)
@pytest.mark.parametrize("statistics", ["unmix", "clustered"])
def test_the_window_is_the_batch_of_a_method_in_a_window(statistics: str, around: str) -> None:
    method = AROUND_A_WINDOW[around](midway.adapt(tiny_network(), "tent", statistics=statistics))
    stream = torch.rand(48, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    alone, states = [], [learnt(method)]
    for image in stream.split(1):
        alone.append(method(image))
        states.append(learnt(method))
    changes = [
        number
        for number, (before, after) in enumerate(pairwise(states), start=1)
        if any(not torch.equal(before[key], after[key]) for key in before)
    ]
    assert changes == [16, 32, 48]  # whenever the window is new
    method.reset()
    torch.testing.assert_close(method(stream), torch.cat(alone))
    for key, value in learnt(method).items():
        torch.testing.assert_close(value, states[-1][key])


@pytest.mark.parametrize("statistics", ["unmix", "clustered"])
def test_a_guard_that_accepts_a_suspicious_batch_learns_it_once(statistics: str) -> None:
    plain = midway.adapt(tiny_network(), "tent", statistics=statistics)
    suspicious = {"min_diversity": 0.0, "entropy_range": (0.0, 1e-9)}
    guarded = midway.Guarded(midway.adapt(tiny_network(), "tent", statistics=statistics), **suspicious)  # type: ignore[arg-type]
    for images in batches(3):
        assert torch.equal(guarded(images), plain(images))
        assert guarded.diagnostics == plain.diagnostics
        for key, value in learnt(plain).items():
            torch.testing.assert_close(learnt(guarded)[f"method.{key}"], value, rtol=0, atol=0)
    assert learnt(plain)


def test_the_observers_of_all_networks_of_a_method_are_told_of_its_batches() -> None:
    class Pair(midway.methods.Method):
        about = midway.methods.About("pair", "Pair", "-", "none", "nothing", "-", "2 F")

        def __init__(self, model: nn.Module) -> None:
            super().__init__(model)
            self.other = self.add_state("other", midway.clustered(tiny_network(seed=1)))

        def step(self, images: Tensor) -> Tensor:
            return self.network_logits(images) + self.other(images).detach()

    method = Pair(midway.clustered(tiny_network()))
    method(batches(1)[0])
    before = learnt(method)
    method.other(batches(2)[1])  # between batches
    assert before
    assert all(torch.equal(before[key], value) for key, value in learnt(method).items())


def test_layers_without_positions_or_running_statistics() -> None:
    model = nn.Sequential(nn.BatchNorm2d(3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.BatchNorm1d(3)).eval()
    unmix, alpha = with_statistics(model, "unmix"), with_statistics(model, "alpha")
    values = torch.rand(4, 3)
    torch.testing.assert_close(unmix[3](values), model[3](values))
    assert isinstance(alpha[3], AlphaBatchNorm)
    assert alpha(torch.rand(1, 3, 4, 4)).isfinite().all()
    for name in ("unmix", "alpha"):
        with pytest.raises(ValueError, match="no BatchNorm layer with running statistics"):
            with_statistics(nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False)), name)


def test_wrong_values_are_refused() -> None:
    with pytest.raises(ValueError, match="share must be from 0"):
        with_statistics(tiny_network(), "alpha", share=math.nan)
    with pytest.raises(ValueError, match="components must be at least 1, got 0"):
        with_statistics(tiny_network(), "unmix", components=0)
    with pytest.raises(ValueError, match="already has unmix statistics"):
        with_statistics(with_statistics(tiny_network(), "unmix"), "alpha")
    with pytest.raises(ValueError, match=r"statistics must be 'clustered', .* got 'beta'"):
        midway.adapt(tiny_network(), "bn", statistics="beta")
    with pytest.raises(ValueError, match="which alpha statistics do themselves: leave prior at 0"):
        midway.adapt(tiny_network(), "bn", statistics="alpha", prior=16)


@pytest.mark.parametrize("name", BY_NAME)
def test_names_describe_the_statistics_and_their_code(name: str) -> None:
    assert statistics_of(with_statistics(tiny_network(), name)) == name
    assert f"statistics='{name}'" in repr(midway.adapt(tiny_network(), "bn", statistics=name))
    modules = modules_of_method("bn", {"statistics": name})
    assert ("midway.adaptation.batch_norm.unmix" in modules) == name.startswith("unmix")


CONTRACT = [check for check in midway.testing.CONTRACT if check is not midway.testing.check_every_norm_and_image_works]


@pytest.mark.parametrize("statistics", ["alpha", "unmix"])
@pytest.mark.parametrize("name", ["bn", "tent"])
@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_the_contract_holds_with_them(name: str, statistics: str, check: Callable[..., None]) -> None:
    check(lambda model: midway.adapt(model, name, statistics=statistics))


def test_statistics_of_the_batch_in_evaluation_mode() -> None:
    layer = nn.BatchNorm1d(1).eval()
    assert use_batch_statistics(layer) == [layer]
    assert layer(torch.tensor([[3.0], [5.0]])).round().flatten().tolist() == [-1, 1]


@pytest.mark.parametrize("statistics", ["alpha", "unmix"])
def test_half_precision_layers_and_autocast(statistics: str) -> None:
    layer, x = with_statistics(batch_norm(), statistics), images()
    expected = copy.deepcopy(layer)(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert (copy.deepcopy(layer)(x.bfloat16()) - expected).abs().max() < 0.1
