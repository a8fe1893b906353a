"""Tables of accuracies: plain data first, then Markdown, terminal and HTML."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import rich.box
import rich.table

from midway.bench import Comparison, Result


@dataclass(frozen=True)
class Cell:
    """One accuracy in percent, and how it stands in its column."""

    value: float
    best: bool = False
    below_source: bool = False

    def __str__(self) -> str:
        return f"{self.value:.2f}{'*' if self.below_source else ''}"


@dataclass(frozen=True)
class Column:
    """One group of one stream."""

    stream: str
    group: str
    images: int


@dataclass(frozen=True)
class Table:
    """Methods by groups; a cell is None where a method was not run."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]
    notes: tuple[str, ...] = ()


def accuracy_table(comparison: Comparison) -> Table:
    """Arrange results as methods by streams and groups, the best in bold, those below Source marked.

    A column for each group of a stream, and one for all of its images where there are several groups.
    """
    by_place = {(result.label, result.stream): result for result in comparison.results}
    columns: list[Column] = []
    for result in comparison.results:
        for group, images in _groups(result).items():
            if (column := Column(result.stream, group, images)) not in columns:
                columns.append(column)
    methods = list(dict.fromkeys(result.label for result in comparison.results))
    values = {
        (method, column): _groups_accuracy(by_place[method, column.stream])[column.group]
        for method in methods
        for column in columns
        if (method, column.stream) in by_place
    }
    best = {column: max(v for (_, c), v in values.items() if c == column) for column in columns}
    rows = []
    for method in methods:
        cells = []
        for column in columns:
            value = values.get((method, column))
            source = values.get(("source", column), float("-inf"))
            cells.append(None if value is None else Cell(value, value == best[column], value < source))
        rows.append((method, tuple(cells)))
    notes = ["accuracy in percent; the best in bold; * falls below the unadapted Source"]
    few = sorted({column.images for column in columns if column.images < 100})
    if few:
        notes.append(f"columns with only {', '.join(map(str, few))} images move in steps of {100 / few[0]:.0f} points")
    notes += [f"{method} was left out: {reason}" for method, reason in comparison.left_out.items()]
    return Table(comparison.title, tuple(columns), tuple(rows), tuple(notes))


def _groups(result: Result) -> dict[str, int]:
    several = len(result.by_group) > 1
    return result.images_by_group | ({"all": result.images} if several else {})


def _groups_accuracy(result: Result) -> dict[str, float]:
    return result.by_group | {"all": result.accuracy}


def _heading(column: Column) -> tuple[str, str]:
    """Return the scenario and the group of a column, as short as they can be."""
    scenario = column.stream.split(":")[0]
    return scenario, column.group.replace("_", " ")


def to_markdown(table: Table) -> str:
    """Write a table as Markdown."""
    headings = [f"{scenario}: {group} ({c.images})" for c in table.columns for scenario, group in [_heading(c)]]
    lines = [f"| method | {' | '.join(headings)} |", f"| --- |{' ---: |' * len(headings)}"]
    for method, cells in table.rows:
        shown = ["-" if cell is None else f"**{cell}**" if cell.best else str(cell) for cell in cells]
        lines.append(f"| {method} | {' | '.join(shown)} |")
    notes = [f"\n{note[0].upper()}{note[1:]}." for note in table.notes]
    return "\n".join([*lines, *notes]) + "\n"


def to_rich(table: Table) -> rich.table.Table:
    """Turn a table into one for the terminal."""
    shown = rich.table.Table(
        title=table.title,
        caption="\n".join(table.notes),
        caption_justify="left",
        box=rich.box.SIMPLE_HEAD,
        padding=(0, 1),
        collapse_padding=True,
        pad_edge=False,
    )
    shown.add_column("\n\n\nmethod", no_wrap=True)
    for column in table.columns:
        scenario, group = _heading(column)
        words = group.replace(" ", "\n") + ("" if " " in group else "\n")
        shown.add_column(f"{scenario}\n{words}\n[dim]n={column.images}[/dim]", justify="right", no_wrap=True)
    for method, cells in table.rows:
        shown.add_row(method, *("-" if cell is None else _styled(cell) for cell in cells))
    return shown


def _styled(cell: Cell) -> str:
    if cell.below_source:
        return f"[red]{cell}[/red]"
    return f"[bold green]{cell}[/bold green]" if cell.best else str(cell)


def to_html(table: Table) -> str:
    """Write a table as HTML; every string is escaped."""
    heads = "".join(
        f"<th>{escape(scenario)}<br>{escape(group)}<br><small>{column.images} images</small></th>"
        for column in table.columns
        for scenario, group in [_heading(column)]
    )
    body = []
    for method, cells in table.rows:
        shown = "".join(
            "<td>-</td>" if cell is None else f'<td class="{_class(cell)}">{escape(str(cell))}</td>' for cell in cells
        )
        body.append(f"<tr><th>{escape(method)}</th>{shown}</tr>")
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    return (
        f"<div class=scroll><table><thead><tr><th>method</th>{heads}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div><ul>{notes}</ul>"
    )


def _class(cell: Cell) -> str:
    return "below" if cell.below_source else "best" if cell.best else "plain"
