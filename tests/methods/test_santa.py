from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from midway.adaptation.augmentation import Augmentation
from midway.methods.santa import SANTA, alignment, anchoring
from midway.testing import batches, tiny_network


class NaiveSANTA:
    """SANTA from its description: loops over images and views, train-mode BatchNorm, Adam by torch."""

    def __init__(self, network: Any, projector: nn.Module, prototypes: list[Tensor], lr: float) -> None:
        self.network, self.anchor = copy.deepcopy(network).train(), copy.deepcopy(network).train()
        self.projector, self.prototypes = copy.deepcopy(projector), prototypes
        affine = [p for m in self.network.modules() if isinstance(m, nn.BatchNorm2d) for p in (m.weight, m.bias)]
        self.optimizer = torch.optim.Adam([*affine, *self.projector.parameters()], lr=lr)
        self.generator = torch.Generator().manual_seed(0)

    def __call__(self, images: Tensor) -> Tensor:
        changed = Augmentation()(images, self.generator)
        features, changed_features = self.network[:-1](images), self.network[:-1](changed)
        logits, changed_logits = self.network[-1](features), self.network[-1](changed_features)
        with torch.no_grad():
            source = self.anchor(images).softmax(dim=1)
        views, owner = [], []
        first = 0.0 * logits.sum()
        for i in range(len(images)):
            p, q = logits[i].softmax(0), changed_logits[i].softmax(0)
            first = first - 0.5 * (p * source[i].log()).sum() - 0.5 * (q * source[i].log()).sum()
            z = features[i].detach()
            cosines = [float(z @ each / z.norm() / each.norm()) for each in self.prototypes]
            near = self.prototypes[cosines.index(max(cosines))]
            for view in (near, features[i], changed_features[i]):
                projected = self.projector(view)
                views.append(projected / projected.norm())
                owner.append(i)
        second = 0.0 * logits.sum()
        for a, view in enumerate(views):
            others = [b for b in range(len(views)) if b != a]
            total = sum((view @ views[b] / 0.1).exp() for b in others)
            positives = [b for b in others if owner[b] == owner[a]]
            second = second - sum(((view @ views[b] / 0.1).exp() / total).log() for b in positives) / len(positives)
        loss = first / len(images) + second / len(views)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return logits.detach()


@pytest.mark.parametrize("labelled", [True, False])
def test_agrees_with_a_naive_implementation_over_batches(labelled: bool, sharp_network: Any) -> None:
    network = sharp_network().double()
    source = torch.cat(batches(3, seed=5)).double()
    with torch.no_grad():
        features = copy.deepcopy(network).train()[:-1](source)
        labels = network[-1](features).argmax(dim=1)
    labels = (labels + 1) % 4 if labelled else labels
    assert set(labels.tolist()) == {0, 1, 2, 3}
    prototypes = [features[labels == label].mean(dim=0) for label in range(4)]
    method = SANTA(network, source_images=source, source_labels=labels if labelled else None, lr=1e-2)
    torch.testing.assert_close(method.prototypes, torch.stack(prototypes), rtol=1e-9, atol=1e-12)
    naive = NaiveSANTA(network, method.projector, prototypes, lr=1e-2)
    for images in batches(4, size=6):
        torch.testing.assert_close(method(images.double()), naive(images.double()), rtol=1e-5, atol=1e-5)
    for mine, theirs in zip(method.model.parameters(), naive.network.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-7)


