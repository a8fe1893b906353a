"""Tables in the terminal and in files: rich, CSV and JSON, wide tables in parts."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path

import rich.box
import rich.table
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement

from midway.files import write_atomically
from midway.report.markup import headings, to_latex, to_markdown
from midway.report.table import Table, Value
from midway.suggest import unknown


def show_number(value: float) -> str:
    """Return a number with a reasonable number of digits, for tables of mixed units.

    Example:
        >>> from midway.report.render import show_number
        >>> [show_number(value) for value in (0.0, 0.01234, 1.5, 23.456, 1824.0)]
        ['0', '0.012', '1.5', '23.5', '1,824']
    """
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1 else f"{value:.2g}"


def to_rich(table: Table) -> rich.table.Table:
    """Return a table for the terminal.

    Example:
        >>> from rich.console import Console
        >>> from midway.report import Column, Table, Value, to_rich
        >>> from midway.streams import Scenario
        >>> columns = (Column(Scenario.parse("pure:fog"), "fog"),)
        >>> to_rich(Table("Fog", columns, (("tent", (Value(70.5),)),))).row_count
        1
    """
    shown = rich.table.Table(
        title=escape(table.title),
        caption=escape("\n".join(table.notes)),
        caption_justify="left",
        box=rich.box.SIMPLE_HEAD,
        padding=(0, 1),
        collapse_padding=True,
        pad_edge=False,
    )
    shown.add_column("\n\n\nmethod", no_wrap=True)
    for column, (upper, lower) in zip(table.columns, headings(table.columns), strict=True):
        stream = re.sub("(?<=[:/+])|(?=[@#])", "\n", upper)
        below = lower.replace(" ", "\n") + ("" if " " in lower else "\n")
        count = "" if column.images is None else f"[dim]n={column.images}[/dim]"
        lines = [escape(stream), escape(below), *([column.origin] if column.origin else []), count]
        shown.add_column("\n".join(lines), justify="right", no_wrap=True)
    for label, values in table.rows:
        shown.add_row(escape(label), *map(_rich_value, values))
    return shown


def _rich_value(value: Value | None) -> str:
    if value is None:
        return "-"
    if value.below_source:
        return f"[red]{value}[/red]"
    return f"[bold green]{value}[/bold green]" if value.best else str(value)


def to_csv(tables: Sequence[Table]) -> str:
    """Return tables as CSV, one line a number, in full precision.

    Example:
        >>> from midway.report import Column, Table, Value, to_csv
        >>> from midway.streams import Scenario
        >>> columns = (Column(Scenario.parse("pure:fog"), "fog", images=200),)
        >>> print(to_csv([Table("Fog", columns, (("tent", (Value(70.5, best=True),)),))]))
        table,label,scenario,group,metric,origin,images,value,spread,best,below_source
        Fog,tent,pure:fog,fog,accuracy,,200,70.5,,True,False
        <BLANKLINE>
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heads = ("label", "scenario", "group", "metric", "origin", "images", "value", "spread", "best", "below_source")
    writer.writerow(("table", *heads))
    for table in tables:
        for label, values in table.rows:
            for c, value in zip(table.columns, values, strict=True):
                if value is not None:
                    key = (table.title, label, c.scenario or "", c.group, c.metric, c.origin, c.images)
                    writer.writerow((*key, value.mean, value.spread, value.best, value.below_source))
    return out.getvalue()


