"""The reverse steps of DDA against a naive second implementation, values by hand, and laws."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from midway.models import cosine_schedule, linear_schedule
from midway.sampling.diffusion import Predict, Respaced, low_pass, purify

SHARES = torch.tensor([0.9, 0.72, 0.504, 0.3024, 0.1512], dtype=torch.float64)  # alphas .9, .8, .7, .6, .5


def rand(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Guess(nn.Module):
    """A smooth network with weights of its own; with ``variances``, it predicts them in further channels."""

    def __init__(self, *, variances: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6 if variances else 3, 3, padding=1, dtype=torch.float64)
        with torch.no_grad():
            self.conv.weight.copy_(0.3 * randn(*self.conv.weight.shape, seed=5))
            self.conv.bias.copy_(0.1 * randn(*self.conv.bias.shape, seed=6))  # type: ignore[union-attr]
        self.variances = variances

    def forward(self, noisy: Tensor, t: Tensor) -> tuple[Tensor, Tensor | None]:
        output = torch.tanh(self.conv(noisy)) * (1 + 0.1 * t.double())[:, None, None, None]
        return (output[:, :3], torch.sigmoid(output[:, 3:])) if self.variances else (output, None)


def naive_purify(image: Tensor, network: Guess, noise: Tensor, levels: list[int], scale: float, factor: int) -> Tensor:
    """DDA from its description, for one image, with betas instead of shares and squares summed by hand."""
    shares = [float(SHARES[level]) for level in levels]
    betas = [1 - now / before for now, before in zip(shares, [1.0, *shares], strict=False)]
    side = image.shape[-1] // factor

    def coarse(x: Tensor) -> Tensor:
        small = nn.functional.interpolate(x[None], (side, side), mode="bicubic", antialias=True)
        return nn.functional.interpolate(small, x.shape[-2:], mode="bicubic", antialias=True)[0]

    x = math.sqrt(shares[-1]) * image + math.sqrt(1 - shares[-1]) * noise[0]
    for turn, i in enumerate(range(len(levels) - 1, -1, -1)):
        x = x.detach().requires_grad_()
        predicted, between = network(x[None], torch.tensor([levels[i]]))
        clean = torch.clamp((x - math.sqrt(1 - shares[i]) * predicted[0]) / math.sqrt(shares[i]), -1, 1)
        ((coarse(image) - coarse(clean)) ** 2).sum().sqrt().backward()
        assert x.grad is not None
        with torch.no_grad():
            before = shares[i - 1] if i else 1.0
            mean = (math.sqrt(before) * betas[i] * clean + math.sqrt(1 - betas[i]) * (1 - before) * x) / (1 - shares[i])
            if i == 0:
                x = mean - scale * x.grad
                continue
            smallest = betas[i] * (1 - before) / (1 - shares[i])
            deviation = torch.full_like(x, math.sqrt(smallest))
            if between is not None:
                deviation = (0.5 * (between[0] * math.log(betas[i]) + (1 - between[0]) * math.log(smallest))).exp()
            x = mean + deviation * noise[turn + 1] - scale * x.grad
    return x.clamp(-1, 1)


@pytest.mark.parametrize("variances", [False, True])
@pytest.mark.parametrize(("count", "steps"), [(5, 5), (5, 1), (3, 2)])
def test_the_steps_are_those_of_a_naive_implementation(count: int, steps: int, variances: bool) -> None:
    images, noise, network = 2 * rand(2, 3, 8, 8) - 1, randn(2, steps, 3, 8, 8), Guess(variances=variances)
    schedule = Respaced.of(SHARES, count)
    adapted = purify(images, network, schedule, noise, scale=0.7, factor=4)
    levels = {5: [0, 1, 2, 3, 4], 3: [0, 2, 4]}[count][:steps]
    naive = [naive_purify(*each, levels, 0.7, 4) for each in zip(images, [network] * 2, noise, strict=True)]
    torch.testing.assert_close(adapted, torch.stack(naive), rtol=1e-10, atol=1e-10)


def test_the_posterior_by_hand() -> None:
    schedule = Respaced.of(SHARES, 3)  # shares .9, .504, .1512
    assert schedule.levels == (0, 2, 4)
    beta = 1 - 0.504 / 0.9  # .44
    expected = (0.9**0.5 * beta / 0.496, (1 - beta) ** 0.5 * 0.1 / 0.496, beta * 0.1 / 0.496, beta)
    assert schedule.posterior(1) == pytest.approx(expected)
    assert schedule.posterior(0) == pytest.approx((1.0, 0.0, 0.0, 0.1))  # the last step returns the image


def test_respacing_as_published() -> None:
    levels = Respaced.of(linear_schedule(), 100).levels
    assert (levels[0], levels[1], levels[49], levels[99]) == (0, 10, 494, 999)
    for count in (1, 1001):
        with pytest.raises(ValueError, match="respacing must be from 2 to the 1000 noise levels"):
            Respaced.of(linear_schedule(), count)


def test_schedules_by_hand() -> None:
    assert float(linear_schedule()[0]) == pytest.approx(1 - 1e-4)
    assert float(linear_schedule()[1]) == pytest.approx((1 - 1e-4) * (1 - 1e-4 - 0.0199 / 999))
    angle = (0.5 + 0.008) / 1.008 * math.pi / 2
    start = 0.008 / 1.008 * math.pi / 2
    assert float(cosine_schedule()[499]) == pytest.approx((math.cos(angle) / math.cos(start)) ** 2)
    assert bool((cosine_schedule().diff() < 0).all() and (cosine_schedule() > 0).all())


def perfect(image: Tensor) -> Predict:
    """Return the network that knows the image."""

    def predict(noisy: Tensor, t: Tensor) -> tuple[Tensor, None]:
        share = SHARES[t][:, None, None, None]
        return (noisy - share.sqrt() * image) / (1 - share).sqrt(), None

    return predict


@given(seed=st.integers(0, 1000), steps=st.integers(1, 5), scale=st.sampled_from([0.0, 1.0, 6.0]))
def test_a_perfect_denoiser_returns_its_image(seed: int, steps: int, scale: float) -> None:
    image, noise = 1.8 * rand(1, 3, 8, 8, seed=seed) - 0.9, randn(1, steps, 3, 8, 8, seed=seed)
    adapted = purify(image, perfect(image), Respaced.of(SHARES, 5), noise, scale=scale, factor=4)
    # The guidance is a subgradient at distance 0: where rounding leaves a distance, it moves by its own length.
    if scale == 0:
        torch.testing.assert_close(adapted, image, atol=1e-9, rtol=0)
    else:
        assert (adapted - image).norm() <= 1.01 * scale / 0.9**0.5


def test_guidance_keeps_the_coarse_structures() -> None:
    """A network that knows another image replaces all; with guidance the low-pass filter of the result comes back."""
    image, other = 1.6 * rand(1, 3, 8, 8) - 0.8, 1.6 * rand(1, 3, 8, 8, seed=1) - 0.8

    def predict(noisy: Tensor, t: Tensor) -> tuple[Tensor, None]:
        share = SHARES[t][:, None, None, None]
        guess = 0.5 * other + 0.5 * noisy  # the gradient passes through the part that follows the noisy image
        return (noisy - share.sqrt() * guess) / (1 - share).sqrt(), None

    noise, schedule = randn(1, 5, 3, 8, 8), Respaced.of(SHARES, 5)
    distances = []
    for scale in (0.0, 0.5, 1.5):
        adapted = purify(image, predict, schedule, noise, scale=scale, factor=4)
        distances.append(float((low_pass(adapted, 4) - low_pass(image, 4)).norm()))
    assert distances[0] > distances[1] > distances[2]
    assert distances[2] < 0.7 * distances[0]


def test_images_do_not_affect_each_other() -> None:
    images, noise, schedule = 2 * rand(3, 3, 8, 8) - 1, randn(3, 4, 3, 8, 8), Respaced.of(SHARES, 5)
    together = purify(images, Guess(), schedule, noise, scale=2.0, factor=2)
    alone = [purify(images[i : i + 1], Guess(), schedule, noise[i : i + 1], scale=2.0, factor=2) for i in range(3)]
    torch.testing.assert_close(together, torch.cat(alone))


def test_the_low_pass_filter_keeps_means_and_removes_details() -> None:
    flat = torch.full((1, 3, 9, 7), 0.4, dtype=torch.float64)
    torch.testing.assert_close(low_pass(flat, 4), flat)
    images = rand(2, 3, 32, 32)
    assert low_pass(images, 1).allclose(images)
    stds = [float(low_pass(images, factor).std()) for factor in (1, 2, 4, 8)]
    assert stds == sorted(stds, reverse=True)


def test_without_guidance_there_is_no_gradient() -> None:
    def predict(noisy: Tensor, t: Tensor) -> tuple[Tensor, None]:
        assert not torch.is_grad_enabled()
        return noisy, None

    purify(rand(1, 3, 8, 8), predict, Respaced.of(SHARES, 5), randn(1, 2, 3, 8, 8), scale=0.0, factor=4)
