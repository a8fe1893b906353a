"""The part of the page about what a second run changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from midway.bench import Comparison
from midway.report.figures.style import Look, looks_of
from midway.report.html.accuracy import cut
from midway.report.html.answer import verdict
from midway.report.html.charts import change_chart, method_data, to_figures
from midway.report.html.differences import Difference, difference
from midway.report.html.section import shown, title_of
from midway.report.html.tables import Fact, facts, to_html
from midway.report.stored_run import StoredRun


@dataclass(frozen=True)
class Change:
    """A comparison that two runs have, with what its part of the page needs."""

    title: str
    found: Difference
    looks: dict[str, Look]
    charts: list[dict[str, Any]]

    @classmethod
    def of(cls, first: Comparison, second: Comparison, names: tuple[str, str]) -> Change:
        """Compare two comparisons of one title."""
        looks = looks_of([*first.results, *second.results])
        order = list(looks)
        ordered = tuple(sorted(first.results, key=lambda result: order.index(result.label)))
        found = difference(replace(first, results=ordered), second, names=names)
        changes = {label: each.difference for label, each in found.by_method.items()}
        about = f"Mean accuracy of {names[1]} less that of {names[0]}, on what both have."
        return cls(second.title, found, looks, [change_chart(changes, looks, about=about)] if changes else [])

    @property
    def data(self) -> dict[str, Any]:
        """What the script reads."""
        return {"methods": method_data(self.looks), "charts": self.charts}

    def html(self, number: int) -> str:
        """Write it, under its title."""
        return f'<section data-section="{number}"><h3>{escape(self.title)}</h3>{self._body()}</section>'

    def _body(self) -> str:
        found, looks = self.found, self.looks
        if found.overall is None:
            return '<p class="notice">The two runs have no method, stream and seed in common.</p>'
        gain = found.overall
        sign = "above" if gain.difference > 0 else "below" if gain.difference < 0 else "level with"
        size = f"{abs(gain.difference):.2f} points " if gain.difference else ""
        only = "".join(
            f"<p>Only {escape(name)} has {', '.join(title_of(label, looks) for label in labels)}.</p>"
            for name, labels in found.only.items()
        )
        by_method: list[list[Fact]] = [
            [
                title_of(label, looks),
                (each.difference, f"{each.difference:+.2f}"),
                (each.wins / each.pairs, f"{each.wins} of {each.pairs}"),
                escape(str(verdict(each))),
            ]
            for label, each in found.by_method.items()
        ]
        settings = [
            [escape(key), escape(shown(before)), escape(shown(after))]
            for key, (before, after) in found.settings.items()
        ]
        differing = facts("Settings that differ", ["setting", escape(found.first), escape(found.second)], settings)
        return (
            f'<p class="answer"><b>{escape(found.second)}</b> is {size}{sign} <b>{escape(found.first)}</b>, mean over '
            f"{gain.pairs} results that both have; above in {gain.wins}, below in {gain.losses}. "
            f"Significant? {escape(str(verdict(gain)))}.</p>{only}"
            f"{facts('Change by method', ['method', 'points', 'above', 'significant?'], by_method)}"
            f"{to_figures(self.charts)}{''.join(to_html(part, looks) for part in cut(found.table))}"
            + (f"<h4>Settings that differ</h4>{differing}" if settings else "<p>Both runs have the same settings.</p>")
        )


def changes(first: StoredRun, second: StoredRun) -> tuple[list[Change], list[tuple[str, str]]]:
    """Pair the comparisons of two runs that have the same title; of several, those with most settings in common.

    Returns:
        The pairs, and what just one run has: its name, and the title.
    """
    made, alone = [], []
    left = list(first.comparisons)
    for comparison in second.comparisons:
        settings = comparison.settings.items()
        partner = max(
            (each for each in left if each.title == comparison.title),
            key=lambda each: sum(each.settings.get(name) == value for name, value in settings),
            default=None,
        )
        if partner is None:
            alone.append((second.name, comparison.title))
        else:
            left.remove(partner)
            made.append(Change.of(partner, comparison, (first.name, second.name)))
    return made, [*((first.name, each.title) for each in left), *alone]


def changes_html(made: Sequence[Change], alone: Sequence[tuple[str, str]], *, number: int) -> str:
    """Write what changed, comparison by comparison.

    Args:
        made: What both runs have.
        alone: What just one run has.
        number: Of the first one among what the script reads.
    """
    parts = "".join(change.html(number + place) for place, change in enumerate(made))
    none = "" if made else '<p class="notice">The two runs have no comparison of the same title.</p>'
    rest = "".join(f"<p>Only {escape(name)} has the comparison {escape(title)}.</p>" for name, title in alone)
    return f'<section id="difference"><h2>What changed</h2>{none}{parts}{rest}</section>'