def to_json(tables: Sequence[Table]) -> str:
    """Return tables as JSON: titles, columns, rows of values and notes; null where there is no number.

    Example:
        >>> import json
        >>> from midway.report import Column, Table, to_json
        >>> from midway.streams import Scenario
        >>> table = Table("Fog", (Column(Scenario.parse("pure:fog"), "fog"),), (("tent", (None,)),))
        >>> json.loads(to_json([table]))[0]["rows"]
        [{'label': 'tent', 'values': [None]}]
    """
    content = [
        {
            "title": table.title,
            "columns": [
                asdict(column) | {"scenario": None if column.scenario is None else str(column.scenario)}
                for column in table.columns
            ],
            "rows": [{"label": label, "values": list(map(_plain, values))} for label, values in table.rows],
            "notes": list(table.notes),
        }
        for table in tables
    ]
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Value | None) -> dict[str, object] | None:
    """Return a value as plain data; JSON has no NaN."""
    return None if value is None else asdict(value) | ({} if math.isfinite(value.mean) else {"mean": None})


FORMATS: dict[str, Callable[[Sequence[Table]], str]] = {
    ".md": lambda tables: "\n".join(f"## {table.title}\n\n{to_markdown(table)}" for table in tables),
    ".csv": to_csv,
    ".tex": to_latex,
    ".json": to_json,
}
"""Suffix of a file -> the function that renders tables in that format."""


def export(tables: Iterable[Table], path: Path) -> None:
    """Write tables to a file, in the format of its suffix; wide tables are split for print.

    Raises:
        ValueError: The suffix is not .md, .csv, .tex or .json.
    """
    if path.suffix not in FORMATS:
        raise ValueError(unknown("table format", path.suffix, FORMATS))
    tables = list(tables)
    if path.suffix in (".md", ".tex"):
        tables = [part for table in tables for part in split_columns(table)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, FORMATS[path.suffix](tables).encode())


def split_columns(table: Table, *, at_most: int = 9) -> list[Table]:
    """Split a wide table into tables of a few columns, never within a group; a table of one scenario is named after it.

    The columns of a scenario stay together if they fit.

    Example:
        >>> from midway.report import Column, Table, Value
        >>> from midway.report.render import split_columns
        >>> from midway.streams import expand
        >>> columns = tuple(Column(scenario, scenario.shifts[0]) for scenario in expand("pure:tuning")[:3])
        >>> wide = Table("Tuning", columns, (("tent", (Value(1.0), Value(2.0), Value(3.0))),))
        >>> [len(part.columns) for part in split_columns(wide, at_most=2)]
        [2, 1]
    """
    return _split(table, [1.0] * len(table.columns), at_most)


def fit_width(table: Table, width: int) -> list[Table]:
    """Split a table into tables that fit so many characters of a terminal."""
    endless = Console(width=10_000)

    def measure(indices: Sequence[int]) -> int:
        bare = replace(table.part(indices), title="", notes=())
        return Measurement.get(endless, endless.options, to_rich(bare)).maximum

    labels = measure([])
    return _split(table, [measure([index]) - labels for index in range(len(table.columns))], width - labels)


def _split(table: Table, sizes: Sequence[float], limit: float) -> list[Table]:
    """Join neighbouring scenarios, or groups of a scenario that is too large, until they would exceed a limit."""

    def size(indices: Sequence[int]) -> float:
        return sum(sizes[index] for index in indices)

    blocks: list[list[int]] = []
    for _, run in groupby(range(len(table.columns)), key=lambda index: table.columns[index].stream):
        stream = list(run)
        if size(stream) <= limit:
            blocks.append(stream)
        else:
            by_group = groupby(stream, key=lambda index: replace(table.columns[index], images=None, origin=""))
            blocks += [list(indices) for _, indices in by_group]
    parts: list[list[int]] = []
    for block in blocks:
        if parts and size(parts[-1]) + size(block) <= limit:
            parts[-1] += block
        else:
            parts.append(block)
    tables = []
    for number, indices in enumerate(parts, start=1):
        streams = {table.columns[index].stream for index in indices}
        title = f"{table.title}, {streams.pop()}" if len(streams) == 1 else table.title
        part = table.part(indices)
        rows = tuple(row for row in part.rows if any(row[1]))
        tables.append(replace(part, title=title, rows=rows, notes=table.notes if number == len(parts) else ()))
    return tables
