"""Kindred statistics: by definition, at their limits, and under every method."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.adaptation.clustered import ClusteredBatchNorm, Similarity, distances_between, use_clustered_statistics
from midway.bench.entries import Entry, parse_entries
from midway.testing import batches, tiny_network

EPS = 1e-5


def distance(traits: Tensor, i: int, j: int) -> Tensor:
    """Between two images, channel by channel."""
    n, total = len(traits), torch.tensor(0.0)
    for channel in traits.T:
        spread = (channel - channel.mean()).square().mean().sqrt()
        if spread > 0:
            z = (channel - channel.mean()) / spread
            excess = math.log((z**4).mean().item() / 3)
            telling = (excess - 1 if excess > 0 else -excess) - math.sqrt(0.04 + 10 / n)
            total += max(0.0, telling) * (z[i] - z[j]) ** 2
    return total / traits.shape[1]


def by_definition(x: Tensor, layer: nn.Module, bandwidth: float, prior: float = 0) -> Tensor:
    """The formulas of the module's docstring, image by image."""
    pixels = x.flatten(2) if x.ndim > 2 else x[..., None]
    traits = (pixels.var(dim=2, correction=0) + EPS).log().detach()
    answers = []
    for i, own in enumerate(pixels):
        weights = torch.stack([(-distance(traits, i, j) / bandwidth).exp() for j in range(len(x))])
        weights = weights / weights.sum()
        mean = sum(w * other.mean(1) for w, other in zip(weights, pixels, strict=True))
        variance = sum(w * (other - mean[:, None]).square().mean(1) for w, other in zip(weights, pixels, strict=True))
        kin = 1 / weights.square().sum()
        mean = (kin * mean + prior * layer.source_mean) / (kin + prior)
        variance = (kin * variance + prior * layer.source_var) / (kin + prior)
        normal = (own - mean[:, None]) / (variance[:, None] + EPS).sqrt()
        answers.append((normal * layer.weight[:, None] + layer.bias[:, None]).view(x[i].shape))
    return torch.stack(answers)


def layer_of(kind: type[nn.Module], bandwidth: float, prior: float = 0) -> nn.Module:
    layer = kind(3)
    layer.running_mean, layer.running_var = torch.randn(3), torch.rand(3) + 0.5
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    assert use_clustered_statistics(layer, bandwidth, prior) == 1
    return layer


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (nn.BatchNorm1d, (5, 3)),  # no pixels, no traits: the batch's statistics
        (nn.BatchNorm1d, (30, 3, 7)),
        (nn.BatchNorm2d, (40, 3, 4, 5)),
        (nn.BatchNorm3d, (24, 3, 2, 3, 2)),
    ],
)
@pytest.mark.parametrize(("bandwidth", "prior"), [(0.1, 0), (0.1, 2.5), (0.5, 16)])
def test_values_and_gradients_are_those_of_the_definition(
    kind: type[nn.Module], shape: tuple[int, ...], bandwidth: float, prior: float
) -> None:
    torch.manual_seed(0)
    layer = layer_of(kind, bandwidth, prior)
    kinds = torch.where(torch.arange(shape[0]) % 3 > 0, 1.0, 6.0).view(-1, *[1] * (len(shape) - 1))
    x = torch.randn(shape) * kinds * (1 + torch.rand(*shape[:2], *[1] * (len(shape) - 2))) + 1
    x.requires_grad_()
    found, expected = layer(x), by_definition(x, layer, bandwidth, prior)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    slope = torch.randn(shape)
    inputs = [x, layer.weight, layer.bias]
    theirs = torch.autograd.grad(expected, inputs, slope)
    torch.testing.assert_close(torch.autograd.grad(found, inputs, slope), theirs, rtol=1e-3, atol=1e-4)


def test_the_weights_are_those_computed_by_hand() -> None:
    # twelve and twelve: z = -1 or 1, kurtosis 1; t = sqrt(0.04 + 10 / 24); a = ln 3 - t; d = 4 a between the two kinds
    traits = torch.tensor([0.0, 3.0]).repeat(12)[:, None]
    between = 4 * (math.log(3) - math.sqrt(0.04 + 10 / 24))
    far = math.exp(-between / 2)
    weights = Similarity(bandwidth=2.0).update(nn.Identity(), traits)
    torch.testing.assert_close(weights[0, :2], torch.tensor([1.0, far]) / (12 * (1 + far)))
    # one in forty: the outlier's z is sqrt 39, the others' -1 / sqrt 39; kurtosis (39 ** 2 + 1 / 39) / 40
    kurtosis = (39**2 + 39 / 39**2) / 40
    apart = (math.log(kurtosis / 3) - 1 - math.sqrt(0.04 + 0.25)) * (39**0.5 + 39**-0.5) ** 2
    traits = torch.zeros(40, 1)
    traits[7] = 1.0
    torch.testing.assert_close(distances_between(traits)[7, 3], torch.tensor(apart))


