"""``midway data``: fetch, list, make and preview data sets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.filesize import decimal
from rich.progress import Progress, TaskID, TimeElapsedColumn
from rich.table import Table

from midway import data
from midway.cli.options import Json, parse_severities
from midway.cli.signals import create_exit
from midway.cli.terminal import print_json, terminal
from midway.data.datasets import REGISTRY
from midway.data.manifest import Manifest

app = typer.Typer(help="Fetch, list, make and preview data sets.", no_args_is_help=True)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A data set with a published archive, such as cifar10 or cifar100.")],
    root: Annotated[Path | None, typer.Option(help="Folder of the data set (default: NAME in the data home).")] = None,
    mirror: Annotated[str | None, typer.Option(help="Another address of the published archive.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing data set.")] = False,
) -> None:
    """Download a data set and verify it; an interrupted download is continued."""
    with _progress() as progress:
        path = data.fetch(name, root, mirror=mirror, force=force, progress=progress)
    terminal().print(f"[bold]{name}[/] is in {path}, verified.", soft_wrap=True)


@app.command("ls")
def list_(
    home: Annotated[Path | None, typer.Option(help="Folder of data sets (default: the data home).")] = None,
    check: Annotated[bool, typer.Option("--check", help="Compute all checksums again.")] = False,
    as_json: Json = False,
) -> None:
    """List the data sets on this machine with size and verification, and say where the others belong."""
    records = data.inventory(home, deep=check)
    if as_json:
        print_json([asdict(record) for record in records])
        return
    folder = data.data_home() if home is None else home
    terminal().print(f"Data sets in {folder}, a folder each:", soft_wrap=True, highlight=False)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("data set", "size", "verified", "note"):
        table.add_column(column, justify="right" if column == "size" else "left", overflow="fold")
    for record in records:
        verified = "[green]yes[/]" if record.verified else "[yellow]no[/]"
        table.add_row(record.name, decimal(record.bytes), verified, record.note)
    terminal().print(table)
    absent = {name: REGISTRY[name] for name in data.names() if name not in {record.name for record in records}}
    terminal().print(
        f"Not on this machine: {', '.join(name for name, entry in absent.items() if not entry.needs_root)}. "
        f"`midway data fetch` downloads {' and '.join(name for name, entry in REGISTRY.items() if entry.archive)}, "
        "`midway data make` writes corrupted sets; for the others, "
        f"put the files into {folder} under these names.",
        soft_wrap=True,
        highlight=False,
    )
    for name, entry in absent.items():
        if not entry.needs_root:
            terminal().print(f"  {name}: {entry.remedy}", soft_wrap=True, highlight=False)


@app.command()
def make(
    name: Annotated[str, typer.Argument(help="Name of the new data set, for example cifar10-c.")],
    source: Annotated[
        str | None, typer.Option("--from", help="Clean data: a name or a folder of images (default: NAME without -c).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write (default: NAME in the data home).")] = None,
    severity: Annotated[str, typer.Option(help="5, 1-5 or 1,3,5.")] = "1-5",
    corruption: Annotated[
        str | None, typer.Option(help="Corruptions, comma-separated (default: the 19 published).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random corruptions.")] = 0,
    layout: Annotated[
        Literal["npy", "jpeg", "png"] | None, typer.Option(help="Format of the images (default: by the source).")
    ] = None,
    size: Annotated[int | None, typer.Option(help="Side in pixels for a folder of images.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Number of processes (default: one per processor).")] = None,
) -> None:
    """Write a corrupted data set in its published layout; an interrupted run is continued."""
    if source is None and not name.endswith("-c"):
        raise ValueError(f"{name} does not end in -c, so its clean data must be given with --from.")
    clean = _source(source or name.removesuffix("-c"), size)
    folder = data.data_home() / name if out is None else out
    try:
        with _progress() as progress:
            path = data.make_corrupted(
                clean,
                folder,
                corruptions=None if corruption is None else corruption.split(","),
                severities=parse_severities(severity),
                seed=seed,
                layout=layout,
                jobs=jobs,
                progress=progress,
            )
    except KeyboardInterrupt:
        manifest = Manifest.read(folder)
        parts = (() if manifest is None else tuple(manifest.files), () if manifest is None else manifest.due)
        done, due = (sum(part != "labels.npy" for part in some) for some in parts)
        terminal().print(f"Stopped: {done} of {done + due} parts are in {folder}. Run the same command to continue.")
        raise create_exit() from None
    terminal().print(f"[bold]{name}[/] is in {path}.", soft_wrap=True)


@app.command()
def preview(
    source: Annotated[str, typer.Option("--from", help="A data set or a folder of images.")] = "cifar10-mini",
    out: Annotated[Path, typer.Option(help="The PNG to write.")] = Path("corruptions.png"),
    severity: Annotated[str, typer.Option(help="5 for a block of pictures, 1-5 for one row per corruption.")] = "5",
    image: Annotated[int, typer.Option(help="Index of the image.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the random corruptions.")] = 0,
) -> None:
    """Draw one image under all corruptions."""
    path = data.contact_sheet(_source(source, None), out, image=image, severities=parse_severities(severity), seed=seed)
    terminal().print(f"The contact sheet is {path}.", soft_wrap=True)


def _source(name_or_folder: str, size: int | None) -> data.ImageSet:
    if name_or_folder not in data.names() and Path(name_or_folder).is_dir():
        return data.load("folder", name_or_folder, size=size)
    return data.load(name_or_folder, size=size)


@contextmanager
def _progress() -> Iterator[data.Progress]:
    """Yield a function that shows progress: bars with the remaining time on a terminal, else plain lines."""
    console = terminal(sys.stderr)
    if not console.is_terminal:
        lines: set[str] = set()

        def print_once(task: str, done: int, total: int | None) -> None:
            line = f"{task}: done" if done == total else task
            if line not in lines:
                console.print(line, soft_wrap=True, highlight=False)
            lines.update((task, line))  # a task that is done when it begins has one line

        yield print_once
        return
    tasks: dict[str, TaskID] = {}
    with Progress(*Progress.get_default_columns(), TimeElapsedColumn(), console=console) as bars:

        def show(task: str, done: int, total: int | None) -> None:
            if task not in tasks:
                tasks[task] = bars.add_task(task, total=total)
            bars.update(tasks[task], completed=done, total=total)

        yield show
