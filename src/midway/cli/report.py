"""`midway report`: one HTML page about a stored run, or about what a second run changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from midway.bench import Record
from midway.cli.terminal import terminal
from midway.report import read_run, write_report
from midway.report.stored_run import stored_run


def report(
    run: Annotated[Path, typer.Argument(help="Folder of a run, of a demo or of a search.")],
    other: Annotated[Path | None, typer.Argument(help="A later run, to be compared with the first.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file (default: report.html in the folder of the last).")] = None,
) -> None:
    """Write one HTML page that needs no network: the answer, tables, figures, settings, failures."""
    first = read_run(run)
    newest = first if other is None else read_run(other)
    name = "report.html" if other is None else f"report_against_{first.name}.html"
    path = out or (newest.folder or Path()) / name
    write_report(newest, path, against=None if other is None else first)
    terminal().print(f"Report: {path}", highlight=False, soft_wrap=True, markup=False)


def report_records(
    console: Console,
    folder: Path,
    records: Sequence[Record],
    *,
    command: str,
    left_out: Mapping[str, str] | None = None,
) -> None:
    """Write the page of what a command has stored, finished or not, and say where it is; none of nothing."""
    if records:
        run = stored_run(folder.resolve().name, list(records), folder=folder, command=command, left_out=left_out)
        page = write_report(run, folder / "report.html")
        console.print(f"Report: {page}", highlight=False, soft_wrap=True, markup=False)
