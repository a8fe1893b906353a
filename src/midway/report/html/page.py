"""One self-contained HTML page about a run, or two; every string is escaped, nothing is fetched."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from midway import methods
from midway.bench import Comparison, Result
from midway.report.figures.style import Look, looks_of
from midway.report.html.answer import LEVEL, Winner, find_winner, verdict, winners_by_scenario
from midway.report.html.charts import chart_data, method_data
from midway.report.html.differences import Difference, difference
from midway.report.html.gallery import Shown, pictures_of
from midway.report.html.problems import Failed, environments, failures, warnings_of
from midway.report.html.tables import cost_rows, cost_table, show_number, to_html
from midway.report.labels import tell_apart
from midway.report.paper_tables import comparison_table, measured
from midway.report.side_by_side import split_columns
from midway.report.standings import kind_of
from midway.report.stored_run import StoredRun
from midway.report.tables import Table
from midway.significance import show_p_value

MOST_COLUMNS = 18
"""Of a table in the page; wider ones are cut, so that they can be printed."""


def write_report(run: StoredRun | Comparison, path: Path, *, against: StoredRun | Comparison | None = None) -> Path:
    """Write the page to a file, whole or not at all.

    Args:
        run: What to report.
        path: The file.
        against: An earlier run to compare it with.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.bench import Comparison, Result
        >>> from midway.report import write_report
        >>> result = Result("bn", "bn", {}, "pure:fog", 4, 75.0, {"fog": 75.0}, {"fog": 4}, (70.0, 80.0), 0.125)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = write_report(Comparison("Fog", "midway run", {}, (result,)), Path(folder) / "report.html")
        ...     "75.00 %" in page.read_text()
        True
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(render(run, against=against), encoding="utf-8")
    return partial.replace(path)


def render(run: StoredRun | Comparison, *, against: StoredRun | Comparison | None = None) -> str:
    """Return the page as text."""
    runs = [_as_run(each) for each in (against, run) if each is not None]
    newest = runs[-1]
    sections = [_Section.of(each, comparison) for each in reversed(runs) for comparison in each.comparisons]
    sections = [section for section in sections if section.comparison.results]
    pictures = [(each.name, *pictures_of(each.folder)) for each in reversed(runs)]
    failed = [(each.name, failure) for each in runs for failure in failures(each.records)]
    title = newest.name if len(runs) == 1 else f"{newest.name} against {runs[0].name}"
    body = [
        _differences(runs[0], newest) if len(runs) > 1 else "",
        _contents(sections) if len(sections) > 1 else "",
        *(section.html(number, several=len(runs) > 1) for number, section in enumerate(sections)),
        "" if sections else "<p>There are no results yet.</p>",
        _gallery([shown for _, found, _ in pictures for shown in found]),
        _reproduce(runs),
        _problems(runs, failed, [note for _, _, left_out in pictures for note in left_out]),
    ]
    data = [{"methods": method_data(section.looks), "charts": section.charts} for section in sections]
    style, script = _asset("report.css"), _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escape(title)} - Midway report</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the answer</a>
