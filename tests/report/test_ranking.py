"""Ranks, winners, the Pareto front, paired pairs, and verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midway.bench import Record
from midway.report import Frame, Row, frame, pareto_front, rank
from midway.report.ranking import Ranked, difference, find_winner, scopes, verdict, versus_best, winners
from midway.significance import compare_paired
from midway.streams import Scenario

Made = Callable[..., Record]
PAIR = "outlier:fog/snow@0.1"


def rows(values: dict[tuple[str, str, int], float], *, group: str = "all") -> Frame:
    return Frame(
        tuple(Row(label, Scenario.parse(text), group, seed, "accuracy", v) for (label, text, seed), v in values.items())
    )


def test_only_what_all_methods_have_counts(made: Made) -> None:
    records = [
        made("bn", "pure:fog", 70.0),
        made("bn", "pure:snow", 10.0),
        made("tent", "pure:fog", 72.0),
        made("tent", "pure:fog", 60.0, seed=1),
        made("bn", "pure:fog", 64.0, seed=1),
    ]
    ranking = rank(frame(records))
    fog = Scenario.parse("pure:fog")
    assert ranking.keys == ((fog, 0), (fog, 1))
    assert [(m.label, m.mean, m.values) for m in ranking.methods] == [
        ("bn", 67.0, (70.0, 64.0)),
        ("tent", 66.0, (72.0, 60.0)),
    ]
    assert ranking.methods[0].costs["gflops"] == 2.0
    assert ranking.left_out == ()
    assert [m.label for m in rank(frame(records), metric="seconds_per_batch").methods] == ["bn", "tent"]


def test_a_method_that_shares_nothing_is_left_out(made: Made) -> None:
    records = [made("bn", "pure:fog", 70.0), made("tent", "pure:fog", 72.0), made("mita", "pure:snow", 80.0)]
    ranking = rank(frame([*records, made("bn", "pure:frost", 1.0), made("tent", "pure:frost", 2.0)]))
    assert [method.label for method in ranking.methods] == ["tent", "bn"]
    assert ranking.left_out == ("mita",)


def test_scopes_are_kinds_and_parts_of_pairs_and_never_nan(made: Made) -> None:
    found = scopes(frame([made("bn", "pure:fog", 1.0), made("bn", PAIR, 1.0, 2.0, 2.0)]))
    titles = ["pure", "outlier: all images", "outlier: the outliers", "outlier: the rest"]
    assert [title for title, _ in found.values()] == titles
    assert [part for _, part in scopes(frame([made("bn", PAIR, math.nan, 80.0, 77.0)]))] == ["all", "B"]
    assert rank(frame([made("bn", "pure:fog", 70.0)]), part="A").methods == ()


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), min_size=1, max_size=12))
def test_nobody_beats_the_front_and_everybody_else_is_beaten(pairs: list[tuple[int, int]]) -> None:
    methods = [Ranked(str(index), float(a), (), {"cost": float(cost)}) for index, (a, cost) in enumerate(pairs)]
    front = [methods[int(label)] for label in pareto_front(methods, "cost")]
    for one in methods:
        assert [other for other in front if other.mean >= one.mean and other.costs["cost"] <= one.costs["cost"]]
        no_worse = [o for o in methods if o.mean >= one.mean and o.costs["cost"] <= one.costs["cost"]]
        if one in front:
            assert all((o.mean, o.costs) == (one.mean, one.costs) for o in no_worse)
    assert [m.costs["cost"] for m in front] == sorted(m.costs["cost"] for m in front)


def test_the_winner_and_its_lead(records: list[Record]) -> None:
    winner = find_winner(frame(records))
    assert winner is not None
    assert winner.lead is not None
    assert winner.source is not None
    ours = [r.result.accuracy for r in records if r.cell.label == "mita" and r.result]
    theirs = [r.result.accuracy for r in records if r.cell.label == "source" and r.result]
    assert (winner.best.label, winner.count) == ("mita", 9)
    assert winner.best.mean == pytest.approx(sum(ours) / 9)
    assert winner.lead.difference == pytest.approx((sum(ours) - sum(theirs)) / 9)
    assert winner.source.mean == pytest.approx(sum(theirs) / 9)


def test_the_best_of_each_scenario(records: list[Record]) -> None:
    found = {winner.scope: (winner.best.label, winner.best.mean) for winner in winners(frame(records))}
    assert found == {
        "pure": ("mita", pytest.approx((76.5 + 73.0) / 2)),
        "outlier: all images": ("mita", pytest.approx(69.875)),
        "outlier: the outliers": ("source", 50.0),
        "outlier: the rest": ("mita", 70.0),
    }


def test_seeds_of_one_stream_are_no_independent_pairs() -> None:
    gains = {("pure:fog", 0): 1.0, ("pure:fog", 1): 2.0, ("pure:snow", 0): 3.0, ("pure:snow", 1): 4.0}
    values = {("tent", *key): 50.0 for key in gains} | {("mita", *key): 50 + gain for key, gain in gains.items()}
    found = versus_best(rows(values))["all"]
    assert (found.pairs, found.difference) == (2, 2.5)
    fog = {key: value for key, value in values.items() if key[1] == "pure:fog"}
    assert versus_best(rows(fog))["all"].pairs == 2


def test_streams_of_nearly_the_same_images_are_one_pair() -> None:
    texts = ("pure:snow", "outlier:fog/snow@0.005", "mixture:fog/snow@0.1", "mixture:fog/snow@0.5", "pure:snow#3")
    values = {("tent", text, 0): 50.0 for text in texts}
    values |= {("mita", text, 0): 50.0 + index for index, text in enumerate(texts)}
    found = versus_best(rows(values))["all"]
    assert (found.pairs, found.difference) == (3, (1 + 3 + 4) / 3)
    outliers = {key: value for key, value in values.items() if "fog" in key[1]}
    assert versus_best(rows(outliers, group="fog"))["A"].pairs == 3


def test_streams_that_one_method_lacks_are_left_out_for_all() -> None:
    values = {("tent", "pure:fog", 0): 70.0, ("tent", "pure:snow", 0): 0.0, ("mita", "pure:fog", 0): 71.0}
    assert versus_best(rows(values))["all"].difference == 1
    del values["tent", "pure:fog", 0]
    assert versus_best(rows(values)) == {}
    assert versus_best(rows({("tent", "pure:snow", 0): 0.0})) == {}


@pytest.mark.parametrize(
    ("ours", "theirs", "word"),
    [
        ([71.0], [70.0], "unknown"),
        ([71.0, 72.0, 73.5], [70.0, 71.1, 72.4], "only by the t-test"),
        ([71.0, 70.0, 73.5], [70.0, 71.1, 72.4], "no"),
        ([70.0] * 3, [70.0] * 3, "no"),
        ([float(n) + 1 + n / 10 for n in range(8)], [float(n) for n in range(8)], "yes"),
        ([1.0, -1.0, 2.0, -2.0, 3.0, -3.0], [0.0] * 6, "no"),
        ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 40.0], [0.0] * 7, "the tests disagree"),
    ],
)
def test_verdicts(ours: list[float], theirs: list[float], word: str) -> None:
    assert verdict(compare_paired(ours, theirs)).word == word


def test_the_difference_of_two_runs(made: Made) -> None:
    first = frame([made("bn", PAIR, 50.0, 60.0, 59.0), made("tent", "pure:fog", 70.0)])
    second = frame([made("bn", PAIR, 52.0, 61.0, 60.5), made("mita", "pure:fog", 80.0)])
    found = difference(first, second)
    assert found.overall is not None
    assert (found.overall.difference, found.overall.pairs) == (1.5, 1)
    by_group = {row.group: row.value for row in found.frame.where(metric="accuracy")}
    assert by_group == {"fog": 2.0, "snow": 1.0, "all": 1.5}
    assert [row.value for row in found.frame.where(metric="images", group="all")] == [1000]
    assert (found.only_first, found.only_second) == (("tent",), ("mita",))
