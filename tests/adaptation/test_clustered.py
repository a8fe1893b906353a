"""Clustered statistics: by definition, with and without memory, and under every method."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import midway
from midway.adaptation.batch_norm.cluster_mixture import KnownKinds, assign
from midway.adaptation.batch_norm.cluster_state import kinds_of, shares_of_images
from midway.adaptation.batch_norm.clustered import ClusteredBatchNorm, use_clustered_statistics
from midway.adaptation.batch_norm.spectra import spectra
from midway.bench.entries import Entry, parse_entries
from midway.testing import batches, tiny_network


def images_of(kinds: list[int], seed: int = 0, size: int = 16) -> Tensor:
    """Images of two kinds that are far apart: 0 are noisy, 1 are smooth, in the given order."""
    generator = torch.Generator().manual_seed(seed)
    noisy = torch.rand(len(kinds), 3, size, size, generator=generator)
    smooth = nn.functional.avg_pool2d(torch.rand(len(kinds), 3, size + 4, size + 4, generator=generator), 5, stride=1)
    smooth = (0.9 * smooth + 0.1 * noisy).clamp(0, 1)
    return torch.where(torch.tensor(kinds).view(-1, 1, 1, 1) == 0, noisy, smooth)


class Recorded(nn.Module):
    """A layer behind a hook that sees the images, and the values that enter and leave it."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, images: Tensor) -> Tensor:
        self.entered = (3 * images - 1).requires_grad_()
        self.left: Tensor = self.layer(self.entered)
        return self.left.flatten(1)


def layer_and_model(prior: float = 3.0, memory: bool = True) -> tuple[nn.Module, Recorded]:
    torch.manual_seed(0)
    layer = nn.BatchNorm2d(3)
    layer.running_mean, layer.running_var = torch.randn(3), torch.rand(3) + 0.5
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    model = Recorded(layer)
    assert use_clustered_statistics(model, memory=memory, prior=prior) == 1
    return layer, model


def by_definition(
    x: Tensor, kinds: list[int], layer: nn.Module, prior: float, earlier: dict[int, list[Tensor]] | None = None
) -> Tensor:
    """The formulas of the module's docstring, for kinds that are certain. ``earlier`` are values of earlier batches."""
    answers = []
    for own, kind in zip(x, kinds, strict=True):
        same = torch.stack([other for other, theirs in zip(x, kinds, strict=True) if theirs == kind])
        pixels = same.transpose(0, 1).flatten(1)
        mean, variance, images = pixels.mean(1), pixels.var(1, correction=0), len(same)
        if earlier and kind in earlier and images < 64:
            before = torch.stack(earlier[kind]).transpose(0, 1).flatten(1)
            used = min(len(earlier[kind]), 64 - images)
            share = used / (images + used)
            far = before.mean(1) - mean
            variance = (1 - share) * variance + share * before.var(1, correction=0) + share * (1 - share) * far**2
            mean, images = mean + share * far, images + used
        mean = (images * mean + prior * layer.source_mean) / (images + prior)
        variance = (images * variance + prior * layer.source_var) / (images + prior)
        normal = (own - mean[:, None, None]) / (variance[:, None, None] + layer.eps).sqrt()
        answers.append(normal * layer.weight[:, None, None] + layer.bias[:, None, None])
    return torch.stack(answers)


ALTERNATING = [i % 3 % 2 for i in range(90)]
"""60 images of kind 0 and 30 of kind 1."""


@pytest.mark.parametrize("prior", [0.0, 3.0, 50.0])
def test_values_and_gradients_are_those_of_the_definition(prior: float) -> None:
    layer, model = layer_and_model(prior)
    model(images_of(ALTERNATING))
    expected = by_definition(model.entered, ALTERNATING, layer, prior)
    torch.testing.assert_close(model.left, expected, rtol=1e-4, atol=1e-4)
    slope = torch.randn(model.left.shape)
    inputs = [model.entered, layer.weight, layer.bias]
    theirs = torch.autograd.grad(expected, inputs, slope)
    torch.testing.assert_close(torch.autograd.grad(model.left, inputs, slope), theirs, rtol=1e-3, atol=1e-3)


