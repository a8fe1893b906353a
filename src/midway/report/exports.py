"""Tables as Markdown, CSV, LaTeX and JSON files."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from midway.report.tables import Cell, Column, Table, to_markdown
from midway.suggest import unknown


def export(tables: Sequence[Table], path: Path) -> None:
    """Write tables to a file, in the form that its ending names: .md, .csv, .tex or .json.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.report.exports import export
        >>> from midway.report.tables import Cell, Column, Table
        >>> table = Table("Fog", (Column("pure:fog", "fog", 200),), (("tent", (Cell(70.5, best=True),)),))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     export([table], Path(folder) / "fog.md")
        ...     print((Path(folder) / "fog.md").read_text())
        ## Fog
        <BLANKLINE>
        | method | pure: fog (200) |
        | --- | ---: |
        | tent | **70.50** |
        <BLANKLINE>
    """
    if path.suffix not in FORMATS:
        raise ValueError(unknown("table format", path.suffix, FORMATS))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FORMATS[path.suffix](tables), encoding="utf-8")


def _to_markdown(tables: Sequence[Table]) -> str:
    return "\n".join(f"## {table.title}\n\n{to_markdown(table)}" for table in tables)


def to_csv(tables: Sequence[Table]) -> str:
    """Write tables as CSV, one line a number, in full precision.

    Example:
        >>> from midway.report.exports import to_csv
        >>> from midway.report.tables import Cell, Column, Table
        >>> table = Table("Fog", (Column("pure:fog", "fog", 200),), (("tent", (Cell(70.5, best=True),)),))
        >>> print(to_csv([table]))
        table,method,stream,group,kind,images,value,spread,best,below_source
        Fog,tent,pure:fog,fog,,200,70.5,,True,False
        <BLANKLINE>
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heads = ("table", "method", "stream", "group", "kind", "images", "value", "spread", "best", "below_source")
    writer.writerow(heads)
    for table in tables:
        for method, cells in table.rows:
            for column, cell in zip(table.columns, cells, strict=True):
                if cell is not None:
                    place = (table.title, method, column.stream, column.group, column.kind, column.images)
                    writer.writerow((*place, cell.value, cell.spread, cell.best, cell.below_source))
    return out.getvalue()


def to_json(tables: Sequence[Table]) -> str:
    """Write tables as JSON: titles, columns, rows of cells and notes; null where there is no number.

    Example:
        >>> import json
        >>> from midway.report.exports import to_json
        >>> from midway.report.tables import Column, Table
        >>> table = Table("Fog", (Column("pure:fog", "fog", 200),), (("tent", (None,)),))
        >>> json.loads(to_json([table]))[0]["rows"]
        [{'method': 'tent', 'cells': [None]}]
    """
    content = [
        {
            "title": table.title,
            "columns": [asdict(column) for column in table.columns],
            "rows": [
                {"method": method, "cells": [None if cell is None else _plain(cell) for cell in cells]}
                for method, cells in table.rows
            ],
            "notes": list(table.notes),
        }
        for table in tables
    ]
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(cell: Cell) -> dict[str, object]:
    """Return a cell as plain values; JSON knows no NaN."""
    return asdict(cell) | ({} if math.isfinite(cell.value) else {"value": None})


def to_latex(tables: Sequence[Table]) -> str:
    r"""Write tables for LaTeX with the booktabs package: the best bold, a star where Source is better.

    Example:
        >>> from midway.report.exports import to_latex
        >>> from midway.report.tables import Cell, Column, Table
        >>> columns = (Column("pure:fog", "fog", 200, "ours"), Column("pure:fog", "fog", None, "paper"))
        >>> table = Table("Fog", columns, (("tent", (Cell(70.5, best=True), Cell(60.0, below_source=True))),))
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
    kinds = any(column.kind for column in table.columns)
    groups = [_latex_escaped(column.group.replace("_", " ")) for column in table.columns]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex_escaped('. '.join([table.title, *table.notes]))}}}",
        rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        r"\toprule",
        *_latex_spanning(table.columns, lambda column: column.stream),
        *(_latex_spanning(table.columns, lambda column: column.group.replace("_", " ")) if kinds else []),
        _latex_row("method", [_latex_escaped(column.kind) for column in table.columns] if kinds else groups),
        r"\midrule",
        *(_latex_row(_latex_escaped(method), list(map(_latex_cell, cells))) for method, cells in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_spanning(columns: Sequence[Column], key: Callable[[Column], str]) -> list[str]:
    """Return a row of headings, each over the neighbouring columns of one stream that share it, and its rules."""
    headings, rules, place = [], [], 2
    for (_, heading), run in groupby(columns, key=lambda column: (column.stream, key(column))):
        width = len(list(run))
        headings.append(rf"\multicolumn{{{width}}}{{c}}{{{_latex_escaped(heading)}}}")
        rules.append(rf"\cmidrule(lr){{{place}-{place + width - 1}}}")
        place += width
    return [_latex_row("", headings), " ".join(rules)]


def _latex_row(first: str, cells: Sequence[str]) -> str:
    return " & ".join([first, *cells]) + r" \\"


def _latex_cell(cell: Cell | None) -> str:
    if cell is None:
        return "--"
    number = f"{cell.value:+.2f}" if cell.signed else f"{cell.value:.2f}"
    shown = rf"\textbf{{{number}}}" if cell.best else number
    spread = "" if cell.spread is None else rf" $\pm$ {cell.spread:.2f}"
    return shown + spread + (r"${\ast}$" if cell.below_source else "")


_LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def _latex_escaped(text: str) -> str:
    return "".join(_LATEX_SPECIAL.get(character, character) for character in " ".join(text.split()))


FORMATS: dict[str, Callable[[Sequence[Table]], str]] = {
    ".md": _to_markdown,
    ".csv": to_csv,
    ".tex": to_latex,
    ".json": to_json,
}
"""Ending of a file name -> what writes tables in that form."""
