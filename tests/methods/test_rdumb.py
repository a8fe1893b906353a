from __future__ import annotations

import pytest
import torch

import midway
from midway.adaptation.problem import CIFAR_SIZE, IMAGENET_SIZE
from midway.testing import batches, tiny_network

SETTINGS = {"margin": 2.0, "redundancy": 1.1, "lr": 1e-2}


def test_it_is_eta_that_starts_again() -> None:
    stream = batches(7)
    method = midway.RDumb(tiny_network(), every=3, **SETTINGS)  # type: ignore[arg-type]
    wrapped = midway.Periodic(midway.EATA(tiny_network(), **SETTINGS), every=3)  # type: ignore[arg-type]
    eata = midway.EATA(tiny_network(), **SETTINGS)  # type: ignore[arg-type]
    for number, images in enumerate(stream):
        if number in (3, 6):
            eata.reset()
        expected = eata(images)
        assert torch.equal(method(images), expected)
        assert torch.equal(wrapped(images), expected)
    assert method.diagnostics["resets"] == wrapped.diagnostics["resets"] == 2
    assert method.diagnostics["judged"] == wrapped.diagnostics["judged"] == 7 * 12  # counters go on
    assert method.batches == wrapped.batches == 1
    method.reset()
    assert (method.batches, method.diagnostics) == (0, {})


def test_streams_shorter_than_the_interval_are_those_of_eta() -> None:
    method, eata = midway.RDumb(tiny_network()), midway.EATA(tiny_network(), redundancy=0.4)
    assert method.hyperparameters["every"] == 1000
    for images in batches(3):
        assert torch.equal(method(images), eata(images))


def test_an_inner_wrapper_is_reset_too() -> None:
    method = midway.Periodic(midway.Guarded(midway.Tent(tiny_network(), lr=0.1)), every=2)
    first, second, third = batches(3)
    expected = method(first)
    method(second)
    assert torch.equal(method(first), expected)
    assert method.about.name == "periodic(guarded(tent))"
    assert not torch.equal(method(third), midway.BN(tiny_network())(third))


def test_published_settings() -> None:
    for classes, redundancy in ((10, 0.4), (100, 0.4), (1000, 0.05)):
        assert midway.RDumb.defaults_for(CIFAR_SIZE._replace(classes=classes))["redundancy"] == redundancy
    assert midway.RDumb.defaults_for(IMAGENET_SIZE) == {"redundancy": 0.05, "optimizer": "sgd", "lr": 2.5e-4}


def test_intervals_below_one_are_refused() -> None:
    with pytest.raises(ValueError, match="every must be at least 1, got 0"):
        midway.RDumb(tiny_network(), every=0)
    with pytest.raises(ValueError, match="every must be at least 1, got 0"):
        midway.Periodic(midway.Tent(tiny_network()), every=0)
