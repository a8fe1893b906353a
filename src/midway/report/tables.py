"""Tables of accuracies: plain data first, then Markdown and terminal."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from statistics import fmean, stdev

import rich.box
import rich.markup
import rich.table

from midway.bench import Comparison, Result
from midway.report.common_seeds import UNEQUAL, common_seeds


@dataclass(frozen=True)
class Cell:
    """One number, most often an accuracy in percent, and how it stands in its column.

    Attributes:
        value: The number; a mean where there are several seeds.
        best: No other method is better.
        below_source: The method does worse than the unadapted source, which a star marks as in the MITA paper.
        spread: Standard deviation over seeds.
        signed: The number is a difference: its sign is always shown.
    """

    value: float
    best: bool = False
    below_source: bool = False
    spread: float | None = None
    signed: bool = False

    def __str__(self) -> str:
        number = f"{self.value:+.2f}" if self.signed else f"{self.value:.2f}"
        spread = "" if self.spread is None else f" ± {self.spread:.2f}"
        return f"{number}{spread}{'*' if self.below_source else ''}"


@dataclass(frozen=True)
class Column:
    """One group of one stream.

    Attributes:
        stream: Name of the stream.
        group: Name of the group, or ``"all"``.
        images: How many images the group has; None where that is not known.
        kind: Whose numbers these are, where a table sets several side by side: ``"ours"``, ``"paper"``, ...
    """

    stream: str
    group: str
    images: int | None
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """Methods by groups; a cell is None where a method was not run."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]
    notes: tuple[str, ...] = ()


def accuracy_table(comparison: Comparison) -> Table:
    """Arrange results as methods by streams and groups, the best in bold, those below Source marked.

    A column for each group of a stream, and one for all of its images where there are several groups. Several results
    of one method on one stream are those of several seeds: the table has their mean and spread, over the seeds that all
    methods of the stream have.
    """
    results = common_seeds(comparison.results)
    by_place: dict[tuple[str, str], list[Result]] = {}
    columns: list[Column] = []
    for result in results:
        by_place.setdefault((result.label, result.stream), []).append(result)
        for group, images in _groups(result).items():
            if (column := Column(result.stream, group, images)) not in columns:
                columns.append(column)
    methods = list(dict.fromkeys(result.label for result in results))
    sources = [result.label for result in results if result.is_unadapted] or [""]
    found = {
        (method, column): [_groups_accuracy(result)[column.group] for result in by_place[method, column.stream]]
        for method in methods
        for column in columns
        if (method, column.stream) in by_place
    }
    values = {place: fmean(accuracies) for place, accuracies in found.items()}
    spreads = {place: stdev(accuracies) for place, accuracies in found.items() if len(accuracies) > 1}
    best = {column: max(v for (_, c), v in values.items() if c == column) for column in columns}
    rows = []
    for method in methods:
        cells = []
        for column in columns:
            value = values.get((method, column))
            source = values.get((sources[0], column), float("-inf"))
            spread = spreads.get((method, column))
            cells.append(None if value is None else Cell(value, value == best[column], value < source, spread))
        rows.append((method, tuple(cells)))
    notes = ["accuracy in percent; the best in bold; * falls below the unadapted Source"]
    if spreads:
        seeds = sorted({len(accuracies) for accuracies in found.values()})
        notes.append(f"mean ± standard deviation over {' or '.join(map(str, seeds))} seeds")
    if len(results) < len(comparison.results):
        notes.append(UNEQUAL)
    few = sorted({column.images for column in columns if column.images is not None and column.images < 100})
    if few:
        notes.append(f"columns with only {', '.join(map(str, few))} images move in steps of {100 / few[0]:.0f} points")
    notes += [f"{method} was left out: {reason}" for method, reason in comparison.left_out.items()]
    return Table(comparison.title, tuple(columns), tuple(rows), tuple(notes))


def _groups(result: Result) -> dict[str, int]:
    several = len(result.by_group) > 1
    return result.images_by_group | ({"all": result.images} if several else {})


def _groups_accuracy(result: Result) -> dict[str, float]:
    return result.by_group | {"all": result.accuracy}


def _headings(columns: tuple[Column, ...]) -> list[tuple[str, str]]:
    """Return the scenario and the group of each column, as short as they can be without two being the same."""
    short = [(column.stream.split(":")[0], column.group.replace("_", " ")) for column in columns]
    kinds = [column.kind for column in columns]
    seen = Counter(zip(short, kinds, strict=True))
    return [
        (column.stream, group) if seen[(scenario, group), column.kind] > 1 else (scenario, group)
        for column, (scenario, group) in zip(columns, short, strict=True)
    ]


def to_markdown(table: Table) -> str:
    """Write a table as Markdown."""
    named = [
        f"{scenario}: {group}{f', {c.kind}' if c.kind else ''}{'' if c.images is None else f' ({c.images})'}"
        for c, (scenario, group) in zip(table.columns, _headings(table.columns), strict=True)
    ]
    lines = [f"| method | {' | '.join(named)} |", f"| --- |{' ---: |' * len(named)}"]
    for method, cells in table.rows:
        shown = ["-" if cell is None else f"**{cell}**" if cell.best else str(cell) for cell in cells]
        lines.append(f"| {' | '.join(text.replace('|', '&#124;') for text in [method, *shown])} |")
    notes = [f"\n{note[0].upper()}{note[1:]}." for note in table.notes]
    return "\n".join([*lines, *notes]) + "\n"


def to_rich(table: Table) -> rich.table.Table:
    """Turn a table into one for the terminal."""
    shown = rich.table.Table(
        title=rich.markup.escape(table.title),
        caption=rich.markup.escape("\n".join(table.notes)),
        caption_justify="left",
        box=rich.box.SIMPLE_HEAD,
        padding=(0, 1),
        collapse_padding=True,
        pad_edge=False,
    )
    shown.add_column("\n\n\nmethod", no_wrap=True)
    for column, (scenario, group) in zip(table.columns, _headings(table.columns), strict=True):
        scenario = re.sub("(?<=[:/+])|(?=[@#])", "\n", scenario)
        words = group.replace(" ", "\n") + ("" if " " in group else "\n")
        count = "" if column.images is None else f"[dim]n={column.images}[/dim]"
        lines = [
            rich.markup.escape(scenario),
            rich.markup.escape(words),
            *([column.kind] if column.kind else []),
            count,
        ]
        shown.add_column("\n".join(lines), justify="right", no_wrap=True)
    for method, cells in table.rows:
        shown.add_row(rich.markup.escape(method), *("-" if cell is None else _styled(cell) for cell in cells))
    return shown


def _styled(cell: Cell) -> str:
    if cell.below_source:
        return f"[red]{cell}[/red]"
    return f"[bold green]{cell}[/bold green]" if cell.best else str(cell)
