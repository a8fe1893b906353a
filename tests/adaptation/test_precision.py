"""Reduced precision, and the default type of torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import midway
from midway.adaptation.batch_norm import spectra
from midway.adaptation.batch_norm.by_name import BY_NAME
from midway.adaptation.precision import use_bf16, without_autocast_cache
from midway.methods import names
from midway.testing import batches, tiny_network


def test_weights_that_change_are_not_taken_from_the_cache_of_autocast() -> None:
    layer, one = nn.Linear(1, 1, bias=False), torch.ones(1, 1)
    with torch.autocast("cpu", torch.bfloat16), without_autocast_cache():
        layer(one)
        layer.weight.data.fill_(2.0)
        assert layer(one).item() == 2.0


def test_when_bf16_is_used() -> None:
    cpu = torch.device("cpu")
    assert (use_bf16("bf16", cpu), use_bf16("float32", cpu)) == (True, False)


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
    images = batches(1)[0].float()
    for cached in (spectra._cosines, spectra._bands):
        cached.cache_clear()
    network = tiny_network().float()
    answer = midway.adapt(network, name, **settings)(images)
    torch.set_default_dtype(torch.float32)
    assert answer.equal(midway.adapt(network, name, **settings)(images))
