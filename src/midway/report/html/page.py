"""One self-contained HTML page about a run, or about two: views are computed here, templates write and escape them."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image

from midway import methods
from midway.bench.store import RESULTS
from midway.files import write_atomically
from midway.metrics import METRICS
from midway.report.html.charts import Chart, change_chart, charts_of, search_charts, series
from midway.report.ranking import LEVEL, Winner, difference, find_winner, of_kind, verdict, winners
from midway.report.render import show_number, split_columns
from midway.report.stored_run import Comparison, StoredRun, distinct_names, read_run
from midway.report.style import PlotStyle, plot_styles, scenario_title, words
from midway.report.table import AVERAGES, Column, Table, Value, pivot
from midway.report.tidy import ALL, IMAGES, Frame
from midway.significance import show_p_value

if TYPE_CHECKING:
    from midway.tune.result import StudyResult

MOST_COLUMNS = 18
"""Wider tables are split, so that they can be printed."""

MOST_COMMANDS = 6
LARGEST_PICTURE = 3_000_000
"""Size in bytes of the largest picture that is embedded."""

DRAWN = ("scenarios", "outlier_ratio", "over_time", "cost_seconds", "cost_gflops", "history", "importance")
"""Figures of ``midway figures`` that the page shows as charts."""

Cell = str | tuple[float, str] | None
"""A text, a number to sort by and how it is written, or nothing."""


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
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, render(run, against=against).encode())
    return path


def render(run: StoredRun, *, against: StoredRun | None = None) -> str:
    """Return the page as text."""
    runs = distinct_names([each for each in (against, run) if each is not None])
    newest, several = runs[-1], len(runs) > 1
    data: list[dict[str, Any]] = []  # what the script draws, section by section
    sections = [
        _section(f"{each.name}: {comparison.title}" if several else comparison.title, comparison, data)
        for each in reversed(runs)
        for comparison in each.comparisons
        if comparison.records
    ]
    changes, unpaired = _changes(runs[0], newest, data) if several else ([], [])
    pictures, notes = _pictures(list(reversed(runs)))
    script = _asset("report.js")
    return (
        _templates()
        .get_template("report.html")
        .render(
            title=f"{newest.name} against {runs[0].name}" if several else newest.name,
            runs=runs,
            sections=sections,
            changes=changes,
            unpaired=unpaired,
            searches=[_search(each.search, data) for each in reversed(runs) if each.search is not None],
            pictures=pictures,
            remarks=[*notes, *(remark for each in runs for remark in each.remarks)],
            failures=[(each.name, record) for each in runs for record in each.records if record.failure is not None],
            data=_finite(data),
            style=Markup(_asset("report.css")),
            script=Markup(script),
            digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            version=version("midway"),
            most_commands=MOST_COMMANDS,
            level=LEVEL,
        )
    )


def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("midway.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": show_number, "p_value": show_p_value, "sentence": _sentence}
    environment.globals |= {"verdict": verdict, "AVERAGES": AVERAGES}
    return environment


def _asset(name: str) -> str:
    return (resources.files("midway.report.html") / "assets" / name).read_text(encoding="utf-8")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _finite(value: Any) -> Any:
    """Return data that JSON can hold: NaN becomes None, numbers have six digits."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def _drawn(data: list[dict[str, Any]], drawn: list[dict[str, Any]], charts: list[Chart]) -> int:
    """Add the charts of a section to what the script draws and return the index of the section."""
    data.append({"methods": drawn, "charts": charts})
    return len(data) - 1