def test_images_of_one_kind_keep_the_statistics_of_the_batch() -> None:
    torch.manual_seed(0)
    layer = layer_of(nn.BatchNorm2d, 0.25)
    x = torch.randn(200, 3, 4, 4) * torch.randn(200, 3, 1, 1).exp()  # log variances are Gaussian
    by_batch = nn.functional.batch_norm(x, None, None, layer.weight, layer.bias, training=True)
    torch.testing.assert_close(layer(x), by_batch, rtol=1e-3, atol=1e-3)
    for few in (2, 3):
        by_batch = nn.functional.batch_norm(x[:few], None, None, layer.weight, layer.bias, training=True)
        torch.testing.assert_close(layer(x[:few]), by_batch, rtol=1e-3, atol=1e-3)


def test_distances_add_up_over_the_layers_and_a_new_pass_begins_anew() -> None:
    similarity, first, second = Similarity(1.0), nn.Identity(), nn.Identity()
    one, other = torch.randn(60, 2) ** 3, torch.randn(60, 3) ** 3
    alone = similarity.update(first, one)
    both = similarity.update(second, other)
    mean = (distances_between(one) + distances_between(other)) / 2
    torch.testing.assert_close(both, torch.softmax(-mean, dim=1))
    torch.testing.assert_close(similarity.update(first, one), alone, rtol=0, atol=0)
    torch.testing.assert_close(similarity.update(second, other), both, rtol=0, atol=0)
    assert similarity.update(second, other[:2]).shape == (2, 2)


def test_a_wide_reach_gives_batch_statistics_and_a_narrow_one_the_image_its_own() -> None:
    torch.manual_seed(0)
    x = torch.randn(40, 3, 6, 6) * (torch.arange(40.0) % 2 * 9 + torch.linspace(1, 2, 40)).view(40, 1, 1, 1)
    wide, narrow = layer_of(nn.BatchNorm2d, 1e6), layer_of(nn.BatchNorm2d, 1e-8)
    weight, bias = wide.weight, wide.bias
    by_batch = nn.functional.batch_norm(x, None, None, weight, bias, training=True)
    torch.testing.assert_close(wide(x), by_batch, rtol=1e-4, atol=1e-5)
    by_image = nn.functional.instance_norm(x, weight=narrow.weight, bias=narrow.bias)
    torch.testing.assert_close(narrow(x), by_image, rtol=1e-4, atol=1e-5)


def test_each_of_two_kinds_gets_its_own_statistics_and_so_does_an_outlier() -> None:
    torch.manual_seed(0)
    layer = nn.BatchNorm2d(8)
    use_clustered_statistics(layer, prior=0)
    calm, loud = torch.randn(60, 8, 16, 16), 30 * torch.randn(60, 8, 16, 16) + 5
    for some in (60, 1):
        answer = layer(torch.cat([calm, loud[:some]]))
        for part in (answer[:60], answer[60:]):
            assert part.mean().abs() < 0.05
            assert abs(part.std() - 1) < 0.05


