from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from midway.methods.lame import LAME, Affinity, affinities, smooth
from midway.testing import batches, tiny_network


def naive_lame(network: nn.Sequential, images: Tensor, kind: str, k: int, most: int) -> Tensor:
    """LAME from its description, with loops over images."""
    with torch.no_grad():
        features = network[:-1](images)
        probabilities = network(images).softmax(dim=1).double()
    unit = [(z / z.norm()).double() for z in features]
    count = len(images)
    distance = [[float((a - b).norm()) for b in unit] for a in unit]
    graph = torch.zeros(count, count, dtype=torch.float64)
    sigma = sum(sorted(row)[min(k, count) - 1] for row in distance) / count
    for i in range(count):
        for j in range(count):
            if kind == "linear":
                graph[i, j] = float(unit[i] @ unit[j])
            elif kind == "rbf":
                graph[i, j] = math.exp(-(distance[i][j] ** 2) / (2 * sigma**2))
        if kind == "knn":
            for j in sorted((j for j in range(count) if j != i), key=lambda j: distance[i][j])[:k]:
                graph[i, j] = 1
    unary = -(probabilities + 1e-10).log()
    z = probabilities
    old = math.inf
    for iteration in range(most):
        pairwise = graph @ z
        z = torch.stack([(pairwise[i] - unary[i]).softmax(dim=0) for i in range(count)])
        energy = float((unary * z - pairwise * z + z * z.log()).sum())
        if iteration > 1 and abs(energy - old) <= 1e-8 * abs(old):
            break
        old = energy
    return z


@pytest.mark.parametrize("kind", ["knn", "rbf", "linear"])
@pytest.mark.parametrize("k", [2, 5, 50])
def test_agrees_with_a_naive_implementation(kind: Affinity, k: int) -> None:
    method = LAME(tiny_network(), affinity=kind, neighbours=k)
    for images in batches(2):
        expected = naive_lame(tiny_network(), images, kind, k, 100)  # type: ignore[arg-type]
        torch.testing.assert_close(method(images).exp().double(), expected, rtol=1e-4, atol=1e-5)


def test_three_points_by_hand() -> None:
    """Point 3 is torn between two sure neighbours; points 1 and 2 have no neighbours and stay."""
    probabilities = torch.tensor([[0.8, 0.2], [0.3, 0.7], [0.5, 0.5]])
    graph = torch.tensor([[0.0, 0, 0], [0, 0, 0], [1, 1, 0]])
    log_z, taken = smooth(probabilities, graph)
    odds = math.exp((0.8 + 0.3) - (0.2 + 0.7))  # e^0.2
    expected = torch.tensor([[0.8, 0.2], [0.3, 0.7], [odds / (1 + odds), 1 / (1 + odds)]])
    torch.testing.assert_close(log_z.exp(), expected)
    assert taken == 3  # settled after one, and the third is the first that may stop


def test_a_pair_meets_at_its_fixed_point() -> None:
    """Two neighbours with p = (s, 1 - s): at the fixed point the log-odds l solve l = logit(s) + tanh(l / 2)."""
    s = 0.6
    log_z, _ = smooth(torch.tensor([[s, 1 - s], [s, 1 - s]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]), 1000)
    odds = (log_z[:, 0] - log_z[:, 1]).double()
    torch.testing.assert_close(odds, math.log(s / (1 - s)) + torch.tanh(odds / 2), rtol=1e-3, atol=1e-3)
    assert odds[0].item() == pytest.approx(0.7744, abs=1e-3)  # from logit(0.6) = 0.4055


def test_no_more_iterations_than_asked_for() -> None:
    probabilities, graph = torch.tensor([[0.6, 0.4], [0.5, 0.5]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    log_z, taken = smooth(probabilities, graph, 1)
    assert taken == 1
    odds = 0.5 / 0.5 * math.exp(0.6 - 0.4)
    assert log_z[1, 0].exp().item() == pytest.approx(odds / (1 + odds), abs=1e-6)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(["knn", "rbf", "linear"]))
def test_permuting_the_batch_permutes_the_answers(seed: int, kind: Affinity) -> None:
    method = LAME(tiny_network(), affinity=kind)
    (images,) = batches(1, seed=seed)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(method(images[order]), method(images)[order], rtol=1e-3, atol=1e-3)


def test_without_neighbours_the_answer_is_the_source() -> None:
    network, (images,) = tiny_network(), batches(1, size=1)
    with torch.no_grad():
        expected = network(images).log_softmax(dim=1)
    torch.testing.assert_close(LAME(network)(images), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(LAME(network, affinity="rbf")(images).argmax(dim=1), expected.argmax(dim=1))


def test_an_image_is_not_its_own_neighbour_even_among_copies() -> None:
    graph = affinities(torch.ones(4, 3), "knn", 3)
    assert torch.equal(graph, 1 - torch.eye(4))


def test_two_neighbours_agree() -> None:
    near = affinities(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), "knn", 1)
    assert near.tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0]]
    log_z, iterations = smooth(torch.tensor([[0.6, 0.4], [0.5, 0.5]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    assert (log_z.argmax(dim=1).tolist(), iterations) == ([0, 0], 25)


def test_what_it_cannot_do_it_says() -> None:
    with pytest.raises(ValueError, match="affinity must be 'knn', 'rbf' or 'linear', got 'cosine'"):
        LAME(tiny_network(), affinity="cosine")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="neighbours must be at least 1, got 0"):
        LAME(tiny_network(), neighbours=0)
    with pytest.raises(ValueError, match="iterations must be at least 1, got 0"):
        LAME(tiny_network(), iterations=0)
