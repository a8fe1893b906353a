"""Parts of the page as plain data for its templates: tables of values, tables of metrics, pictures."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from statistics import fmean
from typing import Any

from PIL import Image

from midway.bench.store import RESULTS
from midway.metrics import METRICS
from midway.report.ranking import of_kind
from midway.report.render import show_number, split_columns
from midway.report.stored_run import StoredRun, read_run
from midway.report.style import PlotStyle, scenario_title, words
from midway.report.table import Column, Table, Value, pivot
from midway.report.tidy import ALL, IMAGES, Frame

MOST_COLUMNS = 18
"""Wider tables are split, so that they can be printed."""

LARGEST_PICTURE = 3_000_000
"""Size in bytes of the largest picture that is embedded."""

DRAWN = ("scenarios", "outlier_ratio", "over_time", "cost_seconds", "cost_gflops", "history", "importance")
"""Figures of ``midway figures`` that the page draws as charts."""

Cell = str | tuple[float, str] | None
"""A text, a number to sort by and how it is written, or nothing."""


def accuracy_tables(frame: Frame) -> list[Table]:
    """Return one table of accuracies for each kind of scenario; pure streams end with mean accuracy and mCE."""
    tables = []
    for kind in dict.fromkeys(row.scenario.kind for row in frame):
        rows = of_kind(frame, kind)
        scenarios = rows.unique("scenario")
        table = pivot(rows, averages=kind == "pure")
        title = scenario_title(scenarios[0]) if len(scenarios) == 1 and len(table.columns) > 1 else kind
        tables.append(replace(table, title=title[:1].upper() + title[1:]))
    return tables


def split_table(table: Table) -> list[Table]:
    """Split a table into parts that can be printed, numbered if there are several."""
    parts = split_columns(table, at_most=MOST_COLUMNS)
    if len(parts) == 1:
        return [table]
    return [replace(part, title=f"{table.title}, part {n} of {len(parts)}") for n, part in enumerate(parts, start=1)]


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
        text = " ".join([stream, *(column.group for column in group)])
        above.append({"span": len(group), "first": len(heads), "text": text, "name": kind if alone else titles[stream]})
        for column in group:
            name = column.metric_title if column.scenario is None else words(column.group)
            searched = f"{stream} {titles[stream]} {column.group} {column.metric_title}".lower()
            images = column.images if len(counts) > 1 else None
            heads.append({"name": rest if alone else name, "words": searched, "images": images})
    source = dict(table.rows).get(table.source or "", (None,) * len(columns))
    gains = {label: list(map(_gain, columns, values, source)) for label, values in table.rows}
    scale = [abs(g) for row in gains.values() for c, g in zip(columns, row, strict=True) if g and not c.lower_is_better]
    rows = [
        {
            "label": label,
            "title": styles[label].title if label in styles else label,
            "cells": [
                (value, _shade(gain, max(scale, default=1))) for value, gain in zip(values, gains[label], strict=True)
            ],
        }
        for label, values in table.rows
    ]
    notes = [*table.notes, *(f"{count:,} images a column" for count in counts if len(counts) == 1)]
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


def metric_rows(frame: Frame, styles: Mapping[str, PlotStyle]) -> tuple[list[str], list[list[Cell]]]:
    """Return headings and rows of every metric but the accuracy: means over all streams and seeds."""
    values: dict[tuple[str, str], list[float]] = {}
    for row in frame.where(group=ALL):
        values.setdefault((row.label, row.metric), []).append(row.value)
    means = {key: fmean(numbers) for key, numbers in values.items()}
    names = [name for name in frame.unique("metric") if name not in ("accuracy", IMAGES)]
    seconds, ratio = "seconds_per_batch", "times Source"
    if source := means.get((frame.source or "", seconds)):
        means |= {(label, ratio): mean / source for (label, name), mean in means.items() if name == seconds}
        names.insert(names.index(seconds) + 1, ratio)
    heads = []
    for name in names:
        metric = METRICS.get(name)
        heads.append(name if metric is None else f"{metric.title}, {metric.unit}" if metric.unit else metric.title)
    labels = [label for label in styles if any((label, name) in means for name in names)]
    return heads, [[styles[label].title, *(number(means.get((label, name))) for name in names)] for label in labels]


def number(value: float | None) -> Cell:
    """Return a number as a cell."""
    return None if value is None or math.isnan(value) else (value, show_number(value))


def pictures_of(run: StoredRun) -> tuple[list[dict[str, Any]], list[str]]:
    """Read the pictures that ``midway figures`` wrote beside a run; each of several comparisons has its own.

    Returns:
        Names, captions, sizes and addresses, and notes on pictures that were left out. Charts that the page draws are
        not among them.
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
