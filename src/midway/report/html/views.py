"""Parts of the page as plain data: tables of values and of metrics, and charts, which the script of the page draws."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from statistics import fmean
from typing import Any

from PIL import Image

from midway.bench.store import RESULTS
from midway.data.corruptions.registry import shift_title
from midway.metrics import METRICS
from midway.report.ranking import part_of, scopes
from midway.report.render import show_number
from midway.report.series import accuracy_and_cost, accuracy_over_time, ratio_sweeps
from midway.report.stored_run import StoredRun, read_run
from midway.report.table import Column, Table, Value, pivot, split_columns
from midway.report.tidy import ALL, IMAGES, Frame, PlotStyle, Row, plot_styles, scenario_title
from midway.streams import Scenario
from midway.tune.result import StudyResult

MOST_COLUMNS = 18
"""Wider tables are split, so that they can be printed."""

LARGEST_PICTURE = 3_000_000
"""Size in bytes of the largest picture that is embedded."""

DRAWN = ("scenarios", "outlier_ratio", "over_time", "cost_seconds", "cost_gflops", "history", "importance")
"""Figures of ``midway figures`` that the page draws as charts."""

CellContent = str | tuple[float, str] | None
"""A text, a number to sort by and how it is written, or nothing."""

Chart = dict[str, Any]
"""Kind (dots, lines or points), title, caption, axes, and views to choose from."""


def accuracy_tables(frame: Frame) -> list[Table]:
    """Return one table of accuracies for each kind of scenario; pure streams end with mean accuracy and mCE."""
    by_kind: dict[str, list[Row]] = {}
    for row in frame.rows:
        by_kind.setdefault(row.scenario.kind, []).append(row)
    tables = []
    for kind, rows in by_kind.items():
        of_kind = replace(frame, rows=tuple(rows))
        scenarios = of_kind.unique("scenario")
        table = pivot(of_kind, averages=kind == "pure")
        title = scenario_title(scenarios[0]) if len(scenarios) == 1 and len(table.columns) > 1 else kind
        tables.append(replace(table, title=title[:1].upper() + title[1:]))
    return tables


def table_views(tables: Iterable[Table], styles: Mapping[str, PlotStyle]) -> list[dict[str, Any]]:
    """Return the views of tables, split into parts that can be printed, numbered if there are several."""
    views = []
    for table in tables:
        parts = split_columns(table, at_most=MOST_COLUMNS) if len(table.columns) > MOST_COLUMNS else [table]
        for number, part in enumerate(parts, start=1):
            title = table.title if len(parts) == 1 else f"{table.title}, part {number} of {len(parts)}"
            views.append(table_view(replace(part, title=title), styles))
    return views


def table_view(table: Table, styles: Mapping[str, PlotStyle]) -> dict[str, Any]:
    """Return short headings, and values with the shade of their gain over Source."""
    columns = table.columns
    titles = {c.stream: c.group if c.scenario is None else scenario_title(c.scenario) for c in columns}
    streams = [column.stream for column in columns if column.scenario is not None]
    single = len(set(streams)) == len(streams)  # one column a stream: a second row of headings would repeat it
    named = len(set(streams)) == 1 and titles[streams[0]].lower() in table.title.lower()
    counts = {column.images for column in columns if column.images is not None}
    above: list[dict[str, Any]] = []
    heads: list[dict[str, Any]] = []
    for stream, run in groupby(columns, key=lambda column: column.stream):
        group = list(run)
        kind, _, rest = titles[stream].partition(": ")
        alone = len(group) == 1 and not named and bool(rest)
        text = " ".join([stream, *[column.group for column in group]])
        above.append({"span": len(group), "first": len(heads), "text": text, "name": kind if alone else titles[stream]})
        for column in group:
            name = column.metric_title if column.scenario is None else shift_title(column.group)
            searched = f"{stream} {titles[stream]} {column.group} {column.metric_title}".lower()
            images = column.images if len(counts) > 1 else None
            heads.append({"name": rest if alone else name, "words": searched, "images": images})
    source = dict(table.rows).get(table.source or "", (None,) * len(columns))
    gains = {label: list(map(_gain, columns, values, source)) for label, values in table.rows}
    scale = [abs(g) for row in gains.values() for c, g in zip(columns, row, strict=True) if g and not c.lower_is_better]
    largest = max(scale, default=1)
    rows = []
    for label, values in table.rows:
        cells = [(value, _shade(gain, largest)) for value, gain in zip(values, gains[label], strict=True)]
        rows.append({"label": label, "title": styles[label].title if label in styles else label, "cells": cells})
    notes = [*table.notes, *([f"{counts.pop():,} images per column"] if len(counts) == 1 else [])]
    above = [] if single or named else above
    return {"title": table.title, "above": above, "heads": heads, "rows": rows, "notes": notes}


def _gain(column: Column, value: Value | None, source: Value | None) -> float | None:
    """Return how much better a value is than Source; a difference is a gain by itself."""
    if value is None or math.isnan(value.mean):
        return None
    if value.signed or source is None:
        return value.mean if value.signed else None
    return (source.mean - value.mean) * (1 if column.lower_is_better else -1)


def _shade(gain: float | None, largest: float) -> str:
    share = round(100 * max(-1.0, min(1.0, (gain or 0) / largest)))
    return f"--gain:{share}%" if share > 0 else f"--loss:{-share}%" if share < 0 else ""


def metric_rows(frame: Frame, styles: Mapping[str, PlotStyle]) -> tuple[list[str], list[list[CellContent]]]:
    """Return headings and rows of every metric but the accuracy: means over all streams and seeds."""
    names = [name for name in frame.unique("metric") if name not in ("accuracy", IMAGES)]
    values: dict[tuple[str, str], list[float]] = {}
    for row in frame.where(metric=names, group=ALL):
        values.setdefault((row.label, row.metric), []).append(row.value)
    means = {key: fmean(numbers) for key, numbers in values.items()}
    seconds, ratio = "seconds_per_batch", "times Source"
    if source := means.get((frame.source or "", seconds)):
        means |= {(label, ratio): mean / source for (label, name), mean in means.items() if name == seconds}
        names.insert(names.index(seconds) + 1, ratio)
    heads = []
    for name in names:
        metric = METRICS.get(name)
        heads.append(name if metric is None else f"{metric.title}, {metric.unit}" if metric.unit else metric.title)
    known = {label for label, _ in values}
    labels = [label for label in styles if label in known]
    return heads, [[styles[label].title, *[number(means.get((label, name))) for name in names]] for label in labels]


def number(value: float | None) -> CellContent:
    """Return a number as a cell."""
    return None if value is None or math.isnan(value) else (value, show_number(value))


def series(styles: Mapping[str, PlotStyle], *, wide: str = "") -> list[dict[str, Any]]:
    """Return how each label is drawn; the line of one label is wider."""
    return [
        {"label": label, "width": 2.6 if label == wide else 1.8, **style._asdict()} for label, style in styles.items()
    ]


def charts_of(frame: Frame) -> list[Chart]:
    """Return the charts that the rows are enough for."""
    charts = [_by_stream(frame)]
    if {"outlier", "mixture"}.intersection([scenario.kind for scenario in frame.unique("scenario")]):
        charts.append(_by_ratio(frame))
    if max(map(len, frame.batch_accuracies.values()), default=0) > 1:
        charts.append(_over_time(frame))
    if len(frame.styles) > 1:
        charts.append(_by_cost(frame))
    return [chart for chart in charts if chart["views"]]


def change_chart(changes: Mapping[str, float], styles: Mapping[str, PlotStyle], caption: str) -> Chart:
    """Return the chart of what every method gained or lost between two runs, in points."""
    rows = [{"title": styles[label].title, "values": {label: change}} for label, change in changes.items()]
    views = [{"name": "all streams", "rows": rows}]
    return _chart("dots", "Change by method", caption, views, x="points", unit="points")


def search_charts(findings: StudyResult) -> tuple[list[dict[str, Any]], list[Chart]]:
    """Return the series and the charts of a search: every trial, and the importance of the hyper-parameters."""
    style = plot_styles({findings.method: findings.method})[findings.method]
    grey = {"colour": "#6e6e6e", "colour_on_dark": "#a8a8a8", "width": 1.8, "dash": []}
    own = grey | {"colour": style.colour, "colour_on_dark": style.colour_on_dark}
    drawn = [
        own | {"label": "complete", "title": "complete", "marker": "o", "line": False},
        grey | {"label": "pruned", "title": "stopped early", "marker": "X", "line": False},
        own | {"label": "best", "title": "best so far", "marker": "", "step": True},
        grey | {"label": "default", "title": "defaults", "marker": "", "dash": [4, 2]},
    ]
    trials = {
        state: [(trial.number, trial.accuracy) for trial in findings.trials if trial.state == state]
        for state in ("complete", "pruned")
    }
    numbers = sorted(number for points in trials.values() for number, _ in points)
    complete = [(number, accuracy) for number, accuracy in trials["complete"] if accuracy is not None]
    best = [(number, max((a for n, a in complete if n <= number), default=None)) for number in numbers]
    default = None if findings.default is None else findings.default.accuracy
    lines = {**trials, "best": best, "default": [(number, default) for number in numbers]}
    caption = "Every trial, the best so far, and the defaults."
    axes: dict[str, Any] = {"x": "trial", "y": "mean accuracy (%)", "scale": "linear"}
    charts = [_chart("lines", "Trials of the search", caption, [{"name": "all trials", "lines": lines}], **axes)]
    if findings.importance:
        rows = [{"title": name, "values": {"complete": 100 * share}} for name, share in findings.importance.items()]
        caption = "Share of the variation among the better trials that each hyper-parameter explains."
        views = [{"name": "all trials", "rows": rows}]
        axes = {"x": "share (%)", "unit": "%", "range": [0, 100]}
        charts.append(_chart("dots", "Importance of hyper-parameters", caption, views, **axes))
    return drawn, charts


def _chart(kind: str, title: str, caption: str, views: list[dict[str, Any]], **axes: Any) -> Chart:
    return {"kind": kind, "title": title, "caption": caption, "views": views, **axes}


def _by_stream(frame: Frame) -> Chart:
    views = []
    for (_, part), (title, of_kind) in scopes(frame).items():
        chosen = [row for row in of_kind.rows if row.metric == "accuracy" and part_of(row) == part]
        values: dict[Scenario, dict[str, list[float]]] = {}
        for row in replace(frame, rows=tuple(chosen)).common_seeds().rows:
            values.setdefault(row.scenario, {}).setdefault(row.label, []).append(row.value)
        rows = []
        for scenario, by_label in values.items():
            means = dict(zip(by_label, map(fmean, by_label.values()), strict=True))
            rows.append({"title": scenario_title(scenario).partition(": ")[2], "values": means})
        views.append({"name": title, "rows": rows})
    caption = "Accuracy in percent on every stream, mean over seeds. One mark a method."
    return _chart("dots", "Accuracy by stream", caption, views, x="accuracy (%)", unit="%")


def _by_ratio(frame: Frame) -> Chart:
    views = []
    for sweep in ratio_sweeps(frame).sweeps:
        lines = {label: [[100 * ratio, v.mean] for ratio, v in line.items()] for label, line in sweep.lines.items()}
        views.append({"name": " among ".join(map(shift_title, sweep.shifts)), "lines": lines})
    caption = "Accuracy on the outliers, by their share. Methods that fall to the left lose the rare images."
    axes = {"x": "share of outliers (%)", "y": "accuracy on them (%)", "scale": "log"}
    return _chart("lines", "Outliers by their share", caption, views, **axes)


def _over_time(frame: Frame) -> Chart:
    views = []
    for stream in accuracy_over_time(frame):
        lines = {label: list(enumerate(values, start=stream.window)) for label, values in stream.lines.items()}
        views.append({"name": scenario_title(stream.scenario), "lines": lines})
    caption = "Accuracy batch by batch, a running mean over a tenth of the stream: who learns, who collapses."
    return _chart("lines", "Accuracy over time", caption, views, x="batch", y="accuracy (%)", scale="linear")


def _by_cost(frame: Frame) -> Chart:
    views = []
    for cost in ("seconds_per_batch", "gflops"):
        data, unit = accuracy_and_cost(frame, metric=cost), METRICS[cost].title
        if len(data.points) > 1:
            points = {point.label: [point.cost, point.accuracy] for point in data.points}
            views.append({"name": unit, "x": unit, "points": points, "front": list(data.front)})
    caption = "Mean accuracy against cost. No method on the line is beaten in both."
    return _chart("points", "Accuracy against cost", caption, views, y="accuracy (%)")


def pictures_of(run: StoredRun) -> tuple[list[dict[str, Any]], list[str]]:
    """Read the pictures that ``midway figures`` wrote beside a run; each of several comparisons has its own.

    Returns their names, captions, sizes and addresses, and notes on pictures that were left out. Charts that the page
    draws are not among them.
    """
    pictures: list[dict[str, Any]] = []
    left_out: list[str] = []
    if run.folder is None or not (run.folder / "figures").is_dir():
        return pictures, left_out
    from midway.report.figures import FIGURES  # the captions; pages without pictures do not need matplotlib

    whole = read_run(run.folder) if (run.folder / RESULTS).is_file() else run  # figures are numbered within the folder
    titles = {"": ""} | {f"_{index}": f"{each.title}: " for index, each in enumerate(whole.comparisons, start=1)}
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
            address = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
            size = {"width": width, "height": height}
            pictures.append({"name": path.stem, "caption": title + figure.caption, "address": address, **size})
    return pictures, left_out
