"""DDA: the answer, its randomness, the denoisers it takes, and what it refuses."""

from __future__ import annotations

import copy
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.cost import measure_cost
from midway.methods.dda import DDA, ensemble_of
from midway.models import Denoiser
from midway.sampling.diffusion import Respaced, purify
from midway.testing import batches, tiny_network

IMAGES = batches(1, size=4)[0]
CHEAP: dict[str, Any] = {"respacing": 20, "steps": 2, "scale": 0.5}


def small_denoiser(channels: int = 3) -> Denoiser:
    torch.manual_seed(0)
    return Denoiser(channels=channels, widths=(8, 8), blocks=(1, 1))


def test_the_ensemble_by_hand() -> None:
    one, other = torch.tensor([[0.9, 0.1]]).log() + 3, torch.tensor([[0.2, 0.8]]).log() - 1
    assert ensemble_of([one, other], "probabilities").exp().tolist()[0] == pytest.approx([0.55, 0.45])
    mean = (math.log(0.9) + math.log(0.2)) / 2 + 1
    assert ensemble_of([one, other], "logits")[0, 0].item() == pytest.approx(mean)
    assert ensemble_of([other], "none").equal(other)


@pytest.mark.parametrize("ensemble", ["probabilities", "logits", "none"])
def test_the_answer_is_that_of_both_images(ensemble: Any) -> None:
    network, denoiser = tiny_network(), small_denoiser()
    method = DDA(network, denoiser=denoiser, ensemble=ensemble, **CHEAP)
    logits = method(IMAGES)
    generator = torch.Generator().manual_seed(0)
    noise = torch.stack([torch.randn(2, 3, 16, 16, generator=generator) for _ in IMAGES])
    schedule = Respaced.of(denoiser.alphas_cumprod, 20)
    predict = lambda noisy, t: (denoiser(noisy, t), None)  # noqa: E731
    adapted = purify(2 * IMAGES - 1, predict, schedule, noise, scale=0.5, factor=4) / 2 + 0.5
    torch.testing.assert_close(method.adapted_images, adapted)
    given, moved = network(IMAGES), network(adapted)
    expected = {
        "probabilities": ((given.softmax(1) + moved.softmax(1)) / 2).log(),
        "logits": (given + moved) / 2,
        "none": moved,
    }
    torch.testing.assert_close(logits, expected[ensemble], atol=1e-5, rtol=1e-5)


def test_splitting_a_stream_changes_nothing() -> None:
    whole, parts, few = (
        DDA(tiny_network(), denoiser=small_denoiser(), images_at_once=n, **CHEAP) for n in (None, 1, 3)
    )
    expected = whole(IMAGES)
    assert torch.cat([parts(IMAGES[:1]), parts(IMAGES[1:])]).allclose(expected, atol=1e-5)
    assert few(IMAGES).allclose(expected, atol=1e-5)


def test_the_noise_moves_on_and_depends_on_the_seed() -> None:
    method = DDA(tiny_network(), denoiser=small_denoiser(), **CHEAP)
    first = method(IMAGES)
    assert not method(IMAGES).equal(first)
    assert not DDA(tiny_network(), denoiser=small_denoiser(), seed=1, **CHEAP)(IMAGES).equal(first)
    assert DDA(tiny_network(), denoiser=small_denoiser(), **CHEAP)(IMAGES).equal(first)