def test_permuting_the_batch_permutes_the_answers_and_large_means_cost_no_digits() -> None:
    torch.manual_seed(0)
    layer = layer_of(nn.BatchNorm2d, 0.25)
    x = torch.randn(40, 3, 5, 5) * (torch.arange(40) % 2 + torch.rand(40)).view(40, 1, 1, 1)
    order = torch.randperm(40)
    torch.testing.assert_close(layer(x[order]), layer(x)[order], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(layer(x + 1000), layer(x), rtol=0, atol=2e-2)
    torch.testing.assert_close(layer(x.contiguous(memory_format=torch.channels_last)), layer(x))


def test_one_image_and_images_that_are_all_the_same_are_normalised_by_themselves() -> None:
    layer = nn.BatchNorm2d(3, affine=False)
    use_clustered_statistics(layer, prior=0)
    x = torch.randn(1, 3, 8, 8)
    torch.testing.assert_close(layer(x), nn.functional.instance_norm(x))
    torch.testing.assert_close(layer(x.expand(5, -1, -1, -1)), nn.functional.instance_norm(x).expand(5, -1, -1, -1))
    assert layer(torch.zeros(2, 3, 4, 4)).eq(0).all()


def test_the_layer_keeps_its_place_and_a_copy_has_a_similarity_of_its_own() -> None:
    model = tiny_network().eval()
    before = dict(model.named_parameters())
    made = midway.clustered(model)
    layers = [module for module in made.modules() if isinstance(module, ClusteredBatchNorm)]
    assert layers
    assert dict(made.named_parameters()).keys() == before.keys()
    assert not any(
        isinstance(module, ClusteredBatchNorm) for module in model.modules()
    )  # the model given is not changed
    assert {id(layer.similarity) for layer in layers} == {id(layers[0].similarity)}
    other = [module for module in copy.deepcopy(made).modules() if isinstance(module, ClusteredBatchNorm)]
    assert {id(layer.similarity) for layer in other} == {id(other[0].similarity)} != {id(layers[0].similarity)}


def test_an_image_without_kin_leans_on_the_source_and_one_with_many_does_not() -> None:
    torch.manual_seed(0)
    layer = nn.BatchNorm2d(8, affine=False)
    layer.running_mean, layer.running_var = torch.full((8,), -3.0), torch.full((8,), 4.0)
    source = copy.deepcopy(layer).eval()
    use_clustered_statistics(layer, prior=1e6)
    calm, loud = torch.randn(199, 8, 16, 16), 30 * torch.randn(1, 8, 16, 16) + 5
    torch.testing.assert_close(layer(torch.cat([calm, loud]))[-1:], source(loud), rtol=1e-2, atol=1e-2)
    layer.prior = 3.0
    answer = layer(torch.cat([calm, loud]))
    by_batch = (
        nn.functional.instance_norm(calm.transpose(0, 1).flatten(1)[None])[0].view(8, 199, 16, 16).transpose(0, 1)
    )
    assert (answer[:199] - by_batch).abs().mean() < 0.1  # three images beside two hundred
    own = loud.flatten(2)
    mean, variance = (own.mean(2) + 3 * -3) / 4, (own.var(2, correction=0) + 3 * 4) / 4  # one image beside three
    expected = (loud - mean[..., None, None]) / (variance[..., None, None] + EPS).sqrt()
    for found in (answer[-1:], layer(loud)):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


def test_models_without_batch_statistics_are_refused_with_a_reason() -> None:
    with pytest.raises(ValueError, match="no BatchNorm layer, so its images share no statistics"):
        midway.clustered(nn.Sequential(nn.Conv2d(3, 4, 1), nn.GroupNorm(2, 4)))
    with pytest.raises(ValueError, match="bandwidth must be above 0, got 0"):
        midway.clustered(tiny_network(), bandwidth=0)
    with pytest.raises(ValueError, match="prior must be 0 or a number of images, got -1"):
        midway.clustered(tiny_network(), prior=-1)


def two_kinds(n: int = 40) -> Tensor:
    """Images of which every third is much calmer than the rest."""
    torch.manual_seed(0)
    kinds = torch.where(torch.arange(n) % 3 > 0, 1.0, 0.1).view(-1, 1, 1, 1)
    return (0.5 + kinds * (torch.rand(n, 3, 8, 8) - 0.5)).clamp(0, 1)


def test_two_kinds_of_images_are_told_apart_by_a_network() -> None:
    network, images = tiny_network(), two_kinds()
    assert (midway.adapt(network, "bn", statistics="clustered")(images) - midway.BN(network)(images)).abs().max() > 0.01


CONTRACT = [check for check in midway.testing.CONTRACT if check is not midway.testing.check_every_norm_and_image_works]
BATCH_METHODS = [name for name in midway.methods.names() if not midway.methods.find(name).uses_source_statistics]


@pytest.mark.parametrize("name", BATCH_METHODS)
@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_every_method_keeps_its_contract_with_them(
    name: str, check: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_two_kinds(count: int = 3, **sizes: int) -> list[Tensor]:
        made = batches(count, **{"size": 40, **sizes})
        calm = torch.arange(len(made[0])) % 3 == 0
        return [torch.where(calm.view(-1, 1, 1, 1), 0.5 + (images - 0.5) / 20, images) for images in made]

    monkeypatch.setattr(midway.testing, "batches", of_two_kinds)
    check(lambda model: midway.adapt(model, name, statistics="clustered"))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])  # noqa: S301
def test_a_copy_does_not_carry_the_last_batch(copied: Callable[[nn.Module], nn.Module]) -> None:
    model, images = midway.clustered(tiny_network()), two_kinds()
    model(images.flip(0))
    torch.testing.assert_close(copied(model)(images), model(images), rtol=0, atol=0)


