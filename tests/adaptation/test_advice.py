"""Errors that a newcomer meets, and what they advise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

import midway
from midway.adaptation.wrappers import read_wrapper
from midway.testing import batches, tiny_network


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


def test_an_adapted_network_is_no_source() -> None:
    with pytest.raises(TypeError, match="already adapted by Tent: give the network that you adapted"):
        midway.adapt(midway.Tent(tiny_network()), "bn")
    with pytest.raises(TypeError, match=r"Module, got str: midway.models.load returns networks by name"):
        midway.adapt("wrn16_2.cifar10", "bn")  # type: ignore[arg-type]


def test_volumes_are_refused_by_their_shape() -> None:
    network = nn.Sequential(
        nn.Conv3d(1, 2, 3), nn.BatchNorm3d(2), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(2, 3)
    )
    with pytest.raises(ValueError, match=r"images must have shape \(N, C, H, W\), got \(2, 1, 8, 8, 8\)"):
        midway.adapt(network, "tent")(torch.rand(2, 1, 8, 8, 8))


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


def test_grey_networks_and_coloured_images() -> None:
    with pytest.raises(ValueError, match=r"to a network of grey images give images.mean\(dim=1, keepdim=True\)"):
        midway.BN(tiny_network(channels=1))(batches(1)[0])
    with pytest.raises(ValueError, match=r"grey images as images\[:, None\]"):
        midway.BN(tiny_network(channels=1))(torch.rand(4, 8, 8))


def test_layers_of_your_own_count_by_name() -> None:
    with pytest.raises(ValueError, match="if the name of its class contains 'norm' and its weight is a vector"):
        midway.Tent(nn.Sequential(nn.Flatten(), nn.Linear(3, 2)))


@pytest.mark.parametrize(
    ("text", "read"),
    [("episodic", ("episodic", {})), ("periodic(every=3)", ("periodic", {"every": 3})), ("window()", ("window", {}))],
)
def test_wrappers_with_settings(text: str, read: tuple[str, dict[str, Any]]) -> None:
    assert read_wrapper(text) == read


def test_a_wrapper_has_the_settings_that_it_is_given() -> None:
    method = midway.adapt(tiny_network(), "bn", wrap="periodic(every=2)")
    assert isinstance(method, midway.Periodic)
    assert method.hyperparameters["every"] == 2
    for wrong in ("windw", "window(", "window(3)", "window(size=x)", "1", "window(size=1)(2)"):
        with pytest.raises(ValueError, match=r"such as 'window\(size=64\)', got "):
            midway.adapt(tiny_network(), "bn", wrap=wrong)
    with pytest.raises(TypeError, match="unknown hyper-parameter of Window 'length'"):
        midway.adapt(tiny_network(), "bn", wrap="window(length=3)")


def test_names_of_other_libraries() -> None:
    with pytest.raises(TypeError, match="unknown hyper-parameter of tent 'learning_rate': did you mean 'lr'"):
        midway.adapt(tiny_network(), "tent", learning_rate=1e-3)
    with pytest.raises(TypeError) as error:
        midway.adapt(tiny_network(), "tent", device="cpu")
    assert "did you mean" not in str(error.value)


def test_modules_are_imported_when_they_are_used() -> None:
    assert midway.report.frame is not None
    assert callable(midway.tune.tune)
    with pytest.raises(AttributeError, match="module 'midway' has no attribute 'reports'"):
        _ = midway.reports  # type: ignore[attr-defined]


def test_labels_that_are_no_indices() -> None:
    images, one_hot = torch.rand(4, 3, 8, 8), torch.eye(4)
    with pytest.raises(ValueError, match=r"labels have shape \(4, 4\): give one class index for each image"):
        midway.compare(tiny_network(), (images, one_hot), "bn", progress=False)


def test_classes_as_text(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (8, 8)).save(tmp_path / name / "0.png")
    by_index = midway.data.load("folder", tmp_path, classes="2,0")
    assert by_index.labels.tolist() == [2, 0]
    assert midway.data.load("folder", tmp_path, classes="dog, cat, hen").labels.tolist() == [1, 0]
    with pytest.raises(ValueError, match="give classes=, the names of all 4 classes in the order of logits"):
        midway.compare(tiny_network(), tmp_path, "bn", classes="cat,dog", progress=False)


def test_images_beside_class_folders_are_not_dropped_silently(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    for path in (tmp_path / "cat" / "0.png", tmp_path / "1.png"):
        Image.new("RGB", (8, 8)).save(path)
    with pytest.raises(ValueError, match=r"has 1 images beside its class folders, such as 1.png: move them"):
        midway.data.load("folder", tmp_path)


@pytest.mark.parametrize("odd", [0, 7, 19])
def test_one_image_of_another_size_does_not_change_the_others(tmp_path: Path, odd: int) -> None:
    for index in range(20):
        Image.new("RGB", (33, 33) if index == odd else (32, 32)).save(tmp_path / f"{index:02}.png")
    assert midway.data.load("folder", tmp_path).images.shape == (20, 32, 32, 3)
    for index in range(4):
        Image.new("RGB", (40, 20)).save(tmp_path / f"{index:02}.png")
    assert midway.data.load("folder", tmp_path).images.shape == (20, 224, 224, 3)


def test_long_labels_keep_both_ends() -> None:
    long = 'mita(statistics="clustered",adapt_data={})'
    shown = str(
        midway.compare(
            midway.models.create("resnet20"),
            torch.rand(4, 3, 8, 8),
            [long.format(True), long.format(False)],
            progress=False,
        )
    )
    assert sum("=True" in line for line in shown.splitlines()) == 1
    assert sum("=False" in line for line in shown.splitlines()) == 1
