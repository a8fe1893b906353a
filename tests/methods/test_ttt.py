from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import midway
from midway.adaptation.auxiliary import AuxiliaryHead, parameters_behind
from midway.adaptation.views import CROP_NUMBERS, crops, draw, quarter_turns
from midway.cost import measure_cost
from midway.methods.ttt import TTT, rotation_labels
from midway.models import RotationWideResNet
from midway.testing import batches, tiny_network

IMAGES = batches(1, size=5)[0]


class TwoHeads(nn.Module):
    """A body, a head for five classes and a head for rotations with a hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.GroupNorm(2, 6), nn.ReLU(), nn.Conv2d(6, 6, 3))
        self.classes = nn.Linear(6, 5)
        self.hidden, self.rotation = nn.Conv2d(6, 6, 3, stride=2), nn.Linear(6, 4)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.classes(F.relu(self.body(images)).mean(dim=(2, 3)))
        return logits

    def rotation_logits(self, images: Tensor) -> Tensor:
        logits: Tensor = self.rotation(F.relu(self.hidden(F.relu(self.body(images)))).mean(dim=(2, 3)))
        return logits


def turned(image: Tensor, quarters: int) -> Tensor:
    """Turn an image (C, H, W) anticlockwise, pixel by pixel."""
    for _ in range(quarters):
        image = torch.stack([image[:, :, image.shape[2] - 1 - row] for row in range(image.shape[2])], dim=1)
    return image


def naive_ttt(
    network: TwoHeads, images: Tensor, *, online: bool, steps: int, group: int, copies: int, lr: float, branch: bool,
    random: bool,
) -> Tensor:  # fmt: skip
    """TTT from its description: weights by name, one copy of one image at a time, plain gradient descent."""
    numbers = draw(len(images), steps * copies, torch.Generator().manual_seed(0), CROP_NUMBERS + 1)
    answers, adapted = [], copy.deepcopy(network).double()
    for start in range(0, len(images), group):
        if not online:
            adapted = copy.deepcopy(network).double()
        members = range(start, min(start + group, len(images)))
        for step in range(steps):
            losses = []
            for index in members:
                for k in range(copies):
                    row = numbers[index, step * copies + k]
                    quarters = int(4 * row[CROP_NUMBERS]) if random else k % 4
                    view = crops(images[index : index + 1].double(), row.view(1, 1, -1))[0, 0]
                    probabilities = adapted.rotation_logits(turned(view, quarters)[None]).softmax(dim=1)[0]
                    losses.append(-probabilities[quarters].log())
            weights = [*adapted.body.parameters()]
            if branch:
                weights += [*adapted.hidden.parameters(), *adapted.rotation.parameters()]
            gradients = torch.autograd.grad(torch.stack(losses).mean(), weights)
            with torch.no_grad():
                for weight, gradient in zip(weights, gradients, strict=True):
                    weight -= lr * gradient
        answers += [adapted(images[index : index + 1].double())[0] for index in members]
    return torch.stack(answers).detach()


@pytest.mark.parametrize(
    "settings",
    [
        {"online": True, "steps": 1, "images_per_step": 1, "copies": 4, "rotations": "each", "trainable": "shared"},
        {"online": True, "steps": 2, "images_per_step": 2, "copies": 3, "rotations": "random", "trainable": "branch"},
        {"online": False, "steps": 3, "images_per_step": 1, "copies": 5, "rotations": "random", "trainable": "branch"},
        {"online": False, "steps": 2, "images_per_step": 3, "copies": 4, "rotations": "each", "trainable": "shared"},
    ],
    ids=str,
)
def test_the_method_is_its_description(settings: dict[str, Any]) -> None:
    network = TwoHeads()
    adapted = TTT(copy.deepcopy(network).double(), lr=3.0, **settings)
    expected = naive_ttt(
        network,
        IMAGES,
        online=settings["online"],
        steps=settings["steps"],
        group=settings["images_per_step"],
        copies=settings["copies"],
        lr=3.0,
        branch=settings["trainable"] == "branch",
        random=settings["rotations"] == "random",
    )
    logits = adapted(IMAGES.double())
    assert (expected - network.double()(IMAGES.double())).abs().max() > 0.05, "the steps change the answers"
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-6)


class Constant(nn.Module):
    """Answers every image with given rotation logits, plus a weight that both heads share."""

    def __init__(self, logits: list[float]) -> None:
        super().__init__()
        self.shared = nn.Parameter(torch.zeros(1))
        self.register_buffer("given", torch.tensor(logits))

    def forward(self, images: Tensor) -> Tensor:
        return images.mean(dim=(2, 3)) + self.shared

    def rotation_logits(self, images: Tensor) -> Tensor:
        return self.get_buffer("given") + self.shared * torch.tensor([1.0, 0, 0, 0]) + 0 * images[:, :1, 0, 0]


def test_the_rotation_loss_by_hand() -> None:
    """Logits 0, ln 2, ln 3, ln 4: probabilities 1/10, 2/10, 3/10, 4/10, whatever the image."""
    adapted = TTT(Constant([0.0, math.log(2), math.log(3), math.log(4)]), copies=4, crop="pad", lr=1.0)
    numbers = draw(1, 4, torch.Generator().manual_seed(0), CROP_NUMBERS + 1)
    loss = adapted.rotation_loss(IMAGES[:1], numbers)
    assert loss.item() == pytest.approx((math.log(10) + math.log(5) + math.log(10 / 3) + math.log(2.5)) / 4)
    loss.backward()
    (shared,) = adapted.trainable
    assert shared.grad is not None
    assert shared.grad.item() == pytest.approx(1 / 10 - 1 / 4)  # softmax less the share of upright copies


def test_labels_are_the_quarter_turns_of_the_copies() -> None:
    image, numbers = torch.rand(1, 4, 3, 6, 6), torch.tensor([[0.1, 0.3, 0.6, 0.9]])
    assert rotation_labels(numbers, square=True).tolist() == [[0, 1, 2, 3]]
    for view, original, turns in zip(quarter_turns(image, numbers)[0], image[0], range(4), strict=True):
        assert torch.equal(view, turned(original, turns))
    assert rotation_labels(numbers, square=False).tolist() == [[0, 0, 2, 2]]  # a turned image keeps its shape
    assert TTT(tiny_network())(torch.rand(3, 3, 12, 16)).shape == (3, 4)


def test_without_online_predictions_do_not_depend_on_other_images_or_batches() -> None:
    settings: dict[str, Any] = {"online": False, "images_per_step": 1, "lr": 0.5, "steps": 2}
    together, apart = TTT(TwoHeads(), **settings), TTT(TwoHeads(), **settings)
    expected = together(IMAGES)
    torch.testing.assert_close(torch.cat([apart(IMAGES[:2]), apart(IMAGES[2:])]), expected)
    before = TwoHeads().state_dict()
    assert all(torch.equal(value, before[name]) for name, value in together.model.state_dict().items())


def test_online_keeps_the_weights_and_learns_the_rotations() -> None:
    adapted = TTT(TwoHeads(), lr=2.0, images_per_step=5, crop="pad")
    bright_above = IMAGES * torch.linspace(1, 0, 16).view(1, 1, 16, 1)
    losses = []
    for _ in range(30):
        adapted(bright_above)
        losses.append(adapted.diagnostics["rotation_loss"])
    assert sum(losses[-5:]) < 0.98 * sum(losses[:5])
    assert adapted.hyperparameters["steps"] == 1
    changed = {
        name for name, value in TwoHeads().state_dict().items() if not value.equal(adapted.model.state_dict()[name])
    }
    assert {name.split(".")[0] for name in changed} == {"body"}


def test_what_both_heads_share() -> None:
    network = RotationWideResNet(depth=10, width=1)
    parts = parameters_behind(network, AuxiliaryHead(network, "rotation_logits", outputs=4, task="rotation"))
    assert {name.split(".")[0] for name in parts.shared} == {"conv1", "block1", "block2"}
    assert {name.split(".")[0] for name in parts.branch} == {"conv1", "block1", "block2", "rotation"}
    assert all(parameter.requires_grad for parameter in network.parameters())
    cost = measure_cost(TTT(network, images_per_step=2), torch.rand(4, 3, 32, 32))
    assert (cost.forward_passes, cost.backward_passes) == (5, 4)
    assert cost.trainable_parameters == sum(parameter.numel() for parameter in parts.shared.values())


def no_head(network: nn.Module) -> TTT:
    return TTT(nn.Sequential(*network.children()))


def three_logits(network: nn.Module) -> TTT:
    return TTT(tiny_network(classes=3), auxiliary="forward")


class Apart(Constant):
    def rotation_logits(self, images: Tensor) -> Tensor:
        return self.get_buffer("given").expand(len(images), 4)


def apart(network: nn.Module) -> TTT:
    return TTT(Apart([0.0] * 4))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (no_head, r"Sequential has no rotation head, .*load\(\"wrn16_2_rotation.cifar10\"\), and the name"),
        (
            lambda network: TTT(network, auxiliary="turns"),
            "TinyNetwork has no rotation head, as it has no method turns",
        ),
        (three_logits, r"must return logits \(2, 4\) for 2 images, it returned \(2, 3\): give the name"),
        (apart, "share no weights"),
        (lambda network: TTT(network, lr=-1), "lr must be at least 0"),
        (lambda network: TTT(network, copies=0), "copies must be at least 1"),
        (lambda network: TTT(network, rotations="all"), "rotations must be 'each' or 'random'"),
        (lambda network: TTT(network, trainable="head"), "trainable must be 'shared' or 'branch'"),
        (lambda network: TTT(network, crop="centre"), "crop must be 'pad', 'resize' or None"),
        (lambda network: midway.adapt(network, "ttt", statistics="clustered"), "does not support clustered statistics"),
    ],
)
def test_refusals(make: Callable[[nn.Module], TTT], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(tiny_network())


def test_the_head_is_given_by_name() -> None:
    with pytest.raises(TypeError, match="auxiliary must be the name of a method of the model, got 3"):
        TTT(tiny_network(), auxiliary=3)  # type: ignore[arg-type]
