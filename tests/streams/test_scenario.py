from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midway.data import corruption_names
from midway.streams import Scenario, Stream, build, expand, scenario
from midway.streams.parsing import RATIOS
from midway.streams.registry import REGISTRY

names = st.sampled_from(corruption_names())


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    kind = draw(st.sampled_from(sorted(REGISTRY)))
    rules = REGISTRY[kind]
    shifts = draw(st.lists(names, min_size=rules.count or 1, max_size=rules.count or 4, unique=True))
    amount: float | None = None
    if rules.amount_kind == "count":
        amount = draw(st.integers(1, 50))
    elif rules.amount_kind is not None:
        amount = draw(st.floats(1e-6, 1 - 1e-6) if rules.amount_kind == "share" else st.floats(1e-6, 1e6))
        amount = 0.0 if rules.amount_kind == "nonnegative" and draw(st.booleans()) else amount
    return Scenario(kind, tuple(shifts), amount, draw(st.integers(1, 5)))


@given(scenarios())
def test_text_and_back_is_the_same_scenario(scenario: Scenario) -> None:
    assert Scenario.parse(str(scenario)) == scenario
    assert str(Scenario.parse(str(scenario))) == str(scenario)


def test_the_texts_of_the_paper() -> None:
    assert Scenario.parse("pure:gaussian_noise") == Scenario("pure", ("gaussian_noise",), None, 5)
    assert str(Scenario.parse("outlier:glass_blur/gaussian_noise")) == "outlier:glass_blur/gaussian_noise@0.005"
    assert str(Scenario.parse("mixture:fog/snow@0.50#5")) == "mixture:fog/snow@0.5"
    assert str(Scenario.parse("recurring:fog+snow@3#2")) == "recurring:fog+snow@3#2"
    assert Scenario.parse("dirichlet:fog").amount == 0.1
    assert Scenario.parse("pure:fog", severity=2).severity == 2
    assert Scenario.parse("pure:fog#4", severity=2).severity == 4


def test_clean_images_have_one_severity() -> None:
    assert (
        Scenario.parse("pure:clean", severity=2)
        == Scenario("pure", ("clean",))
        == Scenario("pure", ("clean",), None, 3)
    )
    with pytest.raises(ValueError, match="clean images have no severity, leave out #3"):
        Scenario.parse("pure:clean#3")
    with pytest.raises(ValueError, match="choose a corruption for gradual"):
        Scenario.parse("gradual:clean")


def test_words_for_several() -> None:
    assert [scenario.shifts for scenario in expand("pure:all#3")] == [(name,) for name in corruption_names("benchmark")]
    assert {scenario.severity for scenario in expand("pure:all#3")} == {3}
    assert [scenario.shifts[0] for scenario in expand("dirichlet:tuning@0.5")] == list(corruption_names("tuning"))
    (continual,) = expand("continual:all")
    assert continual.shifts == corruption_names("benchmark")
    assert Scenario.parse(str(continual)) == continual
    with pytest.raises(ValueError, match="'pure:all' stands for 15 scenarios where one is expected"):
        Scenario.parse("pure:all")


