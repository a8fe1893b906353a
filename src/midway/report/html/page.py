"""One self-contained HTML page about a run, or about two: views are computed here, templates write and escape them."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from midway._files import write_atomically
from midway.methods import METHODS, hyperparameters
from midway.report.html import views
from midway.report.html.views import CellContent, Chart, number
from midway.report.ranking import LEVEL, Winner, difference, find_winner, verdict, winners
from midway.report.render import show_number
from midway.report.stored_run import Comparison, StoredRun, distinct_names
from midway.report.table import pivot
from midway.report.tidy import PlotStyle, plot_styles
from midway.significance import show_p_value
from midway.tune.result import StudyResult

MOST_COMMANDS = 6

View = dict[str, Any]
"""What a template shows."""

Sections = list[dict[str, Any]]
"""What the script draws, section by section: how methods are drawn, and charts."""


def write_report(run: StoredRun, path: Path | str, *, against: StoredRun | None = None) -> Path:
    """Write the page to a file, whole or not at all.

    Args:
        run: The run, see ``read_run``.
        path: The file; its folder is created if it does not exist.
        against: An earlier run to compare with.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.bench import Grid, LocalEngine
        >>> from midway.report import stored_run, write_report
        >>> cells = Grid.from_dict({"methods": "bn", "images": 100, "batch_sizes": 50}).cells()
        >>> run = stored_run("example", list(LocalEngine().run(cells)), command="midway run")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = write_report(run, Path(folder) / "report.html")
        ...     "<b>BN</b> has the highest mean accuracy" in page.read_text()
        True
    """
    results = [record.result for record in run.records if record.result is not None]
    if results and not any("accuracy" in result.metrics for result in results):
        raise ValueError(f"{run.name} has no accuracies, its images have no labels: midway compare --report writes it.")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, render(run, against=against).encode())
    return path


def render(run: StoredRun, *, against: StoredRun | None = None) -> str:
    """Return the page as text."""
    runs = distinct_names([each for each in (against, run) if each is not None])
    newest, several = runs[-1], len(runs) > 1
    data: Sections = []
    sections = [
        _section(f"{each.name}: {comparison.title}" if several else comparison.title, comparison, data)
        for each in reversed(runs)
        for comparison in each.comparisons
        if comparison.records
    ]
    changes, unpaired = _changes(runs[0], newest, data) if several else ([], [])
    pictures = [(each, *views.pictures_of(each)) for each in reversed(runs)]
    script = _asset("report.js")
    template = _templates().get_template("report.html")
    page = template.render(
        title=f"{newest.name} against {runs[0].name}" if several else newest.name,
        runs=runs,
        sections=sections,
        changes=changes,
        unpaired=unpaired,
        searches=[_search(each.search, data) for each in reversed(runs) if each.search is not None],
        pictures=[(f"{each.name}: " if several else "", picture) for each, some, _ in pictures for picture in some],
        remarks=[note for *_, left_out in pictures for note in left_out] + [r for each in runs for r in each.remarks],
        failures=[(each.name, record) for each in runs for record in each.records if record.failure is not None],
        data=data,
        style=Markup(_asset("report.css")),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        version=version("midway"),
        most_commands=MOST_COMMANDS,
        level=LEVEL,
    )
    return page.lstrip()


def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("midway.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["sentence"] = lambda text: f"{text[:1].upper()}{text[1:]}."
    environment.globals["verdict"] = verdict
    return environment


def _asset(name: str) -> str:
    return (resources.files("midway.report.html") / "assets" / name).read_text(encoding="utf-8")


def _finite(value: Any) -> Any:
    """Return data that JSON can hold: NaN becomes None, numbers have six digits."""
    if isinstance(value, dict):
        return dict(zip(value, map(_finite, value.values()), strict=True))
    if isinstance(value, list | tuple):
        return list(map(_finite, value))
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def _drawn(data: Sections, drawn: list[dict[str, Any]], charts: list[Chart]) -> int:
    """Add the charts of a section to what the script draws and return the index of the section."""
    data.append({"methods": drawn, "charts": _finite(charts)})
    return len(data) - 1


def _section(name: str, comparison: Comparison, data: Sections) -> View:
    frame, styles = comparison.frame, comparison.styles
    winner = find_winner(frame, ranking=comparison.ranking)
    assert winner is not None
    charts = views.charts_of(frame)
    tables = views.accuracy_tables(frame)
    common = set.intersection(*[set(table.notes) for table in tables])
    unusual = [replace(table, notes=tuple([note for note in table.notes if note not in common])) for table in tables]
    return {
        "index": _drawn(data, views.series(styles, wide=winner.best.label), charts),
        "name": name,
        "styles": styles,
        "winner": winner,
        "cost": _cost(winner),
        "remarks": comparison.remarks(),
        "winners": [_winner_row(each, styles) for each in winners(frame)],
        "tables": views.table_views(unusual, styles),
        "notes": [note for note in tables[0].notes if note in common],
        "metrics": views.metric_rows(frame.common_seeds(), styles),
        "charts": charts,
        "settings": [[key, _text(value)] for key, value in comparison.settings.items()],
        "hyperparameters": [[styles[label].title, text] for label, text in _hyperparameters(comparison).items()],
    }


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_setting(each)}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _setting(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _cost(winner: Winner) -> tuple[str, str]:
    """Return the time of a batch of the best method, and how it compares."""
    seconds = "seconds_per_batch"
    best, second, source = winner.best.costs, winner.next, winner.source
    if seconds not in best:
        return "-", ""
    compared = []
    if source is not None and source.costs.get(seconds):
        compared.append(f"{show_number(best[seconds] / source.costs[seconds])} times Source")
    if second is not None and second is not source and second.costs.get(seconds):
        compared.append(f"{show_number(best[seconds] / second.costs[seconds])} times the next best")
    if "gflops" in best:
        compared.append(f"{show_number(best['gflops'])} GFLOPs per image")
    return f"{show_number(best[seconds])} s per batch", "; ".join(compared)


def _winner_row(winner: Winner, styles: Mapping[str, PlotStyle]) -> list[CellContent]:
    best, lead = winner.best, winner.lead
    gain = None if winner.source is None else best.mean - winner.source.mean
    p_value = None if lead is None else lead.signed_rank
    return [
        winner.scope,
        styles[best.label].title,
        (best.mean, f"{best.mean:.2f}"),
        None if lead is None else (lead.difference, f"{lead.difference:+.2f}" if lead.difference else "level"),
        "-" if winner.next is None else styles[winner.next.label].title,
        None if gain is None else (gain, f"{gain:+.2f}"),
        None if p_value is None else (p_value, show_p_value(p_value)),
        (winner.count, str(winner.count)),
    ]


def _hyperparameters(comparison: Comparison) -> dict[str, str]:
    """Return the hyper-parameters of each label; those that differ from the defaults are bold."""
    texts: dict[str, str] = {}
    for record in comparison.records:
        cell, result = record.cell, record.result
        if cell.label in texts or result is None:
            continue
        known = hyperparameters(cell.method) if cell.method in METHODS else {}
        defaults = json.loads(json.dumps(known, default=repr))
        parts = []
        for name, value in result.hyperparameters.items():
            text = f"{name}={_text(value)}"
            changed = name in defaults and defaults[name] != value and name != "seed"
            parts.append(Markup("<b>{}</b>").format(text) if changed else text)
        texts[cell.label] = Markup(", ").join(parts) or "none"
    return {label: texts[label] for label in comparison.styles}


def _changes(first: StoredRun, second: StoredRun, data: Sections) -> tuple[list[View], list[tuple[str, str]]]:
    """Compare the comparisons of two runs that have the same title; of several, those with most settings in common.

    Returns the views of the pairs, and the titles that only one run has, each with its name.
    """
    changes, only_second = [], []
    left = list(first.comparisons)
    for comparison in second.comparisons:
        settings = comparison.settings.items()
        partner = max(
            (each for each in left if each.title == comparison.title),
            key=lambda each: sum(each.settings.get(name) == value for name, value in settings),
            default=None,
        )
        if partner is None:
            only_second.append((second.name, comparison.title))
        else:
            left.remove(partner)
            changes.append(_change(partner, comparison, (first.name, second.name), data))
    return changes, [*((first.name, each.title) for each in left), *only_second]


def _change(first: Comparison, second: Comparison, names: tuple[str, str], data: Sections) -> View:
    labels = {record.cell.label: record.cell.method for record in (*first.records, *second.records)}
    styles = plot_styles(labels)
    changed = difference(first.frame, second.frame, rival=names[0])
    by_label = changed.by_label
    caption = f"Mean accuracy of {names[1]} minus that of {names[0]}, on what both have."
    chart = views.change_chart({label: each.difference for label, each in by_label.items()}, styles, caption)
    charts = [chart] if by_label else []
    table = pivot(changed.frame, title=f"{names[1]} minus {names[0]}, in points", signed=True)
    before, after = first.settings, second.settings
    rows: list[list[CellContent]] = [
        [
            styles[label].title,
            (each.difference, f"{each.difference:+.2f}"),
            (each.wins / each.pairs, f"{each.wins} of {each.pairs}"),
            str(verdict(each)),
        ]
        for label, each in by_label.items()
    ]
    return {
        "index": _drawn(data, views.series(styles), charts),
        "title": second.title,
        "names": names,
        "overall": changed.overall,
        "only": [
            (name, [styles[label].title for label in only])
            for name, only in zip(names, (changed.only_first, changed.only_second), strict=True)
            if only
        ],
        "rows": rows,
        "charts": charts,
        "tables": views.table_views([table] if by_label else [], styles),
        "settings": [
            [key, _text(before.get(key)), _text(after.get(key))]
            for key in dict.fromkeys([*before, *after])
            if before.get(key) != after.get(key)
        ],
    }


def _search(findings: StudyResult, data: Sections) -> View:
    """Return the view of a search: the best settings and their gain, charts, and every trial."""
    drawn, charts = views.search_charts(findings) if findings.complete else ([], [])
    names = list(dict.fromkeys(name for trial in findings.trials for name in trial.settings))
    rows: list[list[CellContent]] = []
    for trial in findings.trials:
        state = f"{trial.state}: {trial.failure}" if trial.failure else trial.state
        accuracy = None if trial.accuracy is None else (trial.accuracy, f"{trial.accuracy:.2f}")
        row: list[CellContent] = [str(trial.number), state, accuracy, number(trial.seconds)]
        for value in (trial.settings.get(name) for name in names):
            numeric = isinstance(value, int | float) and not isinstance(value, bool)
            row.append(None if value is None else (value, _setting(value)) if numeric else _setting(value))
        rows.append(row)
    states = ("complete", "pruned", "failed", "running")
    heads = [Markup("_<wbr>").join(name.split("_")) for name in names]  # long names may break there
    return {
        "index": _drawn(data, drawn, charts),
        "title": plot_styles({findings.method: findings.method})[findings.method].title,
        "findings": findings,
        "best": findings.best if findings.complete else None,
        "settings": _text(findings.best.settings) if findings.complete else "",
        "counts": ", ".join(f"{count} {state}" for state in states if (count := findings.count(state))),
        "importance": next(iter(findings.importance.items()), None),
        "charts": charts,
        "heads": ["trial", "state", "accuracy", "seconds", *heads],
        "trials": rows,
        "searched": [[key, _text(value)] for key, value in findings.search.items() if value not in (None, {})],
    }
