"""Is one method really above another? Means, spreads and paired tests over seeds or streams."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from midway._suggest import unknown


@dataclass(frozen=True)
class Summary:
    """The mean of some values and how far they scatter.

    Attributes:
        mean: Their mean.
        spread: Their standard deviation (n - 1 in the denominator); None for a single value.
        count: How many there are.
    """

    mean: float
    spread: float | None
    count: int


def summarise(values: Sequence[float]) -> Summary:
    """Return the mean and the spread of values, such as one accuracy a seed.

    Example:
        >>> from midway.significance import summarise
        >>> summarise([70.0, 71.0, 72.0])
        Summary(mean=71.0, spread=1.0, count=3)
    """
    if not values:
        raise ValueError("there are no values to summarise.")
    return Summary(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


@dataclass(frozen=True)
class PairedComparison:
    """How one method stands against another on the same seeds or streams.

    Attributes:
        rival: What it is compared with.
        difference: Mean of (method - rival).
        spread: Standard deviation of the differences; None for a single pair.
        pairs: How many there are.
        wins: Pairs in which the method is above.
        losses: Pairs in which it is below; the rest are ties.
        t_test: Two-sided p-value of the paired t-test; None for a single pair or differences that do not scatter.
        signed_rank: Two-sided p-value of Wilcoxon's signed-rank test, exact. With n pairs it is never below 2 / 2^n:
            five seeds cannot reach 0.05. None for a single pair.
    """

    rival: str
    difference: float
    spread: float | None
    pairs: int
    wins: int
    losses: int
    t_test: float | None
    signed_rank: float | None

    def __str__(self) -> str:
        spread = "" if self.spread is None else f" ± {self.spread:.2f}"
        t_test = "" if self.t_test is None else f", paired t-test {show_p_value(self.t_test)}"
        rank = "" if self.signed_rank is None else f", signed-rank test {show_p_value(self.signed_rank)}"
        tests = t_test + rank or ", too few for a test"
        return (
            f"{self.difference:+.2f}{spread} points against {self.rival} "
            f"({self.wins} of {self.pairs} above, {self.losses} below{tests})"
        )


def show_p_value(value: float) -> str:
    """Write a p-value without more digits than it deserves.

    Example:
        >>> from midway.significance import show_p_value
        >>> show_p_value(0.0312), show_p_value(2e-9)
        ('p = 0.031', 'p < 0.001')
    """
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def compare_paired(values: Sequence[float], others: Sequence[float], *, rival: str = "the other") -> PairedComparison:
    """Compare two methods pair by pair: one number of each for every seed or stream, in the same order.

    Example:
        >>> from midway.significance import compare_paired
        >>> print(compare_paired([71.0, 73.0, 75.0], [70.0, 71.0, 72.0], rival="tea"))
        +2.00 ± 1.00 points against tea (3 of 3 above, 0 below, paired t-test p = 0.074, signed-rank test p = 0.250)
    """
    if len(values) != len(others):
        raise ValueError(f"{len(values)} values against {len(others)} of {rival}: pairs need as many of both.")
    # Rounded, as equal differences of decimal numbers may differ in their last bits: a t-test would take that for a
    # tiny spread.
    differences = [round(ours - theirs, 9) for ours, theirs in zip(values, others, strict=True)]
    summary = summarise(differences)
    return PairedComparison(
        rival=rival,
        difference=summary.mean,
        spread=summary.spread,
        pairs=summary.count,
        wins=sum(difference > 0 for difference in differences),
        losses=sum(difference < 0 for difference in differences),
        t_test=_t_test(summary),
        signed_rank=signed_rank_test(differences) if len(differences) > 1 else None,
    )


def compare_with_best(scores: Mapping[str, Sequence[float]], method: str) -> PairedComparison:
    """Compare a method with the best of the others, which is the one with the highest mean.

    The scores are in the same order for all methods. The rival is chosen by the numbers it is tested on, in its favour.

    Example:
        >>> from midway.significance import compare_with_best
        >>> scores = {"tent": [70.0, 60.0], "tea": [72.0, 61.0], "mita": [73.0, 64.0]}
        >>> compare_with_best(scores, "mita").rival
        'tea'
    """
    if method not in scores:
        raise ValueError(unknown("method", method, scores))
    others = {name: fmean(values) for name, values in scores.items() if name != method}
    if not others:
        raise ValueError(f"{method} stands alone: there is nothing to compare it with.")
    rival = max(others, key=lambda name: others[name])
    return compare_paired(scores[method], scores[rival], rival=rival)


def _t_test(differences: Summary) -> float | None:
    from scipy.special import stdtr  # slow to import

    if not differences.spread:
        return None
    t = differences.mean / (differences.spread / math.sqrt(differences.count))
    return float(2 * stdtr(differences.count - 1, -abs(t)))


def signed_rank_test(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of Wilcoxon's signed-rank test in Pratt's form, exact even with ties.

    Zeros take part in the ranking and are then left out; equal sizes share their mean rank. No differences give 1.

    Example:
        >>> from midway.significance import signed_rank_test
        >>> signed_rank_test([0.3, 1.0, 2.0, 0.5])  # all above zero: 2 of 16 choices of signs are as extreme
        0.125
    """
    sizes = np.asarray(differences, dtype=np.float64)
    _, place, ties = np.unique(np.abs(sizes), return_inverse=True, return_counts=True)
    ranks = (2 * np.cumsum(ties) - ties + 1)[place]  # doubled, so that shared ranks are whole
    above = int(ranks[sizes > 0].sum())
    chance = np.ones(1)  # chance[s]: that the ranks of random signs above zero sum to s
    for rank in ranks[sizes != 0]:
        chance = (np.pad(chance, (0, rank)) + np.pad(chance, (rank, 0))) / 2
    return float(min(1.0, 2 * min(chance[: above + 1].sum(), chance[above:].sum())))