def test_float64_is_exact_and_autocast_costs_no_more_than_in_batch_norm() -> None:
    torch.manual_seed(0)
    layer = layer_of(nn.BatchNorm2d, 0.5).double()
    x = (torch.randn(24, 3, 2, 2) * torch.linspace(0.2, 5, 24).view(-1, 1, 1, 1)).double().requires_grad_()
    with torch.no_grad():
        assert layer(x).dtype == torch.float64
    # the weights of similarity count as constants, so numerical differences see more than the gradient: fix them
    kin = torch.softmax(torch.randn(24, 24).double(), dim=1)
    layer.similarity.update = lambda *_: kin  # type: ignore[method-assign]
    assert torch.autograd.gradcheck(layer, (x,))

    layer = layer_of(nn.BatchNorm2d, 0.25)
    x = torch.cat([torch.randn(30, 3, 8, 8), 20 + 5 * torch.randn(30, 3, 8, 8)])
    exact = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(layer(x), exact, rtol=0, atol=0)
        assert (layer(x.bfloat16()) - exact).abs().max() < 0.1


class WithActivation(nn.BatchNorm2d):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).relu()


def test_layers_that_compute_more_are_refused_before_anything_changes() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), WithActivation(4))
    with pytest.raises(ValueError, match="layer '2' is a WithActivation, which computes more than BatchNorm"):
        use_clustered_statistics(model)
    assert model[1].running_mean is not None


def test_layers_without_running_statistics_count_and_other_layers_are_left_alone() -> None:
    model = nn.Sequential(
        nn.BatchNorm2d(3, track_running_stats=False), nn.InstanceNorm2d(3, track_running_stats=True), nn.Flatten()
    )
    made = midway.clustered(model)
    assert isinstance(made[0], ClusteredBatchNorm)
    assert made[1].running_mean is not None
    with pytest.raises(ValueError, match="already has clustered statistics"):
        midway.clustered(made)
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, got int"):
        midway.clustered(3)  # type: ignore[arg-type]


def test_shapes_that_batch_norm_refuses_are_refused() -> None:
    layer = layer_of(nn.BatchNorm2d, 0.25)
    with pytest.raises(ValueError, match=r"expected 3 channels in dimension 1, got images \(2, 1, 4, 4\)"):
        layer(torch.rand(2, 1, 4, 4))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        layer(torch.rand(1, 3, 1, 1))
    assert layer(torch.rand(0, 3, 4, 4)).shape == (0, 3, 4, 4)


def test_kindred_twice_keeps_the_source_and_settings_are_part_of_the_state() -> None:
    model = tiny_network()
    before = [layer.running_mean for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    use_clustered_statistics(model)
    use_clustered_statistics(model, prior=7)
    layers = [layer for layer in model.modules() if isinstance(layer, ClusteredBatchNorm)]
    assert all(torch.equal(layer.source_mean, mean) for layer, mean in zip(layers, before, strict=True))  # type: ignore[arg-type]
    assert "statistics='clustered, bandwidth 0.25, prior 7'" in repr(midway.Tent(model))
    with pytest.raises(ValueError, match=r"the state is of statistics=.clustered, bandwidth 0\.25, prior 7"):
        midway.Tent(midway.clustered(tiny_network())).load_state_dict(midway.Tent(model).state_dict())


def test_the_statistics_are_seen_and_states_do_not_mix() -> None:
    plain, kindred = (midway.adapt(tiny_network(), "tent", statistics=each) for each in (None, "clustered"))
    assert "statistics='clustered'" in repr(kindred)
    assert "statistics" not in repr(plain)
    with pytest.raises(ValueError, match="statistics"):
        kindred.load_state_dict(plain.state_dict())
    with pytest.raises(ValueError, match="statistics"):
        plain.load_state_dict(kindred.state_dict())


@pytest.mark.parametrize("name", ["memo", "dua"])
def test_methods_that_mix_in_the_source_refuse_them(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} mixes in the source's statistics in its own way"):
        midway.adapt(tiny_network(), name, statistics="clustered")


def test_bn_leaves_the_prior_to_them() -> None:
    with pytest.raises(ValueError, match=r"which clustered statistics do themselves, .* leave prior at 0"):
        midway.adapt(tiny_network(), "bn", statistics="clustered", prior=16)


def test_statistics_are_a_setting_of_every_method_in_plans_and_text() -> None:
    (entry,) = parse_entries('tent(statistics="clustered", label="tent_clustered")')
    assert entry.complete_settings(0)["statistics"] == "clustered"
    assert "statistics" not in Entry.make("tent", {"statistics": None}).complete_settings(0)
    with pytest.raises(ValueError, match="statistics must be 'clustered', or None for the method's own, got 'bacth'"):
        Entry.make("tent", {"statistics": "bacth"})
