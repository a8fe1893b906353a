"""Images, networks and global settings of torch that no method can use are refused in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.adaptation.batch_norm import spectra
from midway.adaptation.batch_norm.by_name import BY_NAME
from midway.methods import names
from midway.testing import batches, tiny_network

IMAGES = batches(1)[0]


@pytest.mark.parametrize(
    ("images", "kind"),
    [
        (IMAGES.to_sparse(), "sparse_coo"),
        (torch.nested.nested_tensor([IMAGES[0], IMAGES[1]], layout=torch.jagged), "nested"),
    ],
)
def test_images_that_are_not_dense(images: Tensor, kind: str) -> None:
    with pytest.raises(TypeError, match=f"images must be a dense tensor, got a {kind} one: stack them"):
        midway.Tent(tiny_network())(images)


def test_networks_without_values() -> None:
    with pytest.raises(TypeError, match="weights on the meta device, without values: load its weights"):
        midway.Tent(tiny_network().to("meta"))


class Raising(nn.Module):
    """Raises an error on every image."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.weight, self.error = nn.Parameter(torch.ones(1)), error

    def forward(self, images: Tensor) -> Tensor:
        raise self.error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyError("pixel_values"), "KeyError: 'pixel_values'"),
        (AssertionError(), "AssertionError"),
        (AttributeError("no head"), "AttributeError: no head"),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
    ],
)
def test_networks_that_raise(error: Exception, reason: str) -> None:
    with pytest.raises(ValueError, match=rf"does not accept images of shape \(12, 3, 16, 16\).*: {reason}$"):
        midway.Source(Raising(error))(IMAGES)


@pytest.fixture
def default_of_float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("default_of_float64")
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, {"views": 3} if name == "memo" else {}) for name in names()),
        *(("tent", {"statistics": statistics}) for statistics in BY_NAME),
    ],
)
def test_the_default_dtype_changes_no_answer(name: str, settings: dict[str, Any]) -> None:
    for cached in (spectra._cosines, spectra._bands):
        cached.cache_clear()
    network = tiny_network().float()
    answer = midway.adapt(network, name, **settings)(IMAGES.float())
    torch.set_default_dtype(torch.float32)
    assert answer.equal(midway.adapt(network, name, **settings)(IMAGES.float()))


def test_the_default_device_must_have_values() -> None:
    network = tiny_network()
    method = midway.Tent(network)
    with torch.device("meta"), pytest.raises(ValueError, match=r"default device of torch is meta"):
        method(IMAGES)
    with torch.device("meta"), pytest.raises(ValueError, match=r"default device of torch is meta"):
        midway.Tent(network)
