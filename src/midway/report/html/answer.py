"""The answer a page opens with: who won, by how much, is it significant, at what cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from midway.bench import Comparison, Result
from midway.report.figures.style import looks_of
from midway.report.labels import stream_title
from midway.report.standings import Standing, by_stream, kind_of, scopes, stand
from midway.significance import PairedComparison, compare_paired, show_p_value

LEVEL = 0.05
FEWEST_FOR_RANKS = 6  # the signed-rank test cannot reach 0.05 with fewer pairs


@dataclass(frozen=True)
class Winner:
    """The best of some methods on some streams.

    Attributes:
        scope: What it was best on.
        best: Where it stands.
        next: The second best; None if it stands alone.
        source: Where the unadapted network stands; None if it was not run, or is the best.
        lead: Over the second best, stream by stream (seed by seed, if there is one stream); None if it stands alone.
        places: Over how many streams and seeds.
    """

    scope: str
    best: Standing
    next: Standing | None
    source: Standing | None
    lead: PairedComparison | None
    places: int


def find_winner(results: Sequence[Result], *, scope: str = "all streams", part: str = "all") -> Winner | None:
    """Find the method with the highest mean accuracy on what all were run on; None if there is nothing.

    Args:
        results: Of one comparison.
        scope: What to call the streams.
        part: Which images count.

    Example:
        >>> from midway.bench import Result
        >>> from midway.report.html.answer import find_winner
        >>> def of(label, stream, accuracy):
        ...     return Result(label, label, {}, stream, 100, accuracy, {}, {}, (), 0.5)
        >>> rows = [of("bn", "pure:fog", 70.0), of("tent", "pure:fog", 71.0), of("tent", "pure:snow", 60.0)]
        >>> winner = find_winner(rows)
        >>> winner.best.label, winner.lead.difference, winner.places
        ('tent', 1.0, 1)
    """
    standings = stand(results, part=part)
    if not standings.methods:
        return None
    best, *others = standings.methods
    sources = {result.label for result in results if result.is_unadapted}
    source = next((standing for standing in others if standing.label in sources), None)
    second = others[0] if others else None
    lead = None
    if second is not None:
        pairs = [
            by_stream(dict(zip(standings.places, each.accuracies, strict=True)), part=part) for each in (best, second)
        ]
        lead = compare_paired(*pairs, rival=second.label)
        lead = replace(lead, difference=best.accuracy - second.accuracy)  # as the means beside it have it
    return Winner(scope, best, second, source, lead, len(standings.places))


def winners_by_scenario(results: Sequence[Result]) -> list[Winner]:
    """Find the winners of every kind of stream, and of the parts of those that have parts.

    Example:
        >>> from midway.bench import Result
        >>> from midway.report.html.answer import winners_by_scenario
        >>> def of(label, outliers, rest):
        ...     groups, images = {"fog": outliers, "snow": rest}, {"fog": 1, "snow": 9}
        ...     return Result(label, label, {}, "outlier:fog/snow@0.1", 10, 50.0, groups, images, (), 0.5)
        >>> found = winners_by_scenario([of("source", 50.0, 20.0), of("bn", 30.0, 60.0)])
        >>> [(winner.scope, winner.best.label) for winner in found]
        [('outlier: all images', 'source'), ('outlier: the outliers', 'source'), ('outlier: the rest', 'bn')]
    """
    found = []
    for kind, part, name in scopes(results):
        here = [result for result in results if kind_of(result.stream) == kind]
        winner = find_winner(here, scope=name, part=part)
        if winner is not None:
            found.append(winner)
    return found


@dataclass(frozen=True)
class Verdict:
    """Whether a lead is significant.

    Attributes:
        word: Yes, no, or why that cannot be said.
        detail: The tests and their p-values; empty where there are none.
    """

    word: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.word} ({self.detail})" if self.detail else self.word


def verdict(lead: PairedComparison | None) -> Verdict:
    """Say whether a lead is significant.

    Example:
        >>> from midway.report.html.answer import verdict
        >>> from midway.significance import compare_paired
        >>> print(verdict(compare_paired([71.0], [70.0])))
        cannot be told (a single pair)
        >>> print(verdict(compare_paired([71.0, 72.0, 73.5], [70.0, 71.1, 72.4])))
        by the t-test alone (paired t-test p = 0.003; too few pairs for a rank test)
    """
    if lead is None:
        return Verdict("cannot be told", "nothing to compare with")
    if lead.pairs == 1:
        return Verdict("cannot be told", "a single pair")
    by_t = lead.t_test is not None and lead.t_test < LEVEL
    by_rank = lead.signed_rank is not None and lead.signed_rank < LEVEL
    t_test = "differences that do not scatter" if lead.t_test is None else f"paired t-test {show_p_value(lead.t_test)}"
    if lead.pairs < FEWEST_FOR_RANKS:
        return Verdict("by the t-test alone" if by_t else "no", f"{t_test}; too few pairs for a rank test")
    word = "yes" if by_t and by_rank else "no" if not (by_t or by_rank) else "the tests disagree"
    return Verdict(word, f"{t_test}; signed-rank test {show_p_value(lead.signed_rank or 0)}")


def summary(comparison: Comparison) -> str:
    """Say in one paragraph what won on each stream, and by how much over Source.

    Example:
        >>> from midway.bench import Comparison, Result
        >>> from midway.report import summary
        >>> def of(label, accuracy):
        ...     return Result(label, label, {}, "pure:fog", 100, accuracy, {}, {}, (), 0.5)
        >>> summary(Comparison("Fog", "", {}, (of("source", 60.0), of("tent", 75.5))))
        'Best on all images. pure: fog: TENT 75.5 % (+15.5 over Source).'
    """
    titles = {label: look.title for label, look in looks_of(comparison.results).items()}
    parts = []
    for stream in dict.fromkeys(result.stream for result in comparison.results):
        here = [result for result in comparison.results if result.stream == stream]
        best = max(here, key=lambda result: result.accuracy)
        source = next((result for result in here if result.is_unadapted), None)
        gain = f" ({best.accuracy - source.accuracy:+.1f} over Source)" if source else ""
        parts.append(f"{stream_title(stream)}: {titles[best.label]} {best.accuracy:.1f} %{gain}")
    return "Best on all images. " + "; ".join(parts) + "."
