from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.adaptation.head import features_and_logits, head_of
from midway.testing import tiny_network


class OutOfOrder(nn.Module):
    """Registers the head first and a linear layer of the body last, with dropout in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 5)
        self.stem = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.body = nn.Linear(4, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.nn.functional.dropout(self.norm(self.stem(x)).mean(dim=(2, 3)), training=self.training)
        logits: Tensor = self.head(self.body(x).relu())
        return logits


class Tokens(nn.Module):
    """A transformer for images of 96 pixels and no others."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 32, stride=32)
        self.place = nn.Parameter(torch.zeros(1, 9, 8))
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.heads = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 7))

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != 96:
            raise AssertionError("wrong image size")
        x = self.block(self.patches(x).flatten(2).mT + self.place)
        logits: Tensor = self.heads(x.mean(dim=1))
        return logits


class Cooled(nn.Module):
    """Divides the logits by a temperature; another linear layer comes last in the file."""

    def __init__(self, aside: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3)
        self.fc = nn.Linear(4, 5)
        self.gate = nn.Linear(4, aside)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).mean(dim=(2, 3))
        logits: Tensor = self.fc(x) / 2 + self.gate(x).mean()
        return logits


def vgg() -> nn.Module:
    classifier = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 9))
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.AdaptiveAvgPool2d(2), nn.Flatten(), classifier)


@pytest.mark.parametrize(
    ("model", "name", "classes"),
    [
        (midway.models.create("resnet20"), "fc", 10),
        (midway.models.create("wrn16_2", classes=7), "fc", 7),
        (tiny_network("layer"), "9", 4),
        (vgg(), "3.3", 9),
        (OutOfOrder(), "head", 5),
        (Tokens(), "heads.1", 7),
        (Cooled(aside=3), "fc", 5),
        (nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 3)), "3", 3),
    ],
    ids=["resnet", "wide resnet", "tiny", "vgg", "out of order", "transformer", "cooled", "no convolution"],
)
def test_the_head_is_found(model: nn.Module, name: str, classes: int) -> None:
    model.train()
    before = copy.deepcopy(model.state_dict())
    found, layer = head_of(model)
    assert (found, layer.out_features) == (name, classes)
    assert layer is model.get_submodule(name)
    assert all(module.training and not module._forward_hooks for module in model.modules())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_what_cannot_be_found_can_be_given() -> None:
    with pytest.raises(ValueError, match=r"give head='...', one of fc, gate\."):
        head_of(Cooled(aside=5))
    assert head_of(Cooled(aside=5), "gate")[0] == "gate"
    with pytest.raises(ValueError, match="gate"):
        head_of(Cooled(aside=5), "gat")
    with pytest.raises(ValueError, match=r"must be a torch.nn.Linear, 'stem' is a Conv2d\."):
        head_of(Cooled(aside=5), "stem")


def test_convolution_heads_are_told_what_to_do() -> None:
    squeezed = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 5, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with pytest.raises(ValueError, match="1x1 convolution '1' computes them, replace it by"):
        head_of(squeezed)
    exchanged = nn.Sequential(squeezed[0], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))
    exchanged[3].weight.data, exchanged[3].bias.data = squeezed[1].weight.data.flatten(1), squeezed[1].bias.data
    images = torch.rand(2, 3, 8, 8)
    torch.testing.assert_close(exchanged(images), squeezed(images))  # the advice is right
    assert head_of(exchanged)[0] == "3"


class Squeezing(nn.Module):
    """A linear layer in the body has as many outputs as there are classes; a convolution makes the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3)
        self.squeeze, self.excite = nn.Linear(4, 5), nn.Linear(5, 4)
        self.classes = nn.Conv2d(4, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = x * self.excite(self.squeeze(x.mean(dim=(2, 3))).relu()).sigmoid()[..., None, None]
        logits: Tensor = self.classes(x).mean(dim=(2, 3))
        return logits


def test_a_layer_of_the_body_is_not_taken_for_a_convolution_head() -> None:
    with pytest.raises(ValueError, match="1x1 convolution 'classes' computes them, replace it by"):
        head_of(Squeezing())


def test_features_and_logits_take_one_pass_and_fit_together() -> None:
    model = tiny_network()
    passes: list[int] = []
    model[0].register_forward_hook(lambda *_: passes.append(1))  # type: ignore[index]
    images = torch.rand(5, 3, 9, 9)
    features, logits = features_and_logits(model, "8", images)
    assert len(passes) == 1
    assert not features.requires_grad
    torch.testing.assert_close(model[8](features), logits)  # type: ignore[index]
    torch.testing.assert_close(model(images), logits)


@pytest.mark.parametrize("name", ["aea", "lame", "santa", "t3a"])
def test_methods_record_the_head_that_they_detect(name: str) -> None:
    assert "head='8'" in repr(midway.adapt(tiny_network(), name))
    assert midway.adapt(tiny_network(), name, head="8").hyperparameters["head"] == "8"
    method = midway.adapt(tiny_network(), name)
    method.reset()
    assert method.hyperparameters["head"] == "8"


@pytest.mark.parametrize("name", ["aea", "shot"])
def test_a_network_that_is_its_head_has_no_body(name: str) -> None:
    with pytest.raises(ValueError, match="no weights besides its head"):
        midway.adapt(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), name, trainable="body", head="1")


def test_no_hook_stays_behind_when_the_network_fails() -> None:
    model = tiny_network()
    with pytest.raises(RuntimeError):
        features_and_logits(model, "8", torch.rand(2, 5, 9, 9))
    assert not model[8]._forward_pre_hooks  # type: ignore[index]


def test_the_head_of_a_resnet() -> None:
    assert head_of(midway.models.create("resnet20"))[0] == "fc"


def test_features_must_be_one_vector_an_image() -> None:
    wordy = nn.Sequential(nn.Flatten(2), nn.Linear(9, 4), nn.Flatten())
    with pytest.raises(ValueError, match=r"'1' receives a tensor of shape \(2, 3, 9\) for 2 images"):
        features_and_logits(wordy, "1", torch.rand(2, 3, 3, 3))
