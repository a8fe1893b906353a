"""Tables as text: terminal, Markdown, LaTeX, CSV and JSON; each renderer is a function of tables."""

from __future__ import annotations

import csv
import io
import json
import math
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

from midway.files import write_atomically
from midway.report.style import scenario_title, words
from midway.report.table import OURS, PAPER, Column, Table, Value
from midway.suggest import unknown


def headings(columns: Sequence[Column]) -> list[tuple[str, str]]:
    """Return two headings for each column, as short as they can be while they differ.

    Example:
        >>> from midway.report import Column
        >>> from midway.report.render import headings
        >>> from midway.streams import Scenario
        >>> fog = Scenario.parse("pure:fog")
        >>> headings([Column(fog, "fog"), Column(fog, "fog", "nll"), Column(None, "average", "mce")])
        [('pure', 'fog'), ('pure', 'fog, NLL'), ('average', 'mCE')]
    """
    several = len({column.metric for column in columns if column.scenario is not None}) > 1
    short = []
    for column in columns:
        lower = column.group.replace("_", " ")
        if column.scenario is None:
            lower = column.metric_title
        elif several and column.metric != "accuracy":
            lower = f"{lower}, {column.metric_title}"
        short.append((column.group if column.scenario is None else column.scenario.kind, lower))
    origins = [column.origin for column in columns]
    seen = Counter(zip(short, origins, strict=True))
    return [
        (column.stream, lower) if seen[(upper, lower), column.origin] > 1 else (upper, lower)
        for column, (upper, lower) in zip(columns, short, strict=True)
    ]


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
    return markdown_table(["method", *heads], rows) + markdown_notes(table.notes)


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
            name = column.metric_title if column.scenario is None else words(column.group)
            rows.append([name if len(columns) > 1 else title, *values])
    return markdown_table(["", *(label for label, _ in table.rows)], rows) + markdown_notes(table.notes)


def _brief(ours: Value | None, paper: Value | None) -> str:
    if ours is None:
        return "-"
    number = f"{ours.mean:.1f}{'' if ours.spread is None else f' ± {ours.spread:.1f}'}"
    marked = f"**{number}**" if ours.best else f"{number}{'*' if ours.below_source else ''}"
    return marked if paper is None else f"{marked} ({paper.mean:.1f}{'*' if paper.below_source else ''})"


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[int] = (0,)) -> str:
    """Return rows of text as a Markdown table.

    Args:
        heads: The headings.
        rows: The cells of each row.
        left: Indices of columns that are aligned to the left; the others hold numbers.

    Example:
        >>> from midway.report.render import markdown_table
        >>> print(markdown_table(["", "tent"], [["fog", "70.5"]]))
        | | tent |
        | --- | ---: |
        | fog | 70.5 |
        <BLANKLINE>
    """
    marks = ["---" if index in left else "---:" for index in range(len(heads))]
    lines = [heads, marks, *rows]
    return "".join(f"|{''.join(_markdown_cell(text) for text in line)}\n" for line in lines)


def _markdown_cell(text: str) -> str:
    return f" {text.replace('|', '&#124;')} |" if text else " |"


def markdown_notes(notes: Iterable[str]) -> str:
    """Return notes as paragraphs."""
    return "".join(f"\n{note[0].upper()}{note[1:]}.\n" for note in notes)


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


def to_latex(tables: Sequence[Table]) -> str:
    r"""Return tables for LaTeX with the booktabs package: the best bold, a star where Source is better.

    Example:
        >>> from midway.report import Column, Table, Value, to_latex
        >>> from midway.streams import Scenario
        >>> fog = Scenario.parse("pure:fog")
        >>> columns = (Column(fog, "fog", origin="ours"), Column(fog, "fog", origin="paper"))
        >>> table = Table("Fog", columns, (("tent", (Value(70.5, best=True), Value(60.0, below_source=True))),))
        >>> print(to_latex([table]))
        % needs \usepackage{booktabs}
        \begin{table}
        \centering
        \caption{Fog}
        \begin{tabular}{lrr}
        \toprule
         & \multicolumn{2}{c}{pure:fog} \\
        \cmidrule(lr){2-3}
         & \multicolumn{2}{c}{fog} \\
        \cmidrule(lr){2-3}
        method & ours & paper \\
        \midrule
        tent & \textbf{70.50} & 60.00${\ast}$ \\
        \bottomrule
        \end{tabular}
        \end{table}
        <BLANKLINE>
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


_LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def _latex(text: str) -> str:
    return "".join(_LATEX_SPECIAL.get(character, character) for character in " ".join(text.split()))


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
    made = []
    for number, indices in enumerate(parts, start=1):
        streams = {table.columns[index].stream for index in indices}
        title = f"{table.title}, {streams.pop()}" if len(streams) == 1 else table.title
        part = table.part(indices)
        rows = tuple(row for row in part.rows if any(row[1]))
        made.append(replace(part, title=title, rows=rows, notes=table.notes if number == len(parts) else ()))
    return made
