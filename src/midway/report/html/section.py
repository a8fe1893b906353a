"""The part of the page about one comparison: the answer, tables, charts, settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from midway import methods
from midway.bench import Comparison, Result
from midway.report.common_seeds import common_seeds
from midway.report.figures.style import Look, looks_of
from midway.report.html.accuracy import accuracy_tables, cut
from midway.report.html.answer import LEVEL, Winner, find_winner, verdict, winners_by_scenario
from midway.report.html.charts import chart_data, method_data, to_figures
from midway.report.html.problems import warnings_of
from midway.report.html.tables import Fact, cards, cost_rows, cost_table, facts, notes_below, show_number, to_html
from midway.significance import show_p_value


@dataclass(frozen=True)
class Section:
    """A comparison that has results, and what its part of the page needs.

    Attributes:
        name: What the page calls it.
        comparison: Its results stand in the order that figures have.
        looks: Of the methods.
        charts: What the script draws.
    """

    name: str
    comparison: Comparison
    looks: dict[str, Look]
    charts: list[dict[str, Any]]

    @classmethod
    def of(cls, name: str, comparison: Comparison) -> Section:
        """Prepare a comparison; means are over seeds that all methods of a stream have."""
        looks = looks_of(comparison.results)
        order = list(looks)
        results = tuple(sorted(comparison.results, key=lambda result: order.index(result.label)))
        return cls(name, replace(comparison, results=results), looks, chart_data(common_seeds(results)))

    @property
    def data(self) -> dict[str, Any]:
        """What the script reads."""
        return {"methods": method_data(self.looks), "charts": self.charts}

    @property
    def winner(self) -> Winner:
        """Who has the highest mean accuracy."""
        winner = find_winner(self.comparison.results)
        assert winner is not None
        return winner

    def html(self, number: int) -> str:
        """Write the section."""
        results = self.comparison.results
        cost = cost_table(cost_rows(common_seeds(results)), self.looks)
        return (
            f'<section data-section="{number}" id="comparison-{number}"><h2>{escape(self.name)}</h2>'
            f"{_answer(self.winner, self.looks)}{_notice(self.comparison)}{_by_scenario(results, self.looks)}"
            f"{_controls(self.looks)}<h3>Accuracy</h3>{_tables(results, self.looks)}"
            f'<h3>Cost and calibration</h3><div class="block">{cost}</div>'
            f"<h3>Figures</h3>{to_figures(self.charts)}{_settings(self.comparison, self.looks)}</section>"
        )


def title_of(label: str, looks: Mapping[str, Look]) -> str:
    """Return what pages call a method, as HTML."""
    return escape(looks[label].title if label in looks else label)


def shown(value: Any) -> str:
    """Write the value of a setting."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _answer(winner: Winner, looks: Mapping[str, Look]) -> str:
    """Say who won, by how much, whether it is significant, and at what cost."""
    best, over = winner.best, _places(winner.places)
    name = title_of(best.label, looks)
    sentence = f"<b>{name}</b> has the highest mean accuracy: <b>{best.accuracy:.2f} %</b> over {over}"
    if winner.next is not None and winner.lead is not None:
        lead = f"{winner.lead.difference:.2f} points above" if winner.lead.difference else "level with"
        sentence += f", {lead} {title_of(winner.next.label, looks)}, the next best"
    if winner.source is not None:
        sentence += f", and {best.accuracy - winner.source.accuracy:.2f} above the unadapted Source"
    figures = [("Best", name, f"{best.accuracy:.2f} % over {over}")]
    if winner.next is not None and winner.lead is not None:
        counted = f"above in {winner.lead.wins} of {winner.lead.pairs}, below in {winner.lead.losses}"
        detail = f"over {title_of(winner.next.label, looks)}; {counted}"
        figures.append(("Lead", f"{winner.lead.difference:+.2f} points", detail))
        said = verdict(winner.lead)
        figures.append(("Significant?", escape(said.word), _unbroken(escape(said.detail))))
    figures.append(("Cost", *_cost(winner)))
    return f'<p class="answer">{sentence}.</p>{cards(figures)}'


def _unbroken(text: str) -> str:
    """Keep p-values on one line."""
    return text.replace("p = ", "p&nbsp;=&nbsp;").replace("p &lt; ", "p&nbsp;&lt;&nbsp;")


def _places(count: int) -> str:
    return "one stream" if count == 1 else f"{count} streams and seeds"