<header><div><p class="faint">Midway report</p><h1>{escape(title)}</h1></div>
<button type="button" id="theme" hidden>Theme</button></header>
<main id="main">
{"".join(body)}
</main>
<footer>Made by midway {escape(methods_version())}. This file needs no network and sends nothing.</footer>
<dialog aria-label="Enlarged picture"><form method="dialog"><button>Close</button></form><img alt=""></dialog>
<script type="application/json" id="data">{_json(data)}</script>
<script>{script}</script>
</body>
</html>
"""


def methods_version() -> str:
    """Return the version of this package."""
    from midway import __version__

    return __version__


def _as_run(run: StoredRun | Comparison) -> StoredRun:
    """Take a comparison for a run, and tell results of one label and different settings apart."""
    if isinstance(run, Comparison):
        run = StoredRun(run.title, None, (run,))
    apart = tuple(replace(each, results=tell_apart(each.results)) for each in run.comparisons)
    return replace(run, comparisons=apart)


def _asset(name: str) -> str:
    return (resources.files("midway.report.html") / "assets" / name).read_text(encoding="utf-8")


def _json(content: Any) -> str:
    """Write JSON that can stand within a page: no tag can begin in it, and there is no NaN."""
    return json.dumps(_finite(content), separators=(",", ":")).replace("<", "\\u003c")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float):
        return round(value, 4) if math.isfinite(value) else None
    return value


@dataclass(frozen=True)
class _Section:
    """A comparison with what its part of the page needs."""

    run: str
    comparison: Comparison
    looks: dict[str, Look]
    charts: list[dict[str, Any]]

    @classmethod
    def of(cls, run: StoredRun, comparison: Comparison) -> _Section:
        looks = looks_of(comparison.results)
        order = list(looks)
        results = tuple(sorted(comparison.results, key=lambda result: order.index(result.label)))
        return cls(run.name, replace(comparison, results=results), looks, chart_data(results))

    def html(self, number: int, *, several: bool) -> str:
        """Write the section."""
        results = self.comparison.results
        winner = find_winner(results)
        assert winner is not None
        name = f"{self.run}: {self.comparison.title}" if several else self.comparison.title
        warned = warnings_of(self.comparison)
        notice = f'<p class="notice">{escape(warned[0])}</p>' if len(warned) == 1 else ""
        if len(warned) > 1:
            listed = "".join(f"<li>{escape(warning)}</li>" for warning in warned)
            told = f"<summary>{len(warned)} remarks on these numbers</summary><ul>{listed}</ul>"
            notice = f'<details class="notice">{told}</details>'
        return (
            f'<section data-section="{number}" id="comparison-{number}"><h2>{escape(name)}</h2>'
            f"{_answer(winner, self.looks)}{notice}{_by_scenario(results, self.looks)}"
            f"{self._controls()}<h3>Accuracy</h3>{self._tables()}"
            f'<h3>Cost and calibration</h3><div class="block">{cost_table(cost_rows(results), self.looks)}</div>'
            f"<h3>Figures</h3>{self._figures()}{_settings(self.comparison, self.looks)}</section>"
        )

    def _controls(self) -> str:
        chips = "".join(
            f'<button type="button" class="chip" aria-pressed="true" data-method="{escape(label)}">'
            f'<span data-swatch="{escape(label)}"></span>{escape(look.title)}</button>'
            for label, look in self.looks.items()
        )
        return (
            '<div class="controls" hidden role="group" aria-label="What tables and figures show">'
            f'<div class="chips">{chips}<button type="button" class="chip plain all">all</button>'
            '<button type="button" class="chip plain nothing">none</button></div>'
            '<label>Columns with <input type="search" placeholder="such as fog"></label></div>'
        )

    def _tables(self) -> str:
        made = []
        for kind in dict.fromkeys(kind_of(result.stream) for result in self.comparison.results):
            here = [result for result in self.comparison.results if kind_of(result.stream) == kind]
            numbers = [number for result in here for number in measured(result)]
            table = comparison_table(f"{kind[:1].upper()}{kind[1:]}", numbers, data=None)
            source = next((result.label for result in here if result.method == "source"), "source")
            made += [to_html(part, self.looks, source=source) for part in _cut(table)]
        return "".join(f'<div class="block columns">{table}</div>' for table in made)

    def _figures(self) -> str:
        made = []
        for number, chart in enumerate(self.charts):
            title = escape(chart["title"])
            options = "".join(f"<option>{escape(view['name'])}</option>" for view in chart["views"])
            choice = f'<select aria-label="Which: {title}">{options}</select>' if len(chart["views"]) > 1 else ""
            made.append(
                f'<figure class="chart" data-chart="{number}"><div class="head"><h4>{title}</h4>{choice}</div>'
                '<div class="canvas"><noscript>This figure is drawn by a script on this page.</noscript></div>'
                '<div class="tip" role="status" hidden></div>'
                f"<figcaption>{escape(chart['about'])}</figcaption></figure>"
            )
        return f'<div class="charts">{"".join(made)}</div>'


def _cut(table: Table) -> list[Table]:
    """Cut a table into parts that can be printed, numbered if there are several."""
    parts = split_columns(table, at_most=MOST_COLUMNS)
    if len(parts) == 1:
        return [table]
    return [
        replace(part, title=f"{table.title}, part {number} of {len(parts)}")
        for number, part in enumerate(parts, start=1)
    ]


def _title(label: str, looks: Mapping[str, Look]) -> str:
    return escape(looks[label].title if label in looks else label)


def _answer(winner: Winner, looks: Mapping[str, Look]) -> str:
    """Say who won, by how much, whether it is significant, and at what cost."""
    best, over = winner.best, _places(winner.places)
    name = _title(best.label, looks)
    sentence = f"<b>{name}</b> has the highest mean accuracy: <b>{best.accuracy:.2f} %</b> over {over}"
    if winner.next is not None and winner.lead is not None:
        lead = f"{winner.lead.difference:.2f} points above" if winner.lead.difference else "level with"
        sentence += f", {lead} {_title(winner.next.label, looks)}, the next best"
    if winner.source is not None:
        sentence += f", and {best.accuracy - winner.source.accuracy:.2f} above the unadapted Source"
    cards = [("Best", name, f"{best.accuracy:.2f} % over {over}")]
    if winner.next is not None and winner.lead is not None:
        counted = f"above in {winner.lead.wins} of {winner.lead.pairs}, below in {winner.lead.losses}"
        detail = f"over {_title(winner.next.label, looks)}; {counted}"
        cards.append(("Lead", f"{winner.lead.difference:+.2f} points", detail))
        said = verdict(winner.lead)
        cards.append(("Significant?", escape(said.word), _unbroken(escape(said.detail))))
    cards.append(("Cost", *_cost(winner)))
    shown = "".join(
        f'<div class="card"><dt>{head}</dt><dd class="figure">{figure}</dd><dd><small>{detail}</small></dd></div>'
        for head, figure, detail in cards
    )
    return f'<p class="answer">{sentence}.</p><dl class="cards">{shown}</dl>'


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


def _by_scenario(results: Sequence[Result], looks: Mapping[str, Look]) -> str:
    rows = []
    for winner in winners_by_scenario(results):
        lead = winner.lead
        beyond = "-" if lead is None else f"{lead.difference:+.2f}" if lead.difference else "level"
        against = "-" if winner.next is None else _title(winner.next.label, looks)
        gain = "-" if winner.source is None else f"{winner.best.accuracy - winner.source.accuracy:+.2f}"
        p_value = "-" if lead is None or lead.signed_rank is None else escape(show_p_value(lead.signed_rank))
        rows.append(
            f'<tr><th scope="row">{escape(winner.scope)}</th><td class="text">{_title(winner.best.label, looks)}</td>'
            f'<td>{winner.best.accuracy:.2f}</td><td>{beyond}</td><td class="text">{against}</td><td>{gain}</td>'
            f"<td>{p_value}</td><td>{winner.places}</td></tr>"
        )
    heads = ("scenario", "best", "accuracy, %", "lead", "over", "over Source", "signed-rank test", "streams and seeds")
    texts = ("scenario", "best", "over")
    shown = "".join(f'<th scope="col"{" class=text" if head in texts else ""}>{head}</th>' for head in heads)
    return (
        '<h3>Best by scenario</h3><div class="scroll" tabindex="0" role="region" aria-label="Best by scenario">'
        f"<table><thead><tr>{shown}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        f'<ul class="notes"><li>Means over what all methods were run on; tests are paired, two-sided, at {LEVEL:g}. '
        "The best is picked by the numbers it is tested on, so a p-value near the limit proves little.</li></ul>"
    )


def _contents(sections: Sequence[_Section]) -> str:
    links = []
    for number, section in enumerate(sections):
        winner = find_winner(section.comparison.results)
        best = "" if winner is None else f": {_title(winner.best.label, section.looks)} {winner.best.accuracy:.2f} %"
        links.append(f'<li><a href="#comparison-{number}">{escape(section.comparison.title)}</a>{best}</li>')
    return f'<nav aria-label="Comparisons"><ul>{"".join(links)}</ul></nav>'


def _settings(comparison: Comparison, looks: Mapping[str, Look]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(str(key))}</th><td class="text">{escape(_shown(value))}</td></tr>'
        for key, value in comparison.settings.items()
    )
    found: dict[str, Result] = {}
    for result in comparison.results:
        found.setdefault(result.label, result)
    entries = "".join(
        f'<tr data-method="{escape(label)}"><th scope="row">{_title(label, looks)}</th>'
        f'<td class="text">{_hyperparameters(result)}</td></tr>'
        for label, result in found.items()
    )
    return (
        '<h3>Settings</h3><div class="scroll" tabindex="0" role="region" aria-label="Settings of the run">'
        f"<table><tbody>{rows}</tbody></table></div>"
        "<details><summary>Hyper-parameters of every method; what is not the default is bold</summary>"
        '<div class="scroll" tabindex="0" role="region" aria-label="Hyper-parameters"><table><tbody>'
        f"{entries}</tbody></table></div></details>"
    )


def _hyperparameters(result: Result) -> str:
    known = methods.hyperparameters(result.method) if result.method in methods.names() else {}
    defaults = json.loads(json.dumps(known, default=repr))
    parts = []
    for name, value in result.hyperparameters.items():
        text = escape(f"{name}={_shown(value)}")
        changed = name in defaults and defaults[name] != value and name != "seed"
        parts.append(f"<b>{text}</b>" if changed else text)
    return ", ".join(parts) or "none"


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _differences(first: StoredRun, second: StoredRun) -> str:
    """Write what the second run changed, comparison by comparison: those of the same title, or in their order."""
    made = []
    left = list(first.comparisons)
    for comparison in second.comparisons:
        if not left:
            break
        partner = next((each for each in left if each.title == comparison.title), left[0])
        left.remove(partner)
        made.append(_difference(difference(partner, comparison, names=(first.name, second.name))))
    return f'<section id="difference"><h2>What changed</h2>{"".join(made)}</section>'


def _difference(found: Difference) -> str:
    if found.overall is None:
        return '<p class="notice">The two runs have no method, stream and seed in common.</p>'
    gain = found.overall
    sign = "above" if gain.difference > 0 else "below" if gain.difference < 0 else "level with"
    size = f"{abs(gain.difference):.2f} points " if gain.difference else ""
    sentence = (
        f"<b>{escape(found.second)}</b> is {size}{sign} <b>{escape(found.first)}</b>, mean over {gain.pairs} results "
        f"that both have; above in {gain.wins}, below in {gain.losses}. Significant? {escape(str(verdict(gain)))}."
    )
    methods_rows = "".join(
        f'<tr><th scope="row">{escape(label)}</th><td>{each.difference:+.2f}</td><td>{each.wins} of {each.pairs}</td>'
        f'<td class="text">{escape(str(verdict(each)))}</td></tr>'
        for label, each in found.by_method.items()
    )
    settings = "".join(
        f'<tr><th scope="row">{escape(key)}</th><td class="text">{escape(_shown(before))}</td>'
        f'<td class="text">{escape(_shown(after))}</td></tr>'
        for key, (before, after) in found.settings.items()
    )
    changed = (
        '<h3>Settings that differ</h3><div class="scroll" tabindex="0" role="region" aria-label="Settings that differ">'
        f'<table><thead><tr><th scope="col">setting</th><th scope="col" class="text">{escape(found.first)}</th>'
        f'<th scope="col" class="text">{escape(found.second)}</th></tr></thead><tbody>{settings}</tbody></table></div>'
        if settings
        else "<p>Both runs have the same settings.</p>"
    )
    only = "".join(
        f"<p>Only {escape(name)} has {escape(', '.join(labels))}.</p>" for name, labels in found.only.items()
    )
    return (
        f'<p class="answer">{sentence}</p>{only}'
        '<div class="scroll" tabindex="0" role="region" aria-label="Change by method"><table><thead><tr>'
        '<th scope="col">method</th><th scope="col">points</th><th scope="col">above</th>'
        '<th scope="col" class="text">significant?</th>'
        f"</tr></thead><tbody>{methods_rows}</tbody></table></div>" + "".join(map(to_html, _cut(found.table))) + changed
    )


def _gallery(pictures: Sequence[Shown]) -> str:
    if not pictures:
        return ""
    shown = "".join(
        f'<figure><button type="button" aria-label="Enlarge: {escape(picture.caption)}">'
        f'<img src="{picture.address}" alt="{escape(picture.caption)}" '
        f'width="{picture.width}" height="{picture.height}">'
        f"</button><figcaption>{escape(picture.caption)}</figcaption></figure>"
        for picture in pictures
    )
    return f'<section id="pictures"><h2>Pictures</h2><div class="gallery">{shown}</div></section>'


def _reproduce(runs: Sequence[StoredRun]) -> str:
    made = []
    for run in runs:
        for command in dict.fromkeys(comparison.command for comparison in run.comparisons if comparison.command):
            name = f"<p>{escape(run.name)}</p>" if len(runs) > 1 else ""
            made.append(
                f'{name}<div class="command"><pre><code>{escape(command)}</code></pre>'
                '<button type="button" class="copy" hidden>Copy</button></div>'
            )
    return f'<section id="reproduce"><h2>Run it again</h2>{"".join(made)}</section>' if made else ""


def _problems(runs: Sequence[StoredRun], failed: Sequence[tuple[str, Failed]], notes: Sequence[str]) -> str:
    remarks = [*notes, *(remark for run in runs for remark in environments(run.records))]
    if not failed and not remarks:
        return ""
    listed = "".join(f"<li>{escape(remark)}</li>" for remark in remarks)
    shown = "".join(
        f"<details><summary>{escape(f'{name}: ' if len(runs) > 1 else '')}{escape(failure.cell)}: "
        f"{escape(failure.error)}</summary><pre>{escape(failure.traceback) or 'no traceback'}</pre></details>"
        for name, failure in failed
    )
    heading = f"<p>{len(failed)} of the cells failed; the same command tries them again.</p>" if failed else ""
    return f'<section id="problems"><h2>Failures and remarks</h2><ul>{listed}</ul>{heading}{shown}</section>'
