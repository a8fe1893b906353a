from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.adaptation.batch_norm.statistics import use_batch_statistics
from midway.testing import batches, tiny_network


def naive_batch_norm(x: Tensor, layer: nn.BatchNorm2d, prior: float) -> Tensor:
    """The formula, channel by channel: N/(N+n) of the source's moments, n/(N+n) of the batch's."""
    out = torch.empty_like(x)
    assert layer.running_mean is not None
    assert layer.running_var is not None
    share = prior / (prior + len(x))
    for channel in range(x.shape[1]):
        values = x[:, channel].flatten().tolist()
        mean = sum(values) / len(values)
        var = sum((value - mean) ** 2 for value in values) / (
            len(values) - (1 if prior else 0)
        )  # unbiased in a mixture
        mean = share * layer.running_mean[channel].item() + (1 - share) * mean
        var = share * layer.running_var[channel].item() + (1 - share) * var
        scale, shift = layer.weight[channel].item(), layer.bias[channel].item()
        out[:, channel] = (x[:, channel] - mean) / (var + layer.eps) ** 0.5 * scale + shift
    return out


@pytest.mark.parametrize("prior", [0, 1, 16])
def test_statistics_follow_the_formula(prior: float) -> None:
    network = tiny_network()
    images = batches(1)[0]
    x = images
    with torch.no_grad():
        for module in network.children():  # type: ignore[assignment]
            x = naive_batch_norm(x, module, prior) if isinstance(module, nn.BatchNorm2d) else module(x)
    torch.testing.assert_close(midway.BN(network, prior=prior)(images), x, rtol=1e-4, atol=1e-4)


def test_a_huge_prior_is_the_source_and_a_tiny_one_is_the_batch() -> None:
    network, images = tiny_network(), batches(1)[0]
    source, batch = midway.Source(network)(images), midway.BN(network)(images)
    torch.testing.assert_close(midway.BN(network, prior=1e12)(images), source)
    tiny = midway.BN(network, prior=1e-9)(images)  # the variance is the unbiased one: 3,072 and 768 values a channel
    torch.testing.assert_close(tiny, batch, rtol=1e-2, atol=1e-2)
    assert not torch.allclose(source, batch, atol=1e-2)


def test_a_mixture_by_hand_and_of_a_single_value() -> None:
    """Values .1 and .3: mean .2, unbiased variance .02; with the source (0, 1) at half weight mean .1, variance .51."""
    network = nn.Sequential(nn.BatchNorm2d(2, eps=0), nn.Flatten()).eval()
    images = torch.tensor([[0.1, 0.1], [0.3, 0.3]]).view(2, 2, 1, 1)
    expected = (images.flatten(1) - 0.1) / (0.5 + 0.5 * 0.02) ** 0.5
    torch.testing.assert_close(midway.BN(network, prior=2)(images), expected)
    single = midway.BN(network, prior=1)(torch.full((1, 2, 1, 1), 0.4))  # its variance is 0, not undefined
    torch.testing.assert_close(single, torch.full((1, 2), 0.2 / 0.5**0.5))


def test_networks_without_running_statistics_earn_a_warning() -> None:
    with pytest.warns(UserWarning, match="BN changes nothing"):
        method = midway.BN(tiny_network("group"))
    images = batches(1)[0]
    assert torch.equal(method(images), midway.Source(tiny_network("group"))(images))


def test_a_prior_needs_statistics_to_mix_in() -> None:
    network = nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False), nn.Flatten())
    with pytest.raises(ValueError, match="its BatchNorm layers have no running statistics: leave prior at 0"):
        midway.BN(network, prior=16)
    with pytest.raises(ValueError, match="which clustered statistics do themselves"):
        midway.BN(midway.clustered(tiny_network()), prior=16)


def test_negative_prior_is_refused() -> None:
    with pytest.raises(ValueError, match="prior must be at least 0, got -1"):
        midway.BN(tiny_network(), prior=-1)


def test_a_failing_forward_puts_the_source_statistics_back() -> None:
    method = midway.BN(tiny_network(), prior=16)
    before = {key: value.clone() for key, value in method.model.state_dict().items()}
    first = next(module for module in method.model.modules() if isinstance(module, nn.BatchNorm2d))
    first.weight = None  # type: ignore[assignment]
    first.bias = nn.Parameter(torch.zeros(99), requires_grad=False)
    with pytest.raises(ValueError, match="does not accept images"):
        method(batches(1)[0])
    assert torch.equal(method.model.state_dict()["1.running_mean"], before["1.running_mean"])


def test_instance_norm_loses_its_running_statistics() -> None:
    layer = nn.InstanceNorm2d(2, affine=True, track_running_stats=True).eval()
    x = torch.rand(3, 2, 5, 5) * 4 + 2
    assert use_batch_statistics(layer) == [layer]
    torch.testing.assert_close(layer(x).mean(dim=(2, 3)), torch.zeros(3, 2), atol=1e-5, rtol=0)