def test_a_rare_kind_is_normalised_with_its_images_of_earlier_batches() -> None:
    layer, model = layer_and_model()
    earlier: dict[int, list[Tensor]] = {}
    for number, kinds in enumerate([ALTERNATING, ALTERNATING[:9], [0] * 80 + [1] * 2, [1]]):
        model(images_of(kinds, seed=number))
        expected = by_definition(model.entered, kinds, layer, 3.0, earlier)
        torch.testing.assert_close(model.left, expected, rtol=1e-3, atol=2e-3)
        for value, kind in zip(model.entered.detach(), kinds, strict=True):
            earlier.setdefault(kind, []).append(value)
        if number == 2:  # the memory averages over 64 images: the next batch would weigh the oldest less
            break


def test_without_memory_a_batch_does_not_depend_on_earlier_ones() -> None:
    _, model = layer_and_model(memory=False)
    few = images_of([1, 0, 0], seed=5)
    before = model(few)
    model(images_of(ALTERNATING))
    torch.testing.assert_close(model(few), before, rtol=0, atol=0)
    _, remembers = layer_and_model()
    before = remembers(few)
    remembers(images_of(ALTERNATING))
    assert (remembers(few) - before).abs().max() > 0.01


def test_one_kind_gets_the_statistics_of_the_batch_up_to_the_prior() -> None:
    layer, model = layer_and_model(prior=0.0)
    model(images_of([0] * 100))
    by_batch = nn.functional.batch_norm(model.entered, None, None, layer.weight, layer.bias, training=True)
    torch.testing.assert_close(model.left, by_batch, rtol=1e-4, atol=1e-4)


def test_a_single_image_relies_on_the_source_by_three_quarters() -> None:
    layer, model = layer_and_model()
    model(images_of([0]))
    own = model.entered.flatten(2)
    mean = (own.mean(2) + 3 * layer.source_mean) / 4
    variance = (own.var(2, correction=0) + 3 * layer.source_var) / 4
    normal = (model.entered - mean[..., None, None]) / (variance[..., None, None] + layer.eps).sqrt()
    expected = normal * layer.weight[:, None, None] + layer.bias[:, None, None]
    torch.testing.assert_close(model.left, expected, rtol=1e-4, atol=1e-4)


def test_further_passes_over_a_batch_and_samples_of_the_model_do_not_change_the_memory() -> None:
    layer, model = layer_and_model()
    (kinds,) = kinds_of(model)
    kinds.managed = True
    images, samples = images_of(ALTERNATING), images_of([0, 1] * 45, seed=7)
    with kinds.during(images):
        first = model(images)
        memory = [buffer.clone() for buffer in model.buffers()]
        torch.testing.assert_close(model(images), first, rtol=0, atol=0)
        model(samples)  # their own kinds
        torch.testing.assert_close(
            model.left, by_definition(model.entered, [0, 1] * 45, layer, 3.0), rtol=1e-3, atol=1e-3
        )
        assert kinds.present is not kinds.batch
        for same in (images.flip(-1), (images + 0.02).clamp(0, 1)):  # mirrored, moved
            model(same)
            assert kinds.present is kinds.batch
    assert all(torch.equal(a, b) for a, b in zip(memory, model.buffers(), strict=True))
    assert kinds.of_images() == ALTERNATING


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 99), share=st.floats(0, 1))
def test_permuting_the_batch_permutes_the_answers(seed: int, share: float) -> None:
    kinds = [int(i < share * 90) for i in range(90)]
    order = torch.randperm(90, generator=torch.Generator().manual_seed(seed))
    images = images_of(kinds, seed)
    (_, one), (_, other) = layer_and_model(), layer_and_model()
    torch.testing.assert_close(other(images[order]), one(images)[order], rtol=1e-3, atol=1e-3)


def test_large_means_cost_no_digits_and_the_layout_does_not_matter() -> None:
    layer = nn.BatchNorm2d(3)
    use_clustered_statistics(layer, prior=0)
    x = torch.randn(40, 3, 5, 5)
    torch.testing.assert_close(layer(x + 1000), layer(x), rtol=0, atol=2e-2)
    torch.testing.assert_close(layer(x.contiguous(memory_format=torch.channels_last)), layer(x))


