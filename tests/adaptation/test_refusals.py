"""What methods, streams and data sets refuse, and that they say it in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

import midway
from midway.bench.entries import parse_entries
from midway.data import from_dataset
from midway.methods import About, Method
from midway.testing import batches, tiny_network

IMAGES = batches(1, size=6)[0]


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("mita", {"adapt_data": "no"}, "adapt_data must be True or False, got 'no'"),
        ("tea", {"shared_pass": 1}, "shared_pass must be True or False, got 1"),
        ("tea", {"langevin_clip": -1.0}, r"langevin_clip must be above 0, or None, got -1\.0"),
        ("sar", {"momentum": 2.0}, "momentum must be at least 0 and below 1, got 2"),
        ("sar", {"exclude": 5}, "exclude must be a tuple of names, got 5"),
        ("tent", {"betas": 0.9}, r"betas must be two numbers, such as \(0\.9, 0\.999\), got 0\.9"),
        ("tent", {"betas": (0.9,)}, r"betas must be two numbers, .*got \(0\.9,\)"),
        ("tent", {"betas": (0.9, "1")}, "betas must be a number, got '1'"),
        ("tent", {"steps": None}, "steps must be a number, got None"),
    ],
)
def test_settings(method: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        midway.adapt(tiny_network(), method, **settings)


def test_a_method_that_passes_its_settings_on_is_checked_too() -> None:
    class Slow(midway.Tent):
        def __init__(self, model: torch.nn.Module, *, factor: float = 0.1, **settings: Any) -> None:
            super().__init__(model, **settings)

    assert Slow(tiny_network(), factor=0.5, predict="after").predict == "after"
    with pytest.raises(ValueError, match=r"predict must be 'before' or 'after', got 'never'\."):
        Slow(tiny_network(), predict="never")
    with pytest.raises(TypeError, match="factor must be a number, got 'a'"):
        Slow(tiny_network(), factor="a")


def test_settings_of_wrappers() -> None:
    tent = midway.Tent(tiny_network())
    with pytest.raises(TypeError, match=r"entropy_range must be two numbers"):
        midway.Guarded(tent, entropy_range=0.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="min_diversity must be a number, got None"):
        midway.Guarded(tent, min_diversity=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="model is already adapted by Tent: give the plain network"):
        midway.clustered(tent)


def test_a_setting_given_twice() -> None:
    with pytest.raises(ValueError, match="tent: lr is given twice"):
        parse_entries("tent(lr=1e-3, lr=5.0)")


@pytest.mark.parametrize("answer", [None, (torch.zeros(6, 4),), torch.zeros(6), torch.zeros(5, 4)], ids=repr)
def test_a_step_that_returns_no_logits(answer: object) -> None:
    class Odd(Method):
        about = About("odd", "Odd", "-", "none", "nothing", "-", "1 F")

        def step(self, images: Tensor) -> Tensor:
            return answer  # type: ignore[return-value]

    with pytest.raises(TypeError, match=r"Odd.step must return logits \(6, classes\) for 6 images, it returned"):
        Odd(tiny_network())(IMAGES)


def test_labels_and_single_images() -> None:
    network = tiny_network()
    assert midway.evaluate(network, TensorDataset(IMAGES, torch.zeros(6, dtype=torch.long))).images == 6
    with pytest.raises(ValueError, match="labels must be integers"):
        midway.evaluate(network, [(IMAGES, torch.full((6,), 0.7))])
    assert midway.evaluate(network, [(IMAGES, torch.zeros(6))]).images == 6
    image = np.zeros((8, 8, 3), np.uint8)
    for label in ("cat", 1.5):
        with pytest.raises(ValueError, match=f"labels must be integers, 0 for the first class, got {label!r}"):
            from_dataset([(image, label)])
    assert from_dataset([(image, np.int64(1)), (image, torch.tensor(0))]).labels.tolist() == [1, 0]


def test_a_single_image_leans_on_the_source_by_kindred_statistics() -> None:
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 8), torch.nn.BatchNorm1d(8)).eval()
    assert midway.adapt(network, "source", statistics="clustered")(IMAGES[:1]).isfinite().all()
