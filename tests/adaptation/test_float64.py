"""Networks in float64 keep their digits: neither answers nor losses are rounded to float32."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import midway
from midway.functional import at_least_float32, log_mean_softmax
from midway.testing import batches, tiny_network

SETTINGS: dict[str, dict[str, Any]] = {
    "pl": {"threshold": 0.3},
    "shot": {"threshold": 0.3},
    "aea": {"threshold": 0.3},
    "eata": {"margin": 2.0, "redundancy": 1.1},
    "rdumb": {"margin": 2.0, "redundancy": 1.1},
    "sar": {"margin": 2.0},
    "deyo": {"margin": 2.0, "threshold": -1.0},
    "cotta": {"views": 2, "threshold": 1.0},
    "dua": {"copies": 2},
    "memo": {"views": 2},
    "note": {"memory": 6},
    "rotta": {"interval": 6},
    "dda": {"respacing": 4, "steps": 1},
}
WITHOUT_LOSS = {"source", "bn", "lame", "t3a", "dua"}


def test_only_16_bits_become_float32() -> None:
    kinds = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float32}
    for kind, expected in (kinds | {torch.float64: torch.float64}).items():
        assert at_least_float32(torch.zeros(1, 2, dtype=kind)).dtype == expected
        assert log_mean_softmax([torch.zeros(1, 2, dtype=kind)]).dtype == expected


@pytest.mark.parametrize("name", midway.methods.names())
def test_answers_and_losses_of_a_float64_network_are_float64(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    losses: list[Tensor] = []
    backward, grad = Tensor.backward, torch.autograd.grad

    def recorded_backward(loss: Tensor, *args: Any, **kwargs: Any) -> None:
        losses.append(loss)
        backward(loss, *args, **kwargs)

    def recorded_grad(loss: Tensor, *args: Any, **kwargs: Any) -> Any:
        losses.append(loss)
        return grad(loss, *args, **kwargs)

    method = midway.adapt(tiny_network().double(), name, **SETTINGS.get(name, {}))
    first, second = (images.double() for images in batches(2, side=32 if name == "dda" else 16))
    answer = method(first)
    assert answer.dtype == torch.float64
    assert not torch.equal(answer, answer.float().double())  # the digits were not rounded on the way
    monkeypatch.setattr(Tensor, "backward", recorded_backward)
    monkeypatch.setattr(torch.autograd, "grad", recorded_grad)
    method(second)
    assert bool(losses) == (name not in WITHOUT_LOSS)
    assert {loss.dtype for loss in losses} <= {torch.float64}