def test_flat_images_and_one_image_stay_finite() -> None:
    for images in (torch.zeros(70, 3, 8, 8), torch.ones(1, 3, 8, 8), torch.rand(70, 3, 8, 8)):
        adapted = midway.adapt(tiny_network(), "bn", statistics="clustered")
        for _ in range(3):
            assert adapted(images).isfinite().all()


def test_the_layer_keeps_its_place_and_a_copy_has_kinds_of_its_own() -> None:
    model = tiny_network().eval()
    before = dict(model.named_parameters())
    made = midway.clustered(model)
    layers = [module for module in made.modules() if isinstance(module, ClusteredBatchNorm)]
    assert layers
    assert dict(made.named_parameters()).keys() == before.keys()
    assert not any(isinstance(module, ClusteredBatchNorm) for module in model.modules())  # the given one is unchanged
    assert {id(layer.kinds) for layer in layers} == {id(kinds) for kinds in kinds_of(made)}
    other = [module for module in copy.deepcopy(made).modules() if isinstance(module, ClusteredBatchNorm)]
    assert {id(layer.kinds) for layer in other} == {id(other[0].kinds)} != {id(layers[0].kinds)}


def test_methods_say_which_image_is_of_which_kind() -> None:
    adapted = midway.adapt(tiny_network(), "tent", statistics="clustered")
    adapted(images_of(ALTERNATING))
    assert adapted.diagnostics["kinds"] == ALTERNATING
    assert adapted.diagnostics["num_kinds"] == 2
    assert adapted.diagnostics["outliers"] == 0
    adapted(images_of([0] * 50 + [1] + [0] * 49, seed=1))
    assert adapted.diagnostics["kinds"] == [0] * 50 + [1] + [0] * 49
    adapted.reset()
    lone = images_of([0] * 50 + [1] + [0] * 49, seed=1)
    adapted(lone)
    assert adapted.diagnostics["outliers"] == 1


def test_between_batches_the_network_answers_with_what_it_remembers_and_remembers_no_more() -> None:
    adapted = midway.adapt(tiny_network(), "bn", statistics="clustered")
    adapted(images_of(ALTERNATING))
    state = adapted.snapshot()["tensors"]
    following = images_of([1, 0, 1], seed=2)
    with torch.no_grad():
        by_itself, alone = adapted.model(following), midway.clustered(tiny_network())(following)
    torch.testing.assert_close(adapted.snapshot()["tensors"], state, rtol=0, atol=0)
    assert torch.equal(by_itself, adapted(following))
    assert not torch.allclose(by_itself, alone)


def test_kinds_are_the_same_under_autocast() -> None:
    images = images_of(ALTERNATING)
    plain = spectra(images)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(spectra(images), plain)
        reduced = assign(KnownKinds.none(), plain)[0].members
    assert torch.equal(reduced, assign(KnownKinds.none(), plain)[0].members)


def test_the_models_of_mita_share_their_kinds_and_have_memories_of_their_own() -> None:
    adapted = midway.adapt(tiny_network(), "mita", statistics="clustered")
    assert len(kinds_of(adapted)) == 1
    adapted(images_of(ALTERNATING))
    assert int(kinds_of(adapted)[0].filled) == 90
    memories = [dict(model.named_buffers()) for model in (adapted.model, adapted.data_model)]
    name = next(name for name in memories[0] if name.endswith("kind_mean"))
    assert memories[0][name] is not memories[1][name]
    assert all(memory[name].any() for memory in memories)


def test_models_without_batch_statistics_are_refused_with_a_reason() -> None:
    with pytest.raises(ValueError, match="no BatchNorm layer, so its images share no statistics"):
        midway.clustered(nn.Sequential(nn.Conv2d(3, 4, 1), nn.GroupNorm(2, 4)))
    with pytest.raises(ValueError, match="prior must be 0 or a number of images, got -1"):
        midway.clustered(tiny_network(), prior=-1)


def test_two_kinds_of_images_are_told_apart_by_a_network() -> None:
    network, images = tiny_network(), images_of(ALTERNATING)
    assert (midway.adapt(network, "bn", statistics="clustered")(images) - midway.BN(network)(images)).abs().max() > 0.01


