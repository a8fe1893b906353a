from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midway.bench import Result
from midway.report.labels import tell_apart
from midway.report.standings import Standing, pareto_front, parts_of, scopes, stand

Made = Callable[..., Result]
PAIR = "outlier:fog/snow@0.1"


def test_only_what_all_methods_have_counts(made: Made) -> None:
    results = [
        made("bn", "pure:fog", 70.0),
        made("bn", "pure:snow", 10.0),
        made("tent", "pure:fog", 72.0),
        made("tent", "pure:fog", 60.0, seed=1),
        made("bn", "pure:fog", 64.0, seed=1),
    ]
    found = stand(results)
    assert found.places == (("pure:fog", 0), ("pure:fog", 1))
    assert [(s.label, s.accuracy, s.accuracies) for s in found.methods] == [
        ("bn", 67.0, (70.0, 64.0)),
        ("tent", 66.0, (72.0, 60.0)),
    ]
    assert found.methods[0].gflops == 2.0  # 4e11 operations over 200 images
    assert found.left_out == ()


def test_a_method_that_shares_nothing_is_left_out(made: Made) -> None:
    results = [made("bn", "pure:fog", 70.0), made("tent", "pure:fog", 72.0), made("mita", "pure:snow", 80.0)]
    found = stand([*results, made("bn", "pure:frost", 1.0), made("tent", "pure:frost", 2.0)])
    assert [s.label for s in found.methods] == ["tent", "bn"]
    assert found.left_out == ("mita",)


def test_parts_are_those_of_pairs_and_never_nan(made: Made) -> None:
    assert parts_of(made("bn", PAIR, 50.0, 80.0, 77.0)) == {"A": 50.0, "B": 80.0, "all": 77.0}
    assert parts_of(made("bn", PAIR, math.nan, 80.0, 77.0)) == {"B": 80.0, "all": 77.0}
    assert parts_of(made("bn", "pure:fog", 70.0)) == {"all": 70.0}
    assert parts_of(made("bn", "my own stream", 70.0)) == {"all": 70.0}
    assert [name for _, _, name in scopes([made("bn", "Tuesday", 1.0), made("bn", PAIR, 1.0, 2.0, 2.0)])] == [
        "Tuesday",
        "outlier: all images",
        "outlier: the outliers",
        "outlier: the rest",
    ]
    assert stand([made("bn", "pure:fog", 70.0)], part="A").methods == ()


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), min_size=1, max_size=12))
def test_nobody_beats_the_front_and_everybody_else_is_beaten(rows: list[tuple[int, int]]) -> None:
    standings = [Standing(str(place), float(a), (), float(cost), None) for place, (a, cost) in enumerate(rows)]
    front = [standings[int(label)] for label in pareto_front(standings, "seconds")]
    for one in standings:
        no_worse = [other for other in front if other.accuracy >= one.accuracy and other.seconds <= one.seconds]
        assert no_worse
        strictly = [o for o in standings if o.accuracy >= one.accuracy and o.seconds <= one.seconds]
        if one in front:
            assert all((o.accuracy, o.seconds) == (one.accuracy, one.seconds) for o in strictly)
    assert [s.seconds for s in front] == sorted(s.seconds for s in front)


def test_labels_name_what_differs(made: Made) -> None:
    def of(label: str, **settings: object) -> object:
        return made(label, "pure:fog", 60.0, method="tent", hyperparameters=settings)

    apart = tell_apart([of("tent", lr=1, steps=2, seed=0), of("tent", lr=3, steps=2, seed=1), of("other", lr=5)])  # type: ignore[list-item]
    assert [result.label for result in apart] == ["tent (lr=1)", "tent (lr=3)", "other"]
    assert apart[2].hyperparameters == {"lr": 5}


def test_wrappers_are_told_apart(made: Made) -> None:
    apart = tell_apart([made("T", "pure:fog", 60.0, method=name) for name in ("tent", "episodic(tent)")])
    assert [result.label for result in apart] == ["T (tent)", "T (episodic(tent))"]


@pytest.mark.parametrize("seeds", [(0, 1), (0, 0)])
def test_seeds_are_no_settings(made: Made, seeds: tuple[int, int]) -> None:
    results = [made("tent", "pure:fog", 60.0, hyperparameters={"lr": 1, "seed": seed}, seed=seed) for seed in seeds]
    assert tell_apart(results) == tuple(results)
