from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import midway
from midway.methods.t3a import T3A, lowest_by_class
from midway.testing import batches, tiny_network


class NaiveT3A:
    """T3A from its description, one image and one class at a time."""

    def __init__(self, network: nn.Sequential, supports: int) -> None:
        self.body, self.head, self.most = network[:-1], network[-1], supports
        self.kept: list[list[tuple[float, Tensor]]] = [[] for _ in self.head.weight]
        for row in self.head.weight.detach():
            logits = self.head(row)
            self.kept[int(logits.argmax())].append((self.entropy(logits), row))

    @staticmethod
    def entropy(logits: Tensor) -> float:
        return -sum(p * math.log(p) for p in logits.double().softmax(0).tolist())

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        features = self.body(images)
        for z in features:
            logits = self.head(z)
            self.kept[int(logits.argmax())].append((self.entropy(logits), z))
        scores = torch.empty(len(images), len(self.kept))
        for k, supports in enumerate(self.kept):
            supports.sort(key=lambda pair: pair[0])
            if self.most != -1:
                del supports[self.most :]
            total = sum((z / z.norm() for _, z in supports), torch.zeros(features.shape[1]))
            scores[:, k] = features @ (total / total.norm().clamp(min=1e-12))
        return scores


@pytest.mark.parametrize("supports", [1, 3, 100, -1])
def test_agrees_with_a_naive_implementation_over_batches(supports: int) -> None:
    naive = NaiveT3A(tiny_network(), supports)  # type: ignore[arg-type]
    method = T3A(tiny_network(), supports=supports)
    for images in batches(4):
        torch.testing.assert_close(method(images), naive(images), rtol=1e-4, atol=1e-5)
    assert method.diagnostics["supports"] == sum(map(len, naive.kept))


def two_classes() -> nn.Module:
    network = nn.Sequential(nn.Flatten(), nn.Linear(2, 2, bias=False))
    network[1].weight.data = torch.eye(2)
    return network


def test_two_classes_by_hand() -> None:
    """Rows (1, 0) and (0, 1); the image (0.8, 0.6) joins class 0, whose direction becomes (1.8, 0.6) / sqrt(3.6)."""
    method = T3A(two_classes())
    scores = method(torch.tensor([0.8, 0.6]).view(1, 1, 1, 2))
    expected = torch.tensor([[(0.8 * 1.8 + 0.6 * 0.6) / math.sqrt(3.6), 0.6]])
    torch.testing.assert_close(scores, expected)


@pytest.mark.parametrize("supports", [100, -1])
def test_a_row_starts_as_a_support_of_the_class_that_the_classifier_predicts_for_it(supports: int) -> None:
    """Row 1 = (3, 1) is longer than row 0 = (1, 0): the classifier predicts class 1 for both, none is of class 0."""
    network = two_classes()
    network[1].weight.data = torch.tensor([[1.0, 0.0], [3.0, 1.0]])  # type: ignore[index]
    method = T3A(network, supports=supports)
    assert method.labels.tolist() == [1, 1]
    scores = method(torch.tensor([0.5, 1.0]).view(1, 1, 1, 2))  # 0.5 and 2.5: class 1, too
    total = (
        torch.tensor([1.0, 0.0]) + torch.tensor([3.0, 1.0]) / math.sqrt(10) + torch.tensor([0.5, 1.0]) / math.sqrt(1.25)
    )
    expected = torch.stack([torch.tensor(0.0), torch.tensor([0.5, 1.0]) @ total / total.norm()])
    torch.testing.assert_close(scores, expected[None])


def test_the_rows_of_the_embedded_network_are_of_their_own_class() -> None:
    method = T3A(midway.models.load("wrn16_2.cifar10"))
    assert method.labels.tolist() == list(range(10))


def test_the_lowest_entropies_win_by_hand() -> None:
    """With M = 1 the sharp image (1, 0) ties with the row of class 0, which came first; (0.6, 0.5) is dropped."""
    method = T3A(two_classes(), supports=1)
    method(torch.tensor([[0.6, 0.5], [1.0, 0.0]]).view(2, 1, 1, 2))
    torch.testing.assert_close(method.unit_supports, torch.eye(2))
    method = T3A(two_classes(), supports=2)
    method(torch.tensor([[0.6, 0.5], [0.9, 0.1], [0.7, 0.3]]).view(3, 1, 1, 2))
    kept = torch.tensor([0.9, 0.1]) / math.hypot(0.9, 0.1)
    torch.testing.assert_close(method.unit_supports, torch.stack([*torch.eye(2), kept]))


@settings(max_examples=30, deadline=None)
@given(data=st.data(), count=st.integers(1, 4))
def test_lowest_by_class_is_the_sorted_head_of_each_class(data: st.DataObject, count: int) -> None:
    labels = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=20))
    values = data.draw(st.lists(st.integers(0, 5), min_size=len(labels), max_size=len(labels)))
    expected = []
    for label in set(labels):
        places = [i for i, other in enumerate(labels) if other == label]
        expected += sorted(places, key=lambda i: values[i])[:count]
    found = lowest_by_class(torch.tensor(values, dtype=torch.float), torch.tensor(labels), count)
    assert found.tolist() == sorted(expected)


def test_keeping_all_never_loses_a_support() -> None:
    method, seen = T3A(tiny_network(), supports=-1), 4
    previous = method.unit_supports
    for images in batches(3):
        method(images)
        seen += len(images)
        assert method.diagnostics["supports"] == seen
        assert ((method.unit_supports - previous).norm(dim=1) <= len(images) + 1e-4).all()
        previous = method.unit_supports
    huge = T3A(tiny_network(), supports=10_000)
    expected = [huge(images) for images in batches(3)][-1]
    method.reset()
    torch.testing.assert_close([method(images) for images in batches(3)][-1], expected, rtol=1e-4, atol=1e-5)


def test_the_lowest_entropies_of_each_class() -> None:
    assert lowest_by_class(torch.tensor([0.3, 0.1, 0.2, 0.9]), torch.tensor([0, 0, 0, 1]), 2).tolist() == [1, 2, 3]


def test_what_it_cannot_do_it_says() -> None:
    with pytest.raises(ValueError, match="supports must be at least 1, or -1 to keep all, got 0"):
        T3A(tiny_network(), supports=0)
    with pytest.raises(ValueError, match="no linear layer"):
        T3A(nn.Sequential(nn.Conv2d(3, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()))