def test_a_last_source_image_joins_the_batch_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone it has no statistics, and a network with BatchNorm1d would refuse it."""
    monkeypatch.setattr("midway.methods.santa.IMAGES_PER_PASS", 12)
    source = torch.cat(batches(3, seed=5))[:25]
    labels = torch.arange(25) % 4
    body = [*list(tiny_network().children())[:-1], nn.BatchNorm1d(8)]
    network = nn.Sequential(*body, nn.Linear(8, 4)).eval()
    prototypes = SANTA(network, source_images=source, source_labels=labels).prototypes
    train = copy.deepcopy(network).train()[:-1]
    with torch.no_grad():
        features = torch.cat([train(source[:12]), train(source[12:])])
    expected = torch.stack([features[labels == label].mean(dim=0) for label in range(4)])
    torch.testing.assert_close(prototypes, expected, rtol=1e-4, atol=1e-5)


def test_given_prototypes_are_those_of_the_source_images() -> None:
    source, labels = torch.cat(batches(2, seed=5)), torch.arange(24) % 4
    measured = SANTA(tiny_network(), source_images=source, source_labels=labels)
    given = SANTA(tiny_network(), prototypes=measured.prototypes)
    for images in batches(2):
        assert torch.equal(measured(images), given(images))
    with pytest.raises(ValueError, match=r"prototypes must be of shape \(4, 8\), a row per class, got \(4, 7\)"):
        SANTA(tiny_network(), prototypes=torch.rand(4, 7))
    with pytest.raises(TypeError, match=r"prototypes must be a tensor, got list: use torch.as_tensor"):
        SANTA(tiny_network(), prototypes=[[1.0]])
    with pytest.raises(ValueError, match="prototypes contain NaN or Inf"):
        SANTA(tiny_network(), prototypes=torch.full((4, 8), torch.nan))
    with pytest.raises(ValueError, match="source_labels must be from 0 to 3, got 0 to 4"):
        SANTA(tiny_network(), source_images=source, source_labels=torch.arange(24) % 5)
    with pytest.raises(TypeError, match=r"source_labels must be a tensor, got list"):
        SANTA(tiny_network(), source_images=source, source_labels=labels.tolist())
    with pytest.raises(ValueError, match="give source_images or prototypes, not both"):
        SANTA(tiny_network(), prototypes=measured.prototypes, source_images=source)


def test_anchoring_by_hand() -> None:
    """Predictions (1/2, 1/2) and (3/4, 1/4) have the mean (5/8, 3/8); the anchor says (1/4, 3/4)."""
    logits, augmented = torch.zeros(1, 2), torch.tensor([[math.log(3), 0.0]])
    anchor = torch.tensor([[0.0, math.log(3)]], requires_grad=True)
    loss = anchoring(logits, augmented, anchor)
    assert loss.item() == pytest.approx(-(5 / 8 * math.log(1 / 4) + 3 / 8 * math.log(3 / 4)))
    assert not loss.requires_grad


def test_alignment_by_hand() -> None:
    """Two images, two views each: cosines 1 with the own view, 0 with those of the other image, at temperature 1."""
    views = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 3.0]]])
    assert alignment(views, 1.0).item() == pytest.approx(-math.log(math.e / (math.e + 2)))
    single = alignment(views[:, :1], 1.0)  # one image has its own views alone
    assert single.item() == pytest.approx(0.0)


def test_without_source_images_prototypes_are_the_rows_of_the_head_at_the_features_length() -> None:
    network = tiny_network()
    method = SANTA(network)
    rows = network[-1].weight.detach()  # type: ignore[index]
    torch.testing.assert_close(method.prototypes, rows / rows.norm(dim=1, keepdim=True))
    seen: list[Tensor] = []
    method.projector.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    method(batches(1)[0])
    near, features, _ = seen[0]
    torch.testing.assert_close(near.norm(dim=1), features.norm(dim=1).mean().expand(12))
    expected = [int((rows @ z / rows.norm(dim=1)).argmax()) for z in features]
    torch.testing.assert_close(near / near.norm(dim=1, keepdim=True), method.prototypes[expected])


def test_the_projector_adapts_with_the_norm_layers_and_the_anchor_does_not() -> None:
    method = SANTA(tiny_network(), lr=1e-2)
    before = copy.deepcopy(method.state_dict())
    method(batches(1)[0])
    moved = {
        key
        for key, value in method.state_dict().items()
        if key != "_extra_state" and not torch.equal(value, before[key])
    }
    assert {key.split(".")[0] for key in moved} == {"model", "projector"}
    assert {key for key in moved if key.startswith("model")} == {
        f"model.{i}.{kind}" for i in (1, 4) for kind in ("weight", "bias")
    }
    assert method.model[0].weight is method.anchor[0].weight  # type: ignore[index]
    again = SANTA(tiny_network(), lr=1e-2)
    assert torch.equal(again.projector[0].bias, before["projector.0.bias"])


def test_published_settings_follow_the_size_of_the_images() -> None:
    small, large = SANTA(tiny_network()), SANTA(tiny_network())
    small(batches(1)[0])
    large(batches(1, size=4, side=128)[0])
    assert (small.hyperparameters["optimizer"], small.hyperparameters["lr"]) == ("adam", 1e-3)
    assert (large.hyperparameters["optimizer"], large.hyperparameters["lr"]) == ("sgd", 0.01)


def test_mistakes_are_refused() -> None:
    images = batches(1)[0]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"temperature": 0.0}, "temperature must be above 0, got 0.0"),
        ({"source_labels": torch.zeros(3).long()}, "source_labels without source_images"),
        (
            {"source_images": images, "source_labels": torch.zeros(3).long()},
            "source_labels must be one label per image",
        ),
        ({"source_images": images, "source_labels": torch.arange(12) % 3}, "no image of class 3: give some of every"),
        ({"source_images": images * 9}, "source_images: "),
    ]
    for settings, message in wrong:
        with pytest.raises(ValueError, match=message):
            SANTA(tiny_network(), **settings)


def test_an_augmentation_for_each_image_on_request() -> None:
    images = batches(1)[0]
    together, apart = (SANTA(tiny_network(), per_image=per_image, lr=0.1) for per_image in (False, True))
    for method in (together, apart):
        method(images)
    assert not together(images).allclose(apart(images))