def _cost(winner: Winner) -> tuple[str, str]:
    seconds = f"{show_number(winner.best.seconds)} s a batch"
    rivals = []
    if winner.source is not None and winner.source.seconds:
        rivals.append(f"{show_number(winner.best.seconds / winner.source.seconds)} times Source")
    if winner.next is not None and winner.next is not winner.source and winner.next.seconds:
        rivals.append(f"{show_number(winner.best.seconds / winner.next.seconds)} times the next best")
    if winner.best.gflops is not None:
        rivals.append(f"{show_number(winner.best.gflops)} GFLOPs an image")
    return seconds, "; ".join(rivals)


def _notice(comparison: Comparison) -> str:
    warned = warnings_of(comparison)
    if len(warned) < 2:
        return "".join(f'<p class="notice">{escape(warning)}</p>' for warning in warned)
    listed = "".join(f"<li>{escape(warning)}</li>" for warning in warned)
    return (
        f'<details class="notice"><summary>{len(warned)} remarks on these numbers</summary><ul>{listed}</ul></details>'
    )


def _by_scenario(results: Sequence[Result], looks: Mapping[str, Look]) -> str:
    rows: list[list[Fact]] = []
    for winner in winners_by_scenario(results):
        best, lead, source = winner.best, winner.lead, winner.source
        gain = None if source is None else best.accuracy - source.accuracy
        p_value = None if lead is None else lead.signed_rank
        rows.append(
            [
                escape(winner.scope),
                title_of(best.label, looks),
                (best.accuracy, f"{best.accuracy:.2f}"),
                None if lead is None else (lead.difference, f"{lead.difference:+.2f}" if lead.difference else "level"),
                "-" if winner.next is None else title_of(winner.next.label, looks),
                None if gain is None else (gain, f"{gain:+.2f}"),
                None if p_value is None else (p_value, escape(show_p_value(p_value))),
                (winner.places, str(winner.places)),
            ]
        )
    heads = (
        "scenario",
        "best",
        "accuracy",
        "lead",
        "over",
        "over Source",
        "signed-rank test",
        "streams and seeds",
    )
    return (
        f"<h3>Best by scenario</h3>{facts('Best by scenario', heads, rows)}"
        '<ul class="notes"><li>In percent and points, means over what all methods were run on. '
        f"Tests are paired, two-sided, at {LEVEL:g}. "
        "The best is picked by the numbers it is tested on, so a p-value near the limit proves little.</li></ul>"
    )


def _controls(looks: Mapping[str, Look]) -> str:
    chips = "".join(
        f'<button type="button" class="chip" aria-pressed="true" data-method="{escape(label)}">'
        f'<span data-swatch="{escape(label)}"></span>{escape(look.title)}</button>'
        for label, look in looks.items()
    )
    return (
        '<div class="controls" hidden role="group" aria-label="What tables and figures show">'
        f'<div class="chips">{chips}<button type="button" class="chip plain all">all</button>'
        '<button type="button" class="chip plain nothing">none</button></div>'
        '<label>Columns with <input type="search" placeholder="such as fog"></label></div>'
    )


def _tables(results: Sequence[Result], looks: Mapping[str, Look]) -> str:
    """Write the tables, beside each other where there is room; what all of them say is said once."""
    tables = accuracy_tables(results)
    common = [note for note in tables[0].notes if all(note in table.notes for table in tables)] if tables else []
    source = next((result.label for result in results if result.is_unadapted), "source")
    blocks = "".join(
        f'<div class="block columns">{to_html(part, looks, source=source)}</div>'
        for table in tables
        for part in cut(replace(table, notes=tuple(note for note in table.notes if note not in common)))
    )
    return f'<div class="blocks">{blocks}</div>{notes_below(common)}'


def _settings(comparison: Comparison, looks: Mapping[str, Look]) -> str:
    settings = [[escape(str(key)), escape(shown(value))] for key, value in comparison.settings.items()]
    found: dict[str, Result] = {}
    for result in comparison.results:
        found.setdefault(result.label, result)
    entries = [[title_of(label, looks), _hyperparameters(result)] for label, result in found.items()]
    return (
        f"<h3>Settings</h3>{facts('Settings of the run', ['setting', 'value'], settings)}"
        "<details><summary>Hyper-parameters of every method; what is not the default is bold</summary>"
        f"{facts('Hyper-parameters', ['method', 'hyper-parameters'], entries, labels=list(found))}</details>"
    )


def _hyperparameters(result: Result) -> str:
    known = methods.hyperparameters(result.method) if result.method in methods.names() else {}
    defaults = json.loads(json.dumps(known, default=repr))
    parts = []
    for name, value in result.hyperparameters.items():
        text = escape(f"{name}={shown(value)}")
        changed = name in defaults and defaults[name] != value and name != "seed"
        parts.append(f"<b>{text}</b>" if changed else text)
    return ", ".join(parts) or "none"
