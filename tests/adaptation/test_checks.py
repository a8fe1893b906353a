"""Settings, images and networks that no method can use are refused in one sentence with advice."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import midway
from midway.adaptation.checks import check_hyperparameters, check_images
from midway.testing import batches, tiny_network

IMAGES = batches(1)[0]


def test_hyperparameters_and_images() -> None:
    with pytest.raises(TypeError, match=r"lr must be a number, got '1e-3'\."):
        check_hyperparameters(midway.Tent, {"lr": "1e-3"})
    with pytest.raises(ValueError, match=r"images must have shape \(N, C, H, W\), got \(3, 32, 32\)"):
        check_images(torch.rand(3, 32, 32), nn.Flatten())


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("mita", {"adapt_data": "no"}, "adapt_data must be True or False, got 'no'"),
        ("tea", {"shared_pass": 1}, "shared_pass must be True or False, got 1"),
        ("tea", {"langevin_clip": -1.0}, r"langevin_clip must be above 0, or None, got -1\.0"),
        ("sar", {"momentum": 2.0}, "momentum must be at least 0 and below 1, got 2"),
        ("sar", {"exclude": 5}, "exclude must be a tuple of names, got 5"),
        ("tent", {"betas": 0.9}, r"betas must be two numbers, such as \(0\.9, 0\.999\), got 0\.9"),
        ("tent", {"betas": (0.9,)}, r"betas must be two numbers, .*got \(0\.9,\)"),
        ("tent", {"betas": (0.9, "1")}, "betas must be a number, got '1'"),
        ("tent", {"steps": None}, "steps must be a number, got None"),
    ],
)
def test_settings_of_the_wrong_type_are_refused(method: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        midway.adapt(tiny_network(), method, **settings)


def test_a_method_that_passes_its_settings_on_is_checked_too() -> None:
    class Slow(midway.Tent):
        def __init__(self, model: nn.Module, *, factor: float = 0.1, **settings: Any) -> None:
            super().__init__(model, **settings)

    assert Slow(tiny_network(), factor=0.5, predict="after").predict == "after"
    with pytest.raises(ValueError, match=r"predict must be 'before' or 'after', got 'never'\."):
        Slow(tiny_network(), predict="never")
    with pytest.raises(TypeError, match="factor must be a number, got 'a'"):
        Slow(tiny_network(), factor="a")


def test_names_of_other_libraries() -> None:
    with pytest.raises(TypeError, match="unknown hyper-parameter of tent 'learning_rate': did you mean 'lr'"):
        midway.adapt(tiny_network(), "tent", learning_rate=1e-3)
    with pytest.raises(TypeError) as error:
        midway.adapt(tiny_network(), "tent", device="cpu")
    assert "did you mean" not in str(error.value)


@pytest.mark.parametrize(
    ("images", "kind"),
    [
        (IMAGES.to_sparse(), "sparse_coo"),
        (torch.nested.nested_tensor([IMAGES[0], IMAGES[1]], layout=torch.jagged), "nested"),
    ],
)
def test_images_that_are_not_dense(images: Tensor, kind: str) -> None:
    with pytest.raises(TypeError, match=f"images must be a dense tensor, got a {kind} one: stack them"):
        midway.Tent(tiny_network())(images)


def test_volumes_are_refused_by_their_shape() -> None:
    network = nn.Sequential(
        nn.Conv3d(1, 2, 3), nn.BatchNorm3d(2), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(2, 3)
    )
    with pytest.raises(ValueError, match=r"images must have shape \(N, C, H, W\), got \(2, 1, 8, 8, 8\)"):
        midway.adapt(network, "tent")(torch.rand(2, 1, 8, 8, 8))


def test_grey_networks_and_coloured_images() -> None:
    with pytest.raises(ValueError, match=r"to a network of grey images give images.mean\(dim=1, keepdim=True\)"):
        midway.BN(tiny_network(channels=1))(batches(1)[0])
    with pytest.raises(ValueError, match=r"grey images as images\[:, None\]"):
        midway.BN(tiny_network(channels=1))(torch.rand(4, 8, 8))


def test_networks_without_values() -> None:
    with pytest.raises(TypeError, match="weights on the meta device, without values: load its weights"):
        midway.Tent(tiny_network().to("meta"))


class Raising(nn.Module):
    """Raises an error on every image."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.weight, self.error = nn.Parameter(torch.ones(1)), error

    def forward(self, images: Tensor) -> Tensor:
        raise self.error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyError("pixel_values"), "KeyError: 'pixel_values'"),
        (AssertionError(), "AssertionError"),
        (AttributeError("no head"), "AttributeError: no head"),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
    ],
)
def test_networks_that_raise(error: Exception, reason: str) -> None:
    with pytest.raises(ValueError, match=rf"does not accept images of shape \(12, 3, 16, 16\).*: {reason}$"):
        midway.Source(Raising(error))(IMAGES)


class LogProbabilities(nn.Module):
    """A network that ends in log_softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.network = tiny_network()

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images)
        return logits.log_softmax(dim=1)


@pytest.mark.parametrize("name", ["tea", "mita", "aea"])
def test_log_probabilities_have_no_energy(name: str) -> None:
    options: dict[str, Any] = {"head": "network.8"} if name == "aea" else {}
    method = midway.adapt(LogProbabilities(), name, **options)
    before = {key: value.clone() for key, value in method.model.state_dict().items()}
    with pytest.raises(ValueError, match=r"returns log-probabilities, whose energy is 0 for every image, .* adapts"):
        method(batches(1)[0])
    torch.testing.assert_close(dict(method.model.state_dict()), before)
    midway.adapt(LogProbabilities(), "tent")(batches(1)[0])  # entropies are right


class FunctionalNorm(nn.Module):
    """A network that reads the statistics of a BatchNorm layer in place of calling it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm2d(3), nn.Linear(3, 4)

    def forward(self, images: Tensor) -> Tensor:
        norm = self.norm
        normalised = F.batch_norm(images, norm.running_mean, norm.running_var, norm.weight, norm.bias)
        logits: Tensor = self.head(normalised.mean(dim=(2, 3)))
        return logits


def test_layers_that_are_not_called() -> None:
    with pytest.raises(
        ValueError, match="BatchNorm layers must be called as modules: methods replace their statistics"
    ):
        midway.Tent(FunctionalNorm())(batches(1)[0])


def test_the_default_device_must_have_values() -> None:
    network = tiny_network()
    method = midway.Tent(network)
    with torch.device("meta"), pytest.raises(ValueError, match=r"default device of torch is meta"):
        method(IMAGES)
    with torch.device("meta"), pytest.raises(ValueError, match=r"default device of torch is meta"):
        midway.Tent(network)