CONTRACT = [check for check in midway.testing.CONTRACT if check is not midway.testing.check_every_norm_and_image_works]
BATCH_METHODS = ("tent", "mita")  # one network, and two with chains


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
def test_a_copy_carries_the_memory_and_not_the_last_batch(copied: Callable[[nn.Module], nn.Module]) -> None:
    model, images = midway.clustered(tiny_network()).eval(), images_of(ALTERNATING)
    model(images.flip(0))
    torch.testing.assert_close(copied(model)(images[:9]), model(images[:9]), rtol=0, atol=0)


def test_float64_is_exact_and_autocast_costs_no_more_than_in_batch_norm() -> None:
    torch.manual_seed(0)
    layer = nn.BatchNorm2d(3)
    use_clustered_statistics(layer)
    x = torch.randn(24, 3, 2, 2).double().requires_grad_()
    assert torch.autograd.gradcheck(layer.double(), (x,))

    layer.float()
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
    layer = nn.BatchNorm2d(3)
    use_clustered_statistics(layer, prior=0)
    with pytest.raises(ValueError, match=r"expected 3 channels in dimension 1, got images \(2, 1, 4, 4\)"):
        layer(torch.rand(2, 1, 4, 4))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        layer(torch.rand(1, 3, 1, 1))
    assert layer(torch.rand(0, 3, 4, 4)).shape == (0, 3, 4, 4)


def test_settings_are_part_of_the_state() -> None:
    model = midway.clustered(tiny_network(), prior=7)
    assert "statistics='clustered, prior 7'" in repr(midway.Tent(model))
    assert "statistics='clustered-batch'" in repr(midway.Tent(midway.clustered(tiny_network(), memory=False)))
    with pytest.raises(ValueError, match=r"the state is of statistics=.clustered, prior 7"):
        midway.Tent(midway.clustered(tiny_network())).load_state_dict(midway.Tent(model).state_dict())


def test_the_statistics_are_seen_and_states_do_not_mix() -> None:
    plain, clustered = (midway.adapt(tiny_network(), "tent", statistics=each) for each in (None, "clustered"))
    assert "statistics='clustered'" in repr(clustered)
    assert "statistics" not in repr(plain)
    with pytest.raises(ValueError, match="statistics"):
        clustered.load_state_dict(plain.state_dict())
    with pytest.raises(ValueError, match="statistics"):
        plain.load_state_dict(clustered.state_dict())


@pytest.mark.parametrize("name", ["memo", "dua"])
def test_methods_that_mix_in_the_source_refuse_them(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} mixes in the source's statistics in its own way"):
        midway.adapt(tiny_network(), name, statistics="clustered")


def test_bn_leaves_the_prior_to_them() -> None:
    with pytest.raises(ValueError, match=r"which clustered statistics do themselves: leave prior at 0"):
        midway.adapt(tiny_network(), "bn", statistics="clustered", prior=16)


def test_statistics_are_a_setting_of_every_method_in_plans_and_text() -> None:
    (entry,) = parse_entries('tent(statistics="clustered", label="tent_clustered")')
    assert entry.complete_settings(0)["statistics"] == "clustered"
    assert "statistics" not in Entry.make("tent", {"statistics": None}).complete_settings(0)
    with pytest.raises(ValueError, match=r"statistics must be 'clustered', 'clustered-batch', .* got 'bacth'"):
        Entry.make("tent", {"statistics": "bacth"})


def test_the_shares_of_images_are_those_of_their_kinds() -> None:
    torch.manual_seed(0)
    smooth = torch.rand(100, 3, 8, 8).repeat_interleave(4, 2).repeat_interleave(4, 3)
    images = torch.cat([torch.rand(100, 3, 32, 32), smooth])
    adapted = midway.BN(midway.clustered(midway.models.create("resnet20")))
    assert shares_of_images(adapted) is None
    adapted(images)
    shares, kinds = shares_of_images(adapted), torch.tensor(adapted.diagnostics["kinds"])
    assert shares is not None
    assert (kinds[:100] != kinds[100:]).all()
    torch.testing.assert_close(shares, torch.block_diag(torch.full((100, 100), 0.01), torch.full((100, 100), 0.01)))
    assert shares_of_images(midway.BN(midway.models.create("resnet20"))) is None
