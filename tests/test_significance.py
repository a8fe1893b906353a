from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from midway.significance import compare_paired, compare_with_best, signed_rank_test, summarise

numbers = st.floats(-50, 50).map(lambda value: round(value, 2))


def naive_signed_rank(differences: list[float]) -> float:
    """Try every choice of signs."""
    sizes = sorted(map(abs, differences))
    rank = {size: 1 + sizes.index(size) + (sizes.count(size) - 1) / 2 for size in sizes}
    moving = [value for value in differences if value]
    seen = sum(rank[abs(value)] for value in moving if value > 0)
    sums = [
        sum(rank[abs(value)] for value, up in zip(moving, signs, strict=True) if up)
        for signs in itertools.product((False, True), repeat=len(moving))
    ]
    low, high = sum(total <= seen for total in sums), sum(total >= seen for total in sums)
    return min(1.0, 2 * min(low, high) / len(sums))


@settings(max_examples=40)
@given(st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=9))
def test_the_exact_signed_rank_test_counts_every_choice_of_signs(differences: list[float]) -> None:
    assert signed_rank_test(differences) == pytest.approx(naive_signed_rank(differences))


@settings(max_examples=40)
@given(st.lists(st.integers(1, 10_000), min_size=2, max_size=25, unique=True), st.integers(0, 1000))
def test_without_ties_it_is_scipys_exact_test(sizes: list[int], seed: int) -> None:
    signs = random.Random(seed)
    differences = [float(size * signs.choice((-1, 1))) for size in sizes]
    assert signed_rank_test(differences) == pytest.approx(stats.wilcoxon(differences, method="exact").pvalue)


def test_hundreds_of_differences_agree_with_the_normal_approximation() -> None:
    generator = random.Random(0)
    differences = [round(generator.gauss(0.1, 1), 2) for _ in range(400)]
    approximate = stats.wilcoxon(differences, zero_method="pratt", method="asymptotic").pvalue
    assert 0.01 < approximate < 0.3
    assert signed_rank_test(differences) == pytest.approx(approximate, abs=5e-4)


@settings(max_examples=40)
@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=12))
def test_the_t_test_is_scipys(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = map(list, zip(*pairs, strict=True))
    found = compare_paired(ours, theirs)
    differences = [round(a - b, 9) for a, b in pairs]
    if len(set(differences)) == 1:
        assert found.t_test is None
        assert found.spread == 0
    else:
        assert found.t_test == pytest.approx(stats.ttest_rel(ours, theirs).pvalue, rel=1e-6)
    back = compare_paired(theirs, ours)
    assert (back.wins, back.losses) == (found.losses, found.wins)
    assert back.difference == pytest.approx(-found.difference)
    assert back.signed_rank == found.signed_rank


def test_by_hand() -> None:
    found = compare_paired([71.0, 73.0, 75.0, 70.0], [70.0, 71.0, 72.0, 70.0], rival="tea")
    # differences 1, 2, 3, 0: mean 1.5, variance 5/3, t = 1.5 / sqrt(5/12) = 2.3238 with 3 degrees of freedom
    assert found.difference == 1.5
    assert found.spread == pytest.approx(math.sqrt(5 / 3))
    assert (found.pairs, found.wins, found.losses) == (4, 3, 0)
    assert found.t_test == pytest.approx(0.1027, abs=5e-5)
    assert found.signed_rank == 0.25  # three signs: 2 of 8 choices


def test_few_and_equal_differences_give_no_false_certainty() -> None:
    single = compare_paired([71.0], [70.0], rival="tent")
    assert (single.spread, single.t_test, single.signed_rank) == (None, None, None)
    assert str(single) == "+1.00 points against tent (1 of 1 above, 0 below, too few for a test)"
    constant = compare_paired([70.1, 71.1, 72.1], [70.0, 71.0, 72.0])  # differ only in the last bits
    assert (constant.spread, constant.t_test, constant.signed_rank) == (0, None, 0.25)
    same = compare_paired([70.0, 71.0], [70.0, 71.0])
    assert (same.difference, same.wins, same.losses, same.t_test, same.signed_rank) == (0, 0, 0, None, 1)


def test_the_rival_is_the_best_of_the_others() -> None:
    scores = {"tent": [70.0, 60.0], "mita": [73.0, 59.0], "tea": [69.0, 63.0]}
    assert compare_with_best(scores, "mita") == compare_paired([73.0, 59.0], [69.0, 63.0], rival="tea")
    assert compare_with_best(scores, "tent").rival == "mita"
    with pytest.raises(ValueError, match="unknown method 'mitta': did you mean 'mita'"):
        compare_with_best(scores, "mitta")
    with pytest.raises(ValueError, match="mita stands alone"):
        compare_with_best({"mita": [1.0]}, "mita")
    with pytest.raises(ValueError, match="2 values against 1 of tea"):
        compare_paired([1.0, 2.0], [1.0], rival="tea")


def test_means_and_spreads() -> None:
    assert summarise([4.0]) == summarise((4.0,))
    assert summarise([4.0]).spread is None
    found = summarise([1.0, 2.0, 4.0])
    assert found.mean == pytest.approx(7 / 3)
    assert found.spread == pytest.approx(math.sqrt(((4 / 3) ** 2 + (1 / 3) ** 2 + (5 / 3) ** 2) / 2))
    with pytest.raises(ValueError, match="no values"):
        summarise([])