class Unet(nn.Module):
    """Stands for ``diffusers.UNet2DModel``: it returns an object with the attribute ``sample``."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = small_denoiser()

    def forward(self, sample: Tensor, timestep: Tensor) -> Any:
        return SimpleNamespace(sample=self.inner(sample, timestep))


def test_pipelines_of_diffusers_and_functions_work_as_their_network() -> None:
    denoiser = small_denoiser()
    pipeline = SimpleNamespace(unet=Unet(), scheduler=SimpleNamespace(alphas_cumprod=denoiser.alphas_cumprod))
    expected = DDA(tiny_network(), denoiser=denoiser, **CHEAP)
    answers = expected(IMAGES)
    by_pipeline = DDA(tiny_network(), denoiser=pipeline, **CHEAP)
    assert by_pipeline(IMAGES).equal(answers)
    assert "denoiser=SimpleNamespace" in repr(by_pipeline)
    assert "denoiser=Denoiser," in repr(expected)
    assert DDA(tiny_network(), denoiser=lambda x, t: denoiser(x, t), schedule="cosine", **CHEAP)(IMAGES).equal(answers)


def test_the_given_denoiser_does_not_change() -> None:
    denoiser = small_denoiser().train()
    before = copy.deepcopy(denoiser.state_dict())
    DDA(tiny_network(), denoiser=denoiser, **CHEAP)(IMAGES)
    assert denoiser.training
    assert all(parameter.requires_grad and parameter.grad is None for parameter in denoiser.parameters())
    assert all(value.equal(before[key]) for key, value in denoiser.state_dict().items())


def test_networks_and_denoisers_may_have_other_precisions() -> None:
    expected = DDA(tiny_network(), denoiser=small_denoiser(), **CHEAP)(IMAGES)
    method = DDA(tiny_network().double(), denoiser=small_denoiser(), **CHEAP)
    assert method(IMAGES.double()).allclose(expected.double(), atol=1e-4)
    assert method.double()(IMAGES.double()).isfinite().all()
    coarse = DDA(tiny_network(), denoiser=small_denoiser().bfloat16(), **CHEAP)(IMAGES)
    assert coarse.allclose(expected, atol=0.05)
    assert not coarse.equal(expected)


def test_channels() -> None:
    grey = IMAGES[:, :1]
    assert DDA(tiny_network(channels=1), **CHEAP)(grey).isfinite().all()
    one = DDA(tiny_network(channels=1), denoiser=small_denoiser(channels=1), **CHEAP)
    assert one(grey).isfinite().all()
    with pytest.raises(ValueError, match="for images in colour or grey, got 2 channels: give a denoiser"):
        DDA(tiny_network(channels=2), **CHEAP)(IMAGES[:, :2])


def test_mirror_images_of_the_adapted_images_are_answered() -> None:
    method = DDA(tiny_network(), denoiser=small_denoiser(), ensemble="none", **CHEAP)
    answer = midway.Mirrored(method)(IMAGES)
    method(IMAGES)
    assert method.adapted_images is not None
    network = tiny_network()
    both = network(method.adapted_images).softmax(1) + network(method.adapted_images.flip(-1)).softmax(1)
    torch.testing.assert_close(answer, (both / 2).log(), atol=1e-5, rtol=1e-5)


def test_the_passes_of_the_denoiser_are_counted() -> None:
    method = DDA(tiny_network(), denoiser=small_denoiser(), respacing=20, steps=3, scale=1.0)
    cost = measure_cost(method, IMAGES, repeats=0)
    assert (cost.forward_passes, cost.backward_passes) == (3 + 2, 3)
    assert cost.trainable_parameters == 0
    unguided = DDA(tiny_network(), denoiser=small_denoiser(), respacing=20, steps=3, scale=0.0, ensemble="none")
    cost = measure_cost(unguided, IMAGES, repeats=0)
    assert (cost.forward_passes, cost.backward_passes) == (3 + 1, 0)


def test_settings_follow_the_size_of_the_images() -> None:
    method = DDA(tiny_network(), denoiser=small_denoiser())
    method(IMAGES)
    assert method.hyperparameters["steps"] < 50
    large = DDA.defaults_for(midway.adaptation.problem.IMAGENET_SIZE)
    assert large == {"respacing": 100, "steps": 50, "scale": 6.0}
    assert DDA.published == large | {"noise_level": "next"}


def test_the_published_start_has_the_noise_of_the_next_level() -> None:
    """A denoiser that finds no noise leaves what was mixed: the share of the image that the start keeps."""

    class Nothing(nn.Module):
        def forward(self, noisy: Tensor, level: Tensor) -> Tensor:
            seen.append(noisy.detach().clone())
            return torch.zeros_like(noisy)

    shares = torch.linspace(0.9, 0.1, 9)
    for noise_level, steps, share in (("first", 2, 0.7), ("next", 2, 0.5), ("next", 5, 0.1)):
        seen: list[Tensor] = []
        settings: dict[str, Any] = {"respacing": 5, "steps": steps, "scale": 0.0, "noise_level": noise_level}
        DDA(tiny_network(), denoiser=Nothing(), schedule=shares, **settings)(torch.zeros(1, 3, 8, 8))
        noise = torch.randn((steps, 3, 8, 8), generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(seen[0][0], -(share**0.5) + (1 - share) ** 0.5 * noise[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"denoiser": None}, 'denoiser must be .* or "cifar10" for the one in the package'),
        ({"denoiser": "cifar11"}, "unknown denoiser"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"respacing": 10, "steps": 11}, "steps must be at most respacing, 10, got 11"),
        ({"respacing": 1}, "respacing must be from 2"),
        ({"scale": -1.0}, "scale must be at least 0"),
        ({"noise_level": "last"}, "noise_level must be 'first' or 'next', got 'last'"),
        ({"factor": 0}, "factor must be at least 1"),
        ({"images_at_once": 0}, "images_at_once must be at least 1"),
        ({"ensemble": "mean"}, "ensemble must be 'probabilities', 'logits' or 'none'"),
        ({"schedule": "cubic"}, "unknown schedule 'cubic'"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DDA(tiny_network(), **settings)
