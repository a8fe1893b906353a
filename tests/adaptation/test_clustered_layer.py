"""Layers with clustered statistics: definition, gradients, shapes and precision."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import midway
from clustered_layers import ALTERNATING, by_definition, images_of, layer_and_model
from midway.adaptation.batch_norm.cluster_mixture import assign_clusters
from midway.adaptation.batch_norm.clustered import ClusteredBatchNorm, use_clustered_statistics
from midway.adaptation.batch_norm.gaussian_mixture import MixtureState
from midway.adaptation.batch_norm.spectra import spectra
from midway.testing import tiny_network


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


def test_kinds_are_the_same_under_autocast() -> None:
    images = images_of(ALTERNATING)
    plain = spectra(images)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(spectra(images), plain)
        reduced = assign_clusters(MixtureState.initial(), plain)[0].probabilities
    assert torch.equal(reduced, assign_clusters(MixtureState.initial(), plain)[0].probabilities)


def test_models_without_batch_statistics_are_refused_with_a_reason() -> None:
    with pytest.raises(ValueError, match="no BatchNorm layer, so its images share no statistics"):
        midway.clustered(nn.Sequential(nn.Conv2d(3, 4, 1), nn.GroupNorm(2, 4)))
    with pytest.raises(ValueError, match="prior must be 0 or a number of images, got -1"):
        midway.clustered(tiny_network(), prior=-1)


def test_two_kinds_of_images_are_told_apart_by_a_network() -> None:
    network, images = tiny_network(), images_of(ALTERNATING)
    assert (midway.adapt(network, "bn", statistics="clustered")(images) - midway.BN(network)(images)).abs().max() > 0.01


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


def test_an_adapted_network_is_refused() -> None:
    with pytest.raises(TypeError, match="model is already adapted by Tent: give the plain network"):
        midway.clustered(midway.Tent(tiny_network()))


def test_a_single_vector_relies_on_the_source() -> None:
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 8), torch.nn.BatchNorm1d(8)).eval()
    assert midway.adapt(network, "source", statistics="clustered")(torch.rand(1, 3, 16, 16)).isfinite().all()


def test_shapes_that_batch_norm_refuses_are_refused() -> None:
    layer = nn.BatchNorm2d(3)
    use_clustered_statistics(layer, prior=0)
    with pytest.raises(ValueError, match=r"expected 3 channels in dimension 1, got images \(2, 1, 4, 4\)"):
        layer(torch.rand(2, 1, 4, 4))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        layer(torch.rand(1, 3, 1, 1))
    assert layer(torch.rand(0, 3, 4, 4)).shape == (0, 3, 4, 4)
