"""Tables in the terminal and in files: rich, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path

import rich.box
import rich.table
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement

from midway._files import without_nan, write_atomically
from midway._suggest import unknown
from midway.data.corruptions.registry import shift_title
from midway.report.table import OURS, PAPER, Column, Table, Value, split_by_size, split_columns
from midway.report.tidy import scenario_title


def show_number(value: float) -> str:
    """Return a number with a reasonable number of digits, for tables of mixed units."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1 else f"{value:.2g}"


def headings(columns: Sequence[Column]) -> list[tuple[str, str]]:
    """Return two headings for each column, as short as they can be while they differ."""
    several = len({column.metric for column in columns if column.scenario is not None}) > 1
    short = []
    for column in columns:
        upper = column.group if column.scenario is None else column.scenario.kind
        lower = column.group.replace("_", " ")
        if column.scenario is None:
            lower = column.metric_title
        elif several and column.metric != "accuracy":
            lower = f"{lower}, {column.metric_title}"
        short.append((upper, lower, column.origin))
    seen = Counter(short)
    return [
        (column.stream if seen[upper, lower, origin] > 1 else upper, lower)
        for column, (upper, lower, origin) in zip(columns, short, strict=True)
    ]


def to_rich(table: Table) -> rich.table.Table:
    """Return a table for the terminal.

    Example:
        >>> from midway.report import Column, Table, Value, to_rich
        >>> to_rich(Table("Mean", (Column(None, "mean"),), (("tent", (Value(70.5),)),))).row_count
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
        cells = []
        for value in values:
            text = "-" if value is None else str(value)
            style = "" if value is None else "red" if value.below_source else "bold green" if value.best else ""
            cells.append(f"[{style}]{text}[/{style}]" if style else text)
        shown.add_row(escape(label), *cells)
    return shown


def fit_width(table: Table, width: int) -> list[Table]:
    """Split a table into tables that fit so many characters of a terminal.

    Example:
        >>> from midway.report import Column, Table, Value, fit_width
        >>> columns = tuple(Column(None, f"column_{number}") for number in range(3))
        >>> wide = Table("Wide", columns, (("tent", (Value(1.0), Value(2.0), Value(3.0))),))
        >>> [len(fit_width(wide, width)) for width in (80, 20)]
        [1, 3]
    """
    endless = Console(width=10_000)

    def measure(indices: Sequence[int]) -> int:
        bare = replace(table.part(indices), title="", notes=())
        return Measurement.get(endless, endless.options, to_rich(bare)).maximum

    labels = measure([])
    return split_by_size(table, [measure([index]) - labels for index in range(len(table.columns))], width - labels)


def to_markdown(table: Table) -> str:
    """Return a table as Markdown, labels down and columns across.

    Example:
        >>> from midway.report import Column, Table, Value, to_markdown
        >>> from midway.streams import Scenario
        >>> columns = (Column(Scenario.parse("pure:fog"), "fog", images=200),)
        >>> print(to_markdown(Table("Fog", columns, (("tent", (Value(70.5, best=True),)),))))
        | method | pure: fog (200) |
        | --- | ---: |
        | tent | **70.50** |
        <BLANKLINE>
    """
    heads = [
        f"{upper}: {lower}{f', {c.origin}' if c.origin else ''}{'' if c.images is None else f' ({c.images})'}"
        for c, (upper, lower) in zip(table.columns, headings(table.columns), strict=True)
    ]
    rows = [
        [label, *("-" if value is None else f"**{value}**" if value.best else str(value) for value in values)]
        for label, values in table.rows
    ]
    return markdown_table(["method", *heads], rows) + _notes(table.notes)


def to_brief_markdown(table: Table) -> str:
    """Return a table as Markdown with scenarios down and labels across, one decimal, the paper's numbers in brackets.

    Example:
        >>> from midway.report import Column, Table, Value, beside_paper, to_brief_markdown
        >>> from midway.streams import Scenario
        >>> columns = (Column(Scenario.parse("pure:fog"), "fog"),)
        >>> ours = Table("Fog", columns, (("source", (Value(60.0, best=True),)), ("tent", (Value(59.0),))))
        >>> table = beside_paper(ours, lambda label, *_: {"source": 73.98}.get(label))
        >>> print(to_brief_markdown(table))
        | | source | tent |
        | --- | ---: | ---: |
        | pure: fog | **60.0** (74.0) | 59.0 |
        <BLANKLINE>
    """
    indices = {(column.stream, column.group, column.metric, column.origin): i for i, column in enumerate(table.columns)}
    rows = []
    ours = [column for column in table.columns if column.origin in (OURS, "")]
    for stream, run in groupby(ours, key=lambda column: column.stream):
        columns = list(run)
        title = "averages" if columns[0].scenario is None else scenario_title(columns[0].scenario)
        if len(columns) > 1:
            rows.append([f"*{title}*", *[""] * len(table.rows)])
        for column in columns:
            index = indices[stream, column.group, column.metric, column.origin]
            paper = indices.get((stream, column.group, column.metric, PAPER))
            values = [_brief(values[index], None if paper is None else values[paper]) for _, values in table.rows]
            name = column.metric_title if column.scenario is None else shift_title(column.group)
            rows.append([name if len(columns) > 1 else title, *values])
    return markdown_table(["", *(label for label, _ in table.rows)], rows) + _notes(table.notes)


def _brief(ours: Value | None, paper: Value | None) -> str:
    if ours is None:
        return "-"
    number = f"{ours.mean:.1f}{'' if ours.spread is None else f' ± {ours.spread:.1f}'}"
    marked = f"**{number}**" if ours.best else f"{number}{'*' if ours.below_source else ''}"
    return marked if paper is None else f"{marked} ({paper.mean:.1f}{'*' if paper.below_source else ''})"


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[int] = (0,)) -> str:
    """Return rows of text as a Markdown table; the columns in ``left`` hold words, the others numbers.

    Markdown may contain HTML, so what looks like a tag is escaped.
    """
    lines = [heads, ["---" if index in left else "---:" for index in range(len(heads))], *rows]
    escaped = str.maketrans({"|": "&#124;", "<": "&lt;", "\n": " "})
    cells = [[f" {text.translate(escaped)} |" if text else " |" for text in line] for line in lines]
    return "".join(f"|{''.join(line)}\n" for line in cells)


def _notes(notes: Iterable[str]) -> str:
    return "".join(f"\n{note[0].upper()}{note[1:]}.\n" for note in notes)


def to_latex(tables: Sequence[Table]) -> str:
    r"""Return tables for LaTeX with the booktabs package: the best bold, a star where Source is better.

    Example:
        >>> from midway.report import Column, Table, Value, to_latex
        >>> table = Table("Mean", (Column(None, "mean"),), (("tent", (Value(70.5, best=True),)),))
        >>> print(to_latex([table]).splitlines()[-4])
        tent & \textbf{70.50} \\
    """
    return "% needs \\usepackage{booktabs}\n" + "\n".join(map(_latex_table, tables))


def _latex_table(table: Table) -> str:
    lower = {column: heads[1] for column, heads in zip(table.columns, headings(table.columns), strict=True)}
    origins = any(column.origin for column in table.columns)
    last = [column.origin if origins else lower[column] for column in table.columns]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex('. '.join([table.title, *table.notes]))}}}",
        rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        r"\toprule",
        *_latex_spans(table.columns, lambda column: column.stream),
        *(_latex_spans(table.columns, lower.__getitem__) if origins else []),
        _latex_row("method", map(_latex, last)),
        r"\midrule",
        *(_latex_row(_latex(label), map(_latex_value, values)) for label, values in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_spans(columns: Sequence[Column], heading_of: Callable[[Column], str]) -> list[str]:
    """Return a row of headings, each above the neighbouring columns of one stream that share it, and its rules."""
    heads, rules, first = [], [], 2
    for (_, heading), run in groupby(columns, key=lambda column: (column.stream, heading_of(column))):
        width = len(list(run))
        heads.append(rf"\multicolumn{{{width}}}{{c}}{{{_latex(heading)}}}")
        rules.append(rf"\cmidrule(lr){{{first}-{first + width - 1}}}")
        first += width
    return [_latex_row("", heads), " ".join(rules)]


def _latex_row(first: str, cells: Iterable[str]) -> str:
    return " & ".join([first, *cells]) + r" \\"


def _latex_value(value: Value | None) -> str:
    if value is None:
        return "--"
    shown = rf"\textbf{{{value.number}}}" if value.best else value.number
    spread = "" if value.spread is None else rf" $\pm$ {value.spread:.{value.digits}f}"
    return shown + spread + (r"${\ast}$" if value.below_source else "")


_LATEX_SPECIAL: dict[str, str | int | None] = {character: f"\\{character}" for character in "&%$#_{}"}
_LATEX_SPECIAL |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}


def _latex(text: str) -> str:
    return " ".join(text.split()).translate(str.maketrans(_LATEX_SPECIAL))


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
        >>> json.loads(to_json([Table("Mean", (Column(None, "mean"),), (("tent", (None,)),))]))[0]["rows"]
        [{'label': 'tent', 'values': [None]}]
    """
    content = [
        {
            "title": table.title,
            "columns": [
                asdict(column) | {"scenario": None if column.scenario is None else str(column.scenario)}
                for column in table.columns
            ],
            "rows": [
                {"label": label, "values": [value and asdict(value) for value in values]}
                for label, values in table.rows
            ],
            "notes": list(table.notes),
        }
        for table in tables
    ]
    return json.dumps(without_nan(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


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

    Example:
        >>> from pathlib import Path
        >>> from midway.report import Table, export
        >>> export([Table("Empty", (), ())], Path("table.docx"))
        Traceback (most recent call last):
        ValueError: unknown table format '.docx': did you mean '.md'? Valid names: .csv, .json, .md, .tex.
    """
    if path.suffix not in FORMATS:
        raise ValueError(unknown("table format", path.suffix, FORMATS))
    tables = list(tables)
    if path.suffix in (".md", ".tex"):
        tables = [part for table in tables for part in split_columns(table)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, FORMATS[path.suffix](tables).encode())
