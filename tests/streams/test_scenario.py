from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midway.data import corruption_names
from midway.streams import Scenario, expand, ratio_sweep
from midway.streams.scenario import KINDS, RATIOS

names = st.sampled_from(corruption_names())


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    kind = draw(st.sampled_from(sorted(KINDS)))
    rules = KINDS[kind]
    shifts = draw(st.lists(names, min_size=rules.least, max_size=rules.most or 4, unique=True))
    amount: float | None = None
    if rules.whole:
        amount = draw(st.integers(1, 50))
    elif rules.amount:
        amount = draw(st.floats(1e-6, 1 - 1e-6) if rules.most == 2 else st.floats(1e-6, 1e6))
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
    assert expand("sweep:fog/snow") == ratio_sweep("fog", "snow")
    assert [str(each) for each in ratio_sweep("fog", "snow")] == [f"mixture:fog/snow@{ratio}" for ratio in RATIOS]
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
        ("pure:fog#9", "severity must be a whole number from 1 to 5, got 9."),
        ("pure:fog#x", "'pure:fog#x': 'x' is no whole number; write it like pure:fog."),
        ("pure:fog/snow", "'fog/snow' is no name of a shift: write pure like pure:fog."),
        ("pure:fog#3@2", "'pure:fog#3@2' is not understood: write pure like pure:fog."),
        ("outlier:fog", "outlier takes 2 shifts, got 1: write it like outlier:glass_blur/gaussian_noise@0.005."),
        ("outlier:fog/snow@1.5", "the share of the first in outlier must be between 0 and 1, got 1.5."),
        ("outlier:fog/snow@few", "'outlier:fog/snow@few': 'few' is no number"),
        ("mixture:fog/fog", "mixture:fog/fog names a shift twice: name each once."),
        ("recurring:fog@1.5", "the number of rounds in recurring must be a whole number of at least 1, got 1.5."),
        ("dirichlet:fog@0", "the concentration in dirichlet must be above 0, got 0."),
        ("dirichlet:fog@nan", "the concentration in dirichlet must be above 0, got nan."),
        ("sweep:fog", "'sweep:fog' names 1 shifts where two are needed"),
    ],
)
def test_errors_say_how_it_is_written(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        expand(text)