def _section(name: str, comparison: Comparison, data: list[dict[str, Any]]) -> dict[str, Any]:
    frame, styles = comparison.frame, comparison.styles
    winner = find_winner(frame)
    assert winner is not None
    charts = charts_of(frame)
    tables = accuracy_tables(frame)
    common = [note for note in tables[0].notes if all(note in table.notes for table in tables)]
    parts = [
        part
        for table in tables
        for part in _split(replace(table, notes=tuple(note for note in table.notes if note not in common)))
    ]
    return {
        "index": _drawn(data, series(styles, wide=winner.best.label), charts),
        "name": name,
        "styles": styles,
        "winner": winner,
        "cost": _cost(winner),
        "remarks": comparison.remarks(),
        "winners": [_winner_row(each, styles) for each in winners(frame)],
        "tables": [table_view(part, styles) for part in parts],
        "notes": common,
        "metrics": metric_rows(frame.common_seeds(), styles),
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
        compared.append(f"{show_number(best['gflops'])} GFLOPs an image")
    return f"{show_number(best[seconds])} s a batch", "; ".join(compared)


def _winner_row(winner: Winner, styles: Mapping[str, PlotStyle]) -> list[Cell]:
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
        known = methods.hyperparameters(cell.method) if cell.method in methods.names() else {}
        defaults = json.loads(json.dumps(known, default=repr))
        parts = []
        for name, value in result.hyperparameters.items():
            text = f"{name}={_text(value)}"
            changed = name in defaults and defaults[name] != value and name != "seed"
            parts.append(Markup("<b>{}</b>").format(text) if changed else text)
        texts[cell.label] = Markup(", ").join(parts) or "none"
    return {label: texts[label] for label in comparison.styles}


def accuracy_tables(frame: Frame) -> list[Table]:
    """Return one table of accuracies for each kind of scenario; pure streams end with mean accuracy and mCE."""
    tables = []
    for kind in dict.fromkeys(row.scenario.kind for row in frame):
        rows = of_kind(frame, kind)
        scenarios = rows.unique("scenario")
        table = pivot(rows, averages=kind == "pure")
        alone = len(scenarios) == 1 and len(table.columns) > 1
        title = scenario_title(scenarios[0]) if alone else kind
        tables.append(replace(table, title=title[:1].upper() + title[1:]))
    return tables


def _split(table: Table) -> list[Table]:
    """Split a table into parts that can be printed, numbered if there are several."""
    parts = split_columns(table, at_most=MOST_COLUMNS)
    if len(parts) == 1:
        return [table]
    return [replace(part, title=f"{table.title}, part {n} of {len(parts)}") for n, part in enumerate(parts, start=1)]


def table_view(table: Table, styles: Mapping[str, PlotStyle]) -> dict[str, Any]:
    """Return a table as its template needs it: short headings, and values shaded by their gain over Source."""
    columns = table.columns
    streams = [column.stream for column in columns if column.scenario is not None]
    titles = {column.stream: _stream_title(column) for column in columns}
    single = len(set(streams)) == len(streams)  # one column a stream: a second row of headings would repeat it
    named = len(set(streams)) == 1 and titles[streams[0]].lower() in table.title.lower()
    counts = {column.images for column in columns if column.images is not None}
    above: list[dict[str, Any]] = []
    heads: list[dict[str, Any]] = []
    for stream, run in groupby(columns, key=lambda column: column.stream):
        of_stream = list(run)
        kind, _, rest = titles[stream].partition(": ")
        alone = len(of_stream) == 1 and not named and bool(rest)
        text = f"{stream} {' '.join(column.group for column in of_stream)}"
        above.append(
            {"span": len(of_stream), "first": len(heads), "text": text, "name": kind if alone else titles[stream]}
        )
        for column in of_stream:
            name = column.metric_title if column.scenario is None else words(column.group)
            heads.append(
                {
                    "name": rest if alone else name,
                    "words": f"{stream} {titles[stream]} {column.group} {column.metric_title}".lower(),
                    "images": column.images if len(counts) > 1 else None,
                }
            )
    source = dict(table.rows).get(table.source or "")
    gains = {
        (label, index): _gain(column, values[index], source[index] if source is not None else None)
        for label, values in table.rows
        for index, column in enumerate(columns)
    }
    scale = [abs(gain) for (_, index), gain in gains.items() if gain is not None and not columns[index].lower_is_better]
    largest = max(scale, default=0) or 1
    rows = [
        {
            "label": label,
            "title": styles[label].title if label in styles else label,
            "cells": [(value, _shade(gains[label, index], largest)) for index, value in enumerate(values)],
        }
        for label, values in table.rows
    ]
    notes = [*table.notes, *(f"{count:,} images a column" for count in counts if len(counts) == 1)]
    return {
        "title": table.title,
        "above": [] if single or named else above,
        "heads": heads,
        "rows": rows,
        "notes": notes,
    }


def _stream_title(column: Column) -> str:
    return column.group if column.scenario is None else scenario_title(column.scenario)


def _gain(column: Column, value: Value | None, source: Value | None) -> float | None:
    """Return how much better a value is than Source; a difference is a gain by itself."""
    if value is None or (source is None and not value.signed) or math.isnan(value.mean):
        return None
    if source is None or value.signed:
        return value.mean
    return source.mean - value.mean if column.lower_is_better else value.mean - source.mean


def _shade(gain: float | None, largest: float) -> str:
    share = 0 if gain is None else round(100 * max(-1.0, min(1.0, gain / largest)))
    return f"--gain:{share}%" if share > 0 else f"--loss:{-share}%" if share < 0 else ""


def metric_rows(frame: Frame, styles: Mapping[str, PlotStyle]) -> tuple[list[str], list[list[Cell]]]:
    """Return headings and rows of every metric but the accuracy: means over all streams and seeds."""
    names = [name for name in frame.unique("metric") if name not in ("accuracy", IMAGES)]
    means: dict[tuple[str, str], float] = {}
    for label in styles:
        for name in names:
            if values := [row.value for row in frame.where(label=label, metric=name, group=ALL)]:
                means[label, name] = fmean(values)
    seconds = means.get((frame.source or "", "seconds_per_batch"))
    if seconds:
        means |= {
            (label, "times Source"): means[label, "seconds_per_batch"] / seconds
            for label in styles
            if (label, "seconds_per_batch") in means
        }
        names.insert(names.index("seconds_per_batch") + 1, "times Source")
    heads = []
    for name in names:
        metric = METRICS.get(name)
        heads.append(name if metric is None else f"{metric.title}, {metric.unit}" if metric.unit else metric.title)
    rows: list[list[Cell]] = [
        [styles[label].title, *(_number(means.get((label, name))) for name in names)]
        for label in styles
        if any((label, name) in means for name in names)
    ]
    return heads, rows


def _number(value: float | None) -> Cell:
    return None if value is None or math.isnan(value) else (value, show_number(value))


def _changes(
    first: StoredRun, second: StoredRun, data: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Compare the comparisons of two runs that have the same title; of several, those with most settings in common.

    Returns:
        The views of the pairs, and the titles that only one run has, each with its name.
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


def _change(
    first: Comparison, second: Comparison, names: tuple[str, str], data: list[dict[str, Any]]
) -> dict[str, Any]:
    labels = {record.cell.label: record.cell.method for record in (*first.records, *second.records)}
    styles = plot_styles(labels)
    changed = difference(first.frame, second.frame, rival=names[0])
    by_label = changed.by_label
    caption = f"Mean accuracy of {names[1]} minus that of {names[0]}, on what both have."
    chart = change_chart({label: each.difference for label, each in by_label.items()}, styles, caption)
    charts = [chart] if by_label else []
    table = pivot(changed.frame, title=f"{names[1]} minus {names[0]}, in points", signed=True)
    before, after = first.settings, second.settings
    rows: list[list[Cell]] = [
        [
            styles[label].title,
            (each.difference, f"{each.difference:+.2f}"),
            (each.wins / each.pairs, f"{each.wins} of {each.pairs}"),
            str(verdict(each)),
        ]
        for label, each in by_label.items()
    ]
    return {
        "index": _drawn(data, series(styles), charts),
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
        "tables": [table_view(part, styles) for part in _split(table)] if by_label else [],
        "settings": [
            [key, _text(before.get(key)), _text(after.get(key))]
            for key in dict.fromkeys([*before, *after])
            if before.get(key) != after.get(key)
        ],
    }


def _search(findings: StudyResult, data: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the view of a search: the best settings and their gain, charts, and every trial."""
    drawn, charts = search_charts(findings) if findings.complete else ([], [])
    names = list(dict.fromkeys(name for trial in findings.trials for name in trial.settings))
    rows: list[list[Cell]] = []
    for trial in findings.trials:
        state = f"{trial.state}: {trial.failure}" if trial.failure else trial.state
        accuracy = None if trial.accuracy is None else (trial.accuracy, f"{trial.accuracy:.2f}")
        row: list[Cell] = [str(trial.number), state, accuracy, _number(trial.seconds)]
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


@dataclass(frozen=True)
class Picture:
    """A picture in a page: its caption, its size in pixels, and its bytes as an address."""

    name: str
    caption: str
    width: int
    height: int
    address: str


def _pictures(runs: Sequence[StoredRun]) -> tuple[list[Picture], list[str]]:
    """Return the pictures of all runs, and notes on those that were left out."""
    pictures, notes = [], []
    for run in runs:
        of_run, left_out = pictures_of(run)
        prefix = f"{run.name}: " if len(runs) > 1 else ""
        pictures += [replace(picture, caption=prefix + picture.caption) for picture in of_run]
        notes += left_out
    return pictures, notes


def pictures_of(run: StoredRun) -> tuple[list[Picture], list[str]]:
    """Read the pictures that ``midway figures`` wrote beside a run; each of several comparisons has its own.

    Returns:
        The pictures, and notes on those that were left out. Charts that the page draws itself are not among them.
    """
    pictures: list[Picture] = []
    left_out: list[str] = []
    if run.folder is None or not (run.folder / "figures").is_dir():
        return pictures, left_out
    from midway.report.figures import FIGURES  # the captions; pages without pictures do not need matplotlib

    whole = read_run(run.folder) if (run.folder / RESULTS).is_file() else run  # figures are numbered within the folder
    titles = {"": ""} | {f"_{number}": each.title for number, each in enumerate(whole.comparisons, start=1)}
    for name, figure in FIGURES.items():
        for suffix, title in titles.items():
            path = run.folder / "figures" / f"{name}{suffix}.png"
            if name in DRAWN or not path.is_file():
                continue
            if path.stat().st_size > LARGEST_PICTURE:
                limit = f"{LARGEST_PICTURE / 1e6:g} MB"
                left_out.append(f"The picture {path.name} is larger than {limit} and was left out.")
                continue
            with Image.open(path) as image:
                width, height = image.size
            caption = f"{title}: {figure.caption}" if title else figure.caption
            address = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
            pictures.append(Picture(path.stem, caption, width, height, address))
    return pictures, left_out
