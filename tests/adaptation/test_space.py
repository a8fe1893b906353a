"""Search spaces: what they hold, and that every method's own makes sense."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midway import methods
from midway.adaptation.problem import CIFAR_SIZE, IMAGENET_SIZE
from midway.adaptation.space import Choice, Integers, LogUniform, Space, Uniform, search_over
from midway.bench.entries import Entry

SEARCHED = [
    (name, setting, space) for name in methods.names() for setting, space in methods.find(name).search_space.items()
]


def ends(space: Space) -> tuple[Any, ...]:
    return space.values if isinstance(space, Choice) else (space.low, space.high)


def test_every_method_that_has_something_to_search_says_so() -> None:
    assert {name for name, _, _ in SEARCHED} == set(methods.names()) - {"source"}


@pytest.mark.parametrize(("name", "setting", "space"), SEARCHED)
def test_declared_spaces_hold_the_defaults_and_the_method_takes_their_ends(
    name: str, setting: str, space: Space
) -> None:
    default = methods.hyperparameters(name)[setting]
    if default is None:
        default = methods.find(name).defaults_for(CIFAR_SIZE)[setting]
    assert default in space
    for value in ends(space):
        assert value in space
        others = {"data_model_steps": 2} if value == "fresh" else {}  # one more than the predictor's
        assert Entry.make(name, {setting: value} | others).complete_settings(seed=0)[setting] == value


def test_published_defaults_for_imagenet_are_within_reach_too() -> None:
    outside = [
        (name, setting)
        for name, setting, space in SEARCHED
        for value in [methods.find(name).defaults_for(IMAGENET_SIZE).get(setting)]
        if value is not None and value not in space
    ]
    assert outside == [("memo", "lr")]  # 0.00025 for ImageNet, below what CIFAR needs


@given(st.floats(1e-6, 1e3), st.floats(1.001, 1e3), st.floats(allow_nan=True))
def test_bounds_are_included_and_nothing_beyond(low: float, factor: float, value: float) -> None:
    high = low * factor
    for space in (LogUniform(low, high), Uniform(low, high)):
        assert low in space
        assert high in space
        assert (value in space) == (low <= value <= high)


def test_kinds_of_values_are_told_apart() -> None:
    assert 3 in Integers(1, 4)
    assert 3.0 not in Integers(1, 4)
    assert True not in Integers(0, 4)
    assert True not in Uniform(0, 2)
    assert "3" not in LogUniform(1, 4)
    assert 0 in Choice(0, 4)
    assert False not in Choice(0, 4)
    assert 0.0 not in Choice(0, 4)
    assert None in Choice(None, 4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LogUniform(0, 1),
        lambda: LogUniform(2, 1),
        lambda: LogUniform(1, float("inf")),
        lambda: Uniform(1, 1),
        lambda: Uniform(float("nan"), 1),
        lambda: Integers(4, 4),
        lambda: Integers(0, 4, log=True),
        lambda: Choice("one"),
        lambda: Choice(1, 2, 1),
    ],
)
def test_spaces_without_anything_to_choose_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="needs"):
        make()


def test_spaces_as_text_and_their_values() -> None:
    assert str(LogUniform(1e-4, 1e-2)) == "0.0001 to 0.01, logarithmic"
    assert str(Uniform(0.5, 0.99)) == "0.5 to 0.99"
    assert str(Integers(1, 20, log=True)) == "1 to 20, integer, logarithmic"
    assert (4 in Integers(1, 4), 2.5 in Integers(1, 4)) == (True, False)
    assert "knn" in Choice("knn", "rbf")
    assert str(Choice(1, 5, None)) == "1, 5 or None"
    assert search_over(lr=LogUniform(1e-4, 1e-2))["lr"] == LogUniform(low=0.0001, high=0.01)


def test_a_declaration_cannot_be_changed() -> None:
    declared = search_over(lr=LogUniform(1e-4, 1e-2))
    with pytest.raises(TypeError):
        declared["lr"] = LogUniform(1, 2)  # type: ignore[index]
    assert dict(methods.Source.search_space) == {}
