"""Clusters of images: spectra and the mixture fitted to them, by definition, by laws, and on real corruptions."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.fft import dctn
from scipy.stats import multivariate_normal
from torch import Tensor, nn

import midway
from midway.adaptation.batch_norm.cluster_mixture import RECENT, Assignment, assign_clusters, mix_clusters
from midway.adaptation.batch_norm.gaussian_mixture import MAX_CLUSTERS, GaussianMixture, MixtureState
from midway.adaptation.batch_norm.spectra import BANDS, FEATURES, log_kurtosis, spectra
from midway.adaptation.batch_norm.split_test import LEANING, shrunk, two_parts


def naive_spectrum(image: Tensor) -> list[float]:
    """One image, one frequency at a time."""
    channels, height, width = image.shape
    mean = image.numpy().mean(axis=0)
    planes = [mean, image[0].numpy() - mean, image[channels - 1].numpy() - mean]
    values = []
    for plane in planes:
        power = dctn(plane, norm="ortho") ** 2
        for low, high in pairwise(BANDS):
            inside = [
                power[i, j]
                for i in range(height)
                for j in range(width)
                if low <= np.hypot(i * 32 / height, j * 32 / width) < high
            ]
            values.append(np.log((np.mean(inside) if inside else 0) + 1e-6))
    return [*values, naive_log_kurtosis(mean.tolist())]


def naive_log_kurtosis(plane: list[list[float]]) -> float:
    """One pixel at a time; a neighbour beyond the border is the pixel itself."""
    height, width = len(plane), len(plane[0])
    details = []
    for i in range(height):
        for j in range(width):
            steps = ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1))
            near = [plane[min(max(a, 0), height - 1)][min(max(b, 0), width - 1)] for a, b in steps]
            details.append(plane[i][j] - sum(near) / 4)
    variance = sum(each**2 for each in details) / len(details)
    fourth = sum(each**4 for each in details) / len(details)
    return float(np.log(fourth / (variance + 1e-7) ** 2 + 0.1))


def test_the_kurtosis_of_one_bright_pixel() -> None:
    plane = torch.zeros(1, 1, 5, 5)
    plane[0, 0, 2, 2] = 1  # differences: 1 once, -1/4 four times, 0 twenty times
    variance, fourth = (1 + 4 / 16) / 25, (1 + 4 / 256) / 25
    assert log_kurtosis(plane).item() == pytest.approx(math.log(fourth / variance**2 + 0.1), rel=1e-4)
    assert log_kurtosis(plane * 0).item() == pytest.approx(math.log(0.1))


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (2, 8, 8), (4, 20, 33), (3, 64, 48)])
def test_spectra_are_those_of_the_definition(shape: tuple[int, ...]) -> None:
    images = torch.rand(3, *shape, generator=torch.Generator().manual_seed(0))
    expected = torch.tensor([naive_spectrum(image) for image in images], dtype=torch.float32)
    torch.testing.assert_close(spectra(images), expected, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(spectra(images.flip(-1)), spectra(images), rtol=1e-4, atol=1e-4)  # mirrored
    assert spectra(images[..., 0]).shape == (3, FEATURES)  # signals


def gaussian(n: int, centre: float = 0.0, seed: int = 0, width: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return centre + width * torch.randn(n, FEATURES, generator=generator, dtype=torch.float64)


def clusters(found: Assignment) -> list[int]:
    return found.probabilities.argmax(dim=1).tolist()


def mixture_of(spectra: Tensor) -> GaussianMixture:
    mixture = GaussianMixture(MixtureState.initial(), spectra, len(spectra))
    mixture.run_em()
    return mixture


def test_the_probabilities_are_those_of_a_mixture_of_gaussians() -> None:
    x = torch.cat([gaussian(60), gaussian(60, 1.0, seed=1)])
    mixture = mixture_of(x)
    mixture.centres[:2], mixture.counts[:2] = torch.stack([x[:60].mean(0), x[60:].mean(0)]), torch.tensor([90.0, 30.0])
    gaussians = [multivariate_normal(mixture.centres[k], mixture.covariance) for k in (0, 1)]
    density = [share * gaussian.pdf(x) for share, gaussian in zip((0.75, 0.25), gaussians, strict=True)]
    expected = torch.as_tensor(np.stack(density, axis=1) / np.sum(density, axis=0)[:, None])
    mixture.update_probabilities()
    torch.testing.assert_close(mixture.probabilities[:, :2], expected, rtol=1e-6, atol=1e-9)


def test_the_covariance_is_shrunk_as_written() -> None:
    plain = gaussian(50).T @ gaussian(50)
    found = shrunk(plain, 50)
    for i in range(FEATURES):
        for j in range(FEATURES):
            expected = (plain[i, i] + 2) / 52 + 0.1 if i == j else plain[i, j] / 50 * (1 - 31 / 81)
            assert found[i, j] == pytest.approx(float(expected))


def test_two_parts_have_the_distance_that_labels_give() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, FEATURES, generator=generator, dtype=torch.float64)
    x[200:, 0] += 9  # a third of the cluster is different
    of_all = (gaussian(700, seed=1).T @ gaussian(700, seed=1) + (x - x.mean(0)).T @ (x - x.mean(0))) / 1000
    excess, part = two_parts(x, of_all, total=1000)
    assert ((part > 0.5) == (torch.arange(300) >= 200)).float().mean() > 0.99
    p = float(part.mean())
    one, other = (weights @ x / weights.sum() for weights in (part, 1 - part))
    between = p * (1 - p) * torch.outer(one - other, one - other)
    own = (x - x.mean(0)).T @ (x - x.mean(0)) / 300
    within = (300 * (own - between) + LEANING * (of_all - 0.3 * between)) / (300 + LEANING)
    distance = (one - other) @ torch.linalg.inv(within) @ (one - other)
    assert excess == pytest.approx(float(distance) * p * (1 - p) - (4 + 200 / 300), rel=1e-2)


def test_a_wide_cluster_beside_a_narrow_one_stays_one() -> None:
    state = MixtureState.initial()
    for seed in range(5):
        narrow, wide = gaussian(200, seed=100 + seed, width=0.2), gaussian(200, 4.0, seed=seed, width=2.0)
        found, state = assign_clusters(state, torch.cat([narrow, wide]))
        weights = found.probabilities @ found.mixing
        together = weights @ weights.T  # whether two images share statistics
        assert together[:200, 200:].max() < 0.01
        assert min(together[:200, :200].mean(), together[200:, 200:].mean()) > 0.9


def test_several_clusters_are_found_and_keep_their_numbers() -> None:
    def batch(seed: int) -> Tensor:
        parts = [gaussian(50, seed=seed + i) for i in range(4)]
        for part, features in zip(parts[1:], (slice(0, 10), slice(10, 20), slice(20, 30)), strict=True):
            part[:, features] += 5
        return torch.cat(parts)

    state, numbers = MixtureState.initial(), []
    for seed in range(0, 40, 10):
        found, state = assign_clusters(state, batch(seed))
        assert [len(set(clusters(found)[start : start + 50])) for start in range(0, 200, 50)] == [1] * 4
        numbers.append([clusters(found)[start] for start in range(0, 200, 50)])
    assert len(set(numbers[0])) == 4
    assert numbers[1:] == [numbers[0]] * 3
    assert sorted(state.counts[state.counts > 0].tolist()) == pytest.approx([196.0] * 4, abs=4)


def test_a_lone_outlier_is_found_and_recognised_when_its_cluster_returns() -> None:
    state, own = MixtureState.initial(), []
    for seed in range(4):
        batch = gaussian(200, seed=seed)
        batch[17] += 6
        found, state = assign_clusters(state, batch)
        assert found.outliers.nonzero().flatten().tolist() == [17]
        own.append(clusters(found)[17])
    assert len(set(own)) == 1
    assert state.counts[own[0]] == pytest.approx(4, abs=0.2)
    assert found.mixing[own[0], own[0]] > 0.9


def test_one_cluster_stays_one_and_clusters_that_are_gone_are_forgotten() -> None:
    state = MixtureState.initial()
    for seed in range(6):
        found, state = assign_clusters(state, gaussian(200, seed=seed))
        assert set(clusters(found)) == {0}
    assert len(state.recent) == RECENT
    state.counts[5] = 0.5
    state.centres[5] = 9.0
    for seed in range(30):
        found, state = assign_clusters(state, gaussian(200, seed=seed))
    assert state.counts[5] == 0


def test_memory_moves_with_the_clusters() -> None:
    found, state = assign_clusters(MixtureState.initial(), torch.cat([gaussian(100), gaussian(100, 5.0, seed=1)]))
    assert set(clusters(found)) == {0, 1}
    assert found.origins[:2].sum() == 0  # split: both start without memory
    state.centres[1], state.recent = state.centres[0] + 0.01, state.recent[:0]
    merged, state = assign_clusters(state, gaussian(20, seed=2))
    united = int(state.counts[1] > 0)
    assert merged.origins[united, :2].tolist() == [1, 1]
    assert merged.origins[1 - united].sum() == 0


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), n=st.integers(1, 150), second=st.integers(0, 80), distance=st.floats(0, 30))
def test_permuting_a_batch_permutes_its_clusters(seed: int, n: int, second: int, distance: float) -> None:
    batch = torch.cat([gaussian(n, seed=seed), gaussian(second, distance, seed=seed + 1)])
    order = torch.randperm(len(batch), generator=torch.Generator().manual_seed(seed))
    found, other = (assign_clusters(MixtureState.initial(), each)[0] for each in (batch, batch[order]))
    weights, others = (each.probabilities @ each.mixing for each in (found, other))
    same, also = weights @ weights.T, others @ others.T  # whether two images share statistics, whatever the numbers
    torch.testing.assert_close(also, same[order][:, order], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(found.probabilities.sum(dim=1), torch.ones(len(batch), dtype=torch.float64))
    torch.testing.assert_close(found.mixing.sum(dim=1), torch.ones(MAX_CLUSTERS, dtype=torch.float64))


def test_duplicates_constant_images_and_noise_do_not_split() -> None:
    copies = spectra(torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))).repeat(60, 1)
    flat = spectra(torch.full((100, 3, 32, 32), 0.5))
    noise = spectra(torch.rand(100, 3, 32, 32, generator=torch.Generator().manual_seed(0)))
    for batch in (copies, flat, noise, flat[:1], noise[:2]):
        state = MixtureState.initial()
        for _ in range(3):
            found, state = assign_clusters(state, batch)
            assert len(set(clusters(found))) == 1
            values = (found.probabilities, found.mixing, state.centres, state.covariances)
            assert all(each.isfinite().all() for each in values)


def test_grey_images_among_coloured_ones_are_no_cluster() -> None:
    images = torch.rand(100, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    images[7] = images[7].mean(dim=0)
    found = assign_clusters(MixtureState.initial(), spectra(images))[0]
    assert set(clusters(found)) == {0}
    assert set(clusters(assign_clusters(MixtureState.initial(), spectra(images.mean(dim=1, keepdim=True)))[0])) == {0}
    images[50:] = nn.functional.avg_pool2d(images[50:], 5, stride=1, padding=2)
    images[90] = images[90].mean(dim=0)
    found = clusters(assign_clusters(MixtureState.initial(), spectra(images))[0])
    assert found == [found[0]] * 50 + [found[50]] * 50
    assert found[0] != found[50]


def test_real_corruptions_are_told_apart_and_a_pure_batch_is_not() -> None:
    images = midway.data.load("cifar10-mini").first(200).images
    noisy, blurred = (midway.data.corrupt(images, name, severity=5) for name in ("speckle_noise", "gaussian_blur"))

    def described(array: np.ndarray) -> Tensor:
        return spectra(torch.from_numpy(np.ascontiguousarray(array)).permute(0, 3, 1, 2).float() / 255)

    mixed = torch.cat([described(noisy[:100]), described(blurred[100:])])
    found = assign_clusters(MixtureState.initial(), mixed)[0]
    weights = found.probabilities @ found.mixing
    together = weights @ weights.T
    assert together[:100, 100:].max() < 0.05
    assert together[:100, :100].median() > 0.9
    for pure in (noisy, blurred):
        weights = (found := assign_clusters(MixtureState.initial(), described(pure))[0]).probabilities @ found.mixing
        assert (weights @ weights.T).mean() > 0.9


def test_a_rare_cluster_beside_one_that_is_not_trusted_is_not_trusted_either() -> None:
    mixture = mixture_of(gaussian(1000))
    mixture.counts[:3] = torch.tensor([1000.0, 30.0, 20.0], dtype=torch.float64)
    mixture.covariances[:3] = mixture.covariance
    mixture.centres[1], mixture.centres[2] = mixture.centres[0].clone(), mixture.centres[0].clone()
    mixture.centres[1:3, 0] += 6.0  # D^2 of about 33, too near for a rare cluster
    mixture.centres[2, 1] += 6.0
    mixing, trust = mix_clusters(mixture, mixture.counts, median=31.0, distinct=1000)
    assert trust[1] == trust[2] == 0
    assert mixing[2, 0] > 0.99
    mixture.counts[:3] = torch.tensor([400.0, 300.0, 200.0], dtype=torch.float64)  # three parts of a mixture
    assert mix_clusters(mixture, mixture.counts, median=31.0, distinct=1000)[1][1:3].tolist() == [1, 1]