def test_the_sweep_is_a_list_of_mixtures() -> None:
    assert [str(each) for each in expand("sweep:fog/snow")] == [f"mixture:fog/snow@{ratio}" for ratio in RATIOS]
    assert [str(each) for each in expand("sweep:fog/snow@0.3+0.7#1")] == [
        "mixture:fog/snow@0.3#1",
        "mixture:fog/snow@0.7#1",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("puer:fog", "unknown scenario 'puer': did you mean 'pure'?"),
        ("pure", "'pure' is not understood: write pure like pure:fog."),
        ("pure:", "'pure:' is not understood: write pure like pure:fog."),
        ("pure:fog@0.5", "pure takes no number after @, got 0.5: write pure:fog."),
        ("pure:fog#9", "severity must be an integer from 1 to 5, got 9."),
        ("pure:fog#x", "'pure:fog#x': 'x' is not an integer; write it like pure:fog."),
        ("pure:fog/snow", "'fog/snow' is not the name of a shift: write pure like pure:fog."),
        ("pure:fog#3@2", "'pure:fog#3@2' is not understood: write pure like pure:fog."),
        ("outlier:fog", "outlier takes 2 shifts, got 1: write it like outlier:glass_blur/gaussian_noise@0.005."),
        ("outlier:fog/snow@1.5", "the ratio in outlier must be between 0 and 1, got 1.5."),
        ("outlier:fog/snow@few", "'outlier:fog/snow@few': 'few' is not a number"),
        ("mixture:fog/fog", "mixture:fog/fog names a shift twice: name each once."),
        ("recurring:fog@1.5", "the rounds in recurring must be an integer of at least 1, got 1.5."),
        ("dirichlet:fog@0", "the concentration in dirichlet must be above 0, got 0."),
        ("dirichlet:fog@nan", "the concentration in dirichlet must be above 0, got nan."),
        ("sweep:fog", "'sweep:fog' names 1 shifts, two are needed"),
    ],
)
def test_errors_say_how_it_is_written(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        expand(text)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget scenarios that a test registers."""
    monkeypatch.setattr(REGISTRY, "_objects", dict(REGISTRY))


@pytest.mark.usefixtures("registered")
def test_a_registered_scenario_has_texts_and_is_built() -> None:
    @scenario("alternating:fog/snow@2", amount="count")
    def alternating(
        data: Any, shift_a: Any, shift_b: Any, *, period: int = 2, severity: int = 5, batch_size: int = 4, seed: int = 0
    ) -> Stream:
        images, labels = data
        group = np.arange(len(labels)) // period % 2
        return Stream({"a": images, "b": images}, labels, order=np.arange(len(labels)), group=group)

    assert str(Scenario.parse("alternating:fog/clean@3#2")) == "alternating:fog/clean@3#2"
    assert Scenario.parse("alternating:fog/snow").amount == 2
    assert Scenario.parse("alternating:fog/snow").groups == ("fog", "snow")
    data = (np.zeros((6, 8, 8, 3), np.uint8), np.zeros(6, np.int64))
    stream = build("alternating:fog/snow@3", data)
    assert stream.group.tolist() == [0, 0, 0, 1, 1, 1]
    assert stream.name == "alternating:fog/snow@3"
    with pytest.raises(ValueError, match="the period in alternating must be an integer of at least 1, got 0"):
        expand("alternating:fog/snow@0")
    with pytest.raises(ValueError, match="unknown scenario 'alternatin': did you mean 'alternating'"):
        expand("alternatin:fog/snow")


def _one(data: Any, shift: Any, *, severity: int = 5, batch_size: int = 4, seed: int = 0) -> Any: ...


def _one_with(
    data: Any, shift: Any, *, rate: float = 2, severity: int = 5, batch_size: int = 4, seed: int = 0
) -> Any: ...


def _without_seed(data: Any, shift: Any, *, severity: int = 5, batch_size: int = 4) -> Any: ...


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("example", "amount", "function", "message"),
    [
        ("new", None, _one, "must be like 'outlier:glass_blur/gaussian_noise@0.005', got 'new'"),
        ("new:fog/snow", None, _one, "needs a function of (data, shift, shift, *, severity, batch_size, seed), got"),
        ("new:fog", None, _without_seed, "needs a function of (data, shift, *, severity, batch_size, seed), got"),
        ("new:fog@2", None, _one, "needs a function of (data, shift, *, severity"),
        ("new:fog@2", None, _one_with, "needs a function of (data, shift, *, severity"),
        ("new:fog", "count", _one_with, "needs a function of (data, shift, *, AMOUNT=NUMBER, severity"),
        ("new:fog@2", "share", _one_with, "the rate in new must be between 0 and 1, got 2"),
        ("pure:fog", None, _one, "the name 'pure' is already used by the scenario midway.streams.scenarios.pure"),
    ],
)
def test_a_forgotten_part_is_an_error_at_registration(example: str, amount: Any, function: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        scenario(example, amount=amount)(function)
    assert "new" not in REGISTRY


def test_groups_are_those_of_the_stream() -> None:
    data = (np.zeros((12, 8, 8, 3), np.uint8), np.zeros(12, np.int64))
    for text in ("pure:fog", "mixture:fog/snow", "continual:fog+clean", "gradual:fog+snow#3", "recurring:fog+snow"):
        assert build(text, data).groups == Scenario.parse(text).groups
