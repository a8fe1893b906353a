"""The scripts in examples/ run, and show what they say."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from midway.methods import METHODS

EXAMPLES = Path(__file__).parents[1] / "examples"
IMAGES = 100


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Return a function that runs an example; what it registers is forgotten afterwards."""
    monkeypatch.setattr(METHODS, "_objects", dict(METHODS))
    monkeypatch.syspath_prepend(EXAMPLES)
    yield lambda name, **arguments: importlib.import_module(name).main(IMAGES, **arguments)
    for path in EXAMPLES.glob("*.py"):
        sys.modules.pop(path.stem, None)


def own_model(run: Callable[..., Any]) -> None:
    result = run("own_model")
    assert result["bn"].accuracy > result["source"].accuracy + 20


def mixed_batches(run: Callable[..., Any]) -> None:
    blur = {label: groups["gaussian_blur"] for label, groups in run("mixed_batches").items()}
    assert blur["mixture, bn, clustered"] > blur["mixture, bn"] + 10
    assert blur["mixture, bn"] > blur["mixture, source"]


def own_method(run: Callable[..., Any]) -> None:
    result = run("own_method", contract=False)  # it takes long; CONTRIBUTING.md has the same method
    assert result["confident_half"].accuracy > result["source"].accuracy + 20


def in_production(run: Callable[..., Any]) -> None:
    assert run("in_production") == {"same": 1.0, "fresh": 1.0, "batches": 2.0}


CHECKS: dict[str, Callable[[Callable[..., Any]], None]] = {
    each.__name__: each for each in (own_model, mixed_batches, own_method, in_production)
}


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_example(name: str, run: Callable[..., Any]) -> None:
    CHECKS[name](run)


def test_the_method_of_the_example_fulfils_a_part_of_the_contract(run: Callable[..., Any]) -> None:
    import midway
    from midway.testing import CONTRACT

    importlib.import_module("own_method")
    for check in CONTRACT[:3]:
        check(lambda model: midway.adapt(model, "confident_half"))
