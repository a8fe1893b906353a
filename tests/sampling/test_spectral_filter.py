"""The spectral filter: its definition and its purpose."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from plain_mita import weighed

import midway
from midway.sampling import SpectralFilter, langevin
from midway.sampling.spectral_filter import cosine_transform, natural_power


@pytest.mark.parametrize("shape", [(3, 3, 8, 8), (1, 1, 5, 7), (4, 3, 16, 12)])
def test_agrees_with_scipys_transform(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    images, gradient = (torch.rand(shape, generator=generator) for _ in range(2))
    images = 0.5 + (images - 0.5) * torch.linspace(0.05, 1, shape[3])
    torch.testing.assert_close(SpectralFilter(images)(gradient), weighed(gradient, images), rtol=1e-4, atol=1e-5)


def test_power_by_hand() -> None:
    # 2 x 2: frequencies (0, 1/2), (1/2, 0) and (1/2, 1/2) have 1/4, 1/4 and 1/2 below the bar: 4, 4 and 2, mean 2.5
    expected = torch.tensor([[4.0, 4.0], [4.0, 2.0]]) * 0.0625 / 2.5
    torch.testing.assert_close(natural_power(2, 2), expected)
    assert natural_power(1, 2)[0, 0] == natural_power(1, 2)[0, 1]


def test_strong_images_move_freely_and_faint_ones_in_proportion_to_their_power() -> None:
    generator = torch.Generator().manual_seed(0)
    loud = torch.randn(6, 3, 8, 8, generator=generator) * 5
    gradient = torch.randn(6, 3, 8, 8, generator=generator)
    torch.testing.assert_close(SpectralFilter(loud)(gradient), gradient, rtol=1e-4, atol=1e-5)
    faint = loud / 1e4
    torch.testing.assert_close(
        SpectralFilter(faint / 2)(gradient), SpectralFilter(faint)(gradient) / 4, rtol=1e-3, atol=1e-9
    )


def test_a_filter_on_the_images_changes_a_step_as_it_changes_the_images() -> None:
    """Where R is below 1, filtering the images by H and the energy's view of them by 1 / H filters the step by H."""
    generator = torch.Generator().manual_seed(0)
    transform = cosine_transform(8)
    gains = torch.rand(8, 8, generator=generator) * 0.9 + 0.1

    def filtered(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        return transform.T @ (transform @ x @ transform.T * by) @ transform

    images = torch.randn(4, 3, 8, 8, generator=generator) * 1e-2
    images = images - images.mean(dim=(2, 3), keepdim=True)
    target = torch.randn(4, 3, 8, 8, generator=generator)

    def energy(x: torch.Tensor) -> torch.Tensor:
        return (x * target).sum(dim=(1, 2, 3))

    moves = []
    for by in (torch.ones(8, 8), gains):
        seen = filtered(images, by)
        view = lambda x, by=by: energy(filtered(x, 1 / by))  # noqa: E731
        walk = langevin(view, seen, steps=1, step_size=1e-3, noise=0, gradient_filter=SpectralFilter(seen))
        moves.append(filtered(walk.images - seen, 1 / by))
    difference = transform @ (moves[0] - moves[1]) @ transform.T
    difference[..., 0, 0] = 0  # the mean has no power of its own
    assert difference.abs().max() < 1e-3 * moves[0].abs().max()


GRADIENT_FILTERS: tuple[Literal["spectral"] | None, ...] = ("spectral", None)


def test_low_contrast_and_blur_are_not_drowned() -> None:
    """Moved pixel by pixel, such images lose what the network sees in them."""
    model = midway.models.load("wrn16_2.cifar10")
    data = midway.data.load("cifar10-mini").first(100)
    for shift in ("contrast", "gaussian_blur"):
        stream = midway.streams.pure(data, shift, batch_size=100).cached()
        batch = midway.evaluate(midway.BN(model), stream).accuracy
        filtered, plain = (
            midway.evaluate(midway.MITA(model, gradient_filter=each, largest_decrease=None), stream).accuracy
            for each in GRADIENT_FILTERS
        )
        assert filtered > batch - 4
        assert plain < batch - 15


def test_each_kind_of_images_is_filtered_by_its_own_power() -> None:
    torch.manual_seed(0)
    noise, flat = torch.rand(3, 3, 8, 8), 0.5 + 0.01 * torch.rand(2, 3, 8, 8)
    images, gradient = torch.cat([noise, flat]), torch.rand(5, 3, 8, 8)
    members = torch.tensor([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 2)
    filtered = SpectralFilter(images, members @ (members / members.sum(dim=0)).T)(gradient)
    torch.testing.assert_close(filtered[:3], SpectralFilter(noise)(gradient[:3]))
    torch.testing.assert_close(filtered[3:], SpectralFilter(flat)(gradient[3:]))
    equal = SpectralFilter(images, torch.full((5, 5), 0.2))(gradient)
    torch.testing.assert_close(equal, SpectralFilter(images)(gradient))
