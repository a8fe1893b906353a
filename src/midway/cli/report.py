"""`midway report`: one HTML page about a stored run, or about two; tables of any metric on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from midway.bench.entries import import_plugins
from midway.cli.options import Import, split_commas
from midway.cli.terminal import terminal
from midway.report import Comparison, StoredRun, Table, export, fit_width, read_run, to_rich, write_report
from midway.report.render import FORMATS
from midway.report.tidy import IMAGES


def report(
    run: Annotated[Path, typer.Argument(help="Folder of a run, of a demo or of a search.")],
    other: Annotated[Path | None, typer.Argument(help="A later run to compare with the first.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file (default: report.html in the folder of the last).")] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Print a table of this metric, see `midway list metrics`; may be repeated.")
    ] = None,
    table: Annotated[
        list[Path] | None,
        typer.Option(
            help="Write the tables to a .md, .tex, .csv or .json file; may be repeated. Without --metric, .csv and "
            ".json have every metric, the others the accuracy."
        ),
    ] = None,
    import_: Import = None,
) -> None:
    """Write one HTML page that needs no network: the answer, tables, figures, settings, failures."""
    console = terminal()
    import_plugins(split_commas(import_) or [])
    first = read_run(run)
    newest = first if other is None else read_run(other)
    for path in table or ():
        export([_table(each, metric, path.suffix) for each in newest.comparisons if each.records], path)
    for comparison in newest.comparisons if metric else ():
        print_table(console, comparison.table(metric or ()))
    name = "report.html" if other is None else f"report_against_{first.name}.html"
    path = write_report(newest, out or (newest.folder or Path()) / name, against=None if other is None else first)
    console.print(f"Report: {path}", highlight=False, soft_wrap=True, markup=False)


def _table(comparison: Comparison, metrics: Sequence[str] | None, suffix: str) -> Table:
    every = [name for name in comparison.frame.unique("metric") if name != IMAGES]
    return comparison.table(metrics or (every if suffix in (".csv", ".json") else ("accuracy",)))


def print_table(console: Console, table: Table) -> None:
    """Print a table in parts that fit the terminal, with titles and notes as lines of their own."""
    for part in fit_width(table, console.width):
        console.print(f"\n[bold]{escape(part.title)}[/bold]", highlight=False)
        console.print(to_rich(replace(part, title="", notes=())))
    for note in table.notes:
        console.print(note, style="dim", highlight=False, markup=False)


def show_table(console: Console, table: Table, folder: Path) -> None:
    """Print a table and write it in every format."""
    print_table(console, table)
    for suffix in FORMATS:
        export([table], folder / f"table{suffix}")
    console.print(f"Tables: {folder / 'table.md'} (also .csv, .tex and .json)", highlight=False, soft_wrap=True)


def report_run(console: Console, run: StoredRun) -> None:
    """Write the page about the results of a command, finished or not, and print its path; no page without results."""
    if run.records and run.folder is not None:
        page = write_report(run, run.folder / "report.html")
        console.print(f"Report: {page}", highlight=False, soft_wrap=True, markup=False)
