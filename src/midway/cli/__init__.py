"""The command line: thin commands over the public interface."""

from __future__ import annotations

import os
import sys
from errno import EACCES, EDQUOT, ENOSPC, EPERM, EROFS
from typing import Annotated

import typer
from rich.markup import escape

from midway import __version__
from midway._allocator import keep_freed_memory
from midway._workers import WorkerError
from midway.bench.engines._ray_connection import HeadLostError
from midway.cli import benchmark, compare, data, demo, figures, listings, paper, recommend, report, run, tune
from midway.cli.signals import interrupted, status, stop_on_signals
from midway.cli.terminal import terminal

app = typer.Typer(
    help="Midway: test-time adaptation for any PyTorch classifier.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(demo.demo)
app.command()(run.run)
app.command()(compare.compare)
app.command()(recommend.recommend)
app.command("paper")(paper.paper_table)
app.command()(benchmark.benchmark)
app.command()(report.report)
app.command(cls=figures.FiguresCommand)(figures.figures)
app.command()(tune.tune)
app.add_typer(listings.methods_app, name="methods")
app.add_typer(listings.models_app, name="models")
app.command("list")(listings.list_registry)
app.add_typer(data.app, name="data")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; errors that the user can correct are printed as one line without a traceback."""
    stop_on_signals()
    keep_freed_memory()
    try:
        app()
    except SystemExit:
        if interrupted():  # where a command does not handle it, typer prints "Aborted." and ends with status 1
            sys.exit(status())
        raise
    except (ValueError, OSError, ImportError, WorkerError) as error:
        terminal(stderr=True).print(
            f"[bold red]error:[/bold red] {escape(_sentence(error))}", highlight=False, soft_wrap=True
        )
        if isinstance(error, HeadLostError):  # threads of Ray wait for the head and crash the interpreter as it ends
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)
        sys.exit(1)


def _sentence(error: Exception) -> str:
    """Return what an error says; the operating system's number is left out, and some errors have a remedy."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    remedy = _REMEDIES.get(error.errno or 0, "")
    return f"{error.filename or 'a file'}: {error.strerror}{remedy}."


_FULL = ": free some space, then run the same command again"
_CLOSED = ": change its permissions, or choose another"
_REMEDIES = {ENOSPC: _FULL, EDQUOT: _FULL, EROFS: _CLOSED, EACCES: _CLOSED, EPERM: _CLOSED}
