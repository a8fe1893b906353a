"""`midway run`: a comparison of any methods, networks, data, scenarios and seeds, resumed where it was left."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from midway.bench import Cell, Engine, Grid, LocalEngine, PlanError, Record, Store, gather, read_records
from midway.bench import run as run_cells
from midway.bench.engines.ray import RayEngine
from midway.bench.estimate import Estimate
from midway.bench.material import Material
from midway.bench.outcome import environment
from midway.bench.plan_file import pointed_at, read_plan
from midway.bench.store import RESULTS
from midway.cli.data import parse_severities
from midway.cli.progress import RunProgress, in_words
from midway.cli.report import report_records
from midway.cli.terminal import terminal
from midway.report import accuracy_table, to_rich
from midway.report import tables as report
from midway.report.side_by_side import fit_width


class EngineName(StrEnum):
    """Where cells are run."""

    local = "local"
    ray = "ray"


def run(
    plan: Annotated[Path | None, typer.Argument(help="A TOML file; flags go before what it says.")] = None,
    methods: Annotated[str | None, typer.Option(help='Such as "tent,tea(steps=4),mita".')] = None,
    networks: Annotated[
        str | None,
        typer.Option(
            help="Names, checkpoints, architecture@checkpoint, or file.py:function for one of your own, by commas "
            "(default: wrn16_2.cifar10)."
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Data sets, by commas; name@folder has its own root (default: cifar10-mini).")
    ] = None,
    root: Annotated[Path | None, typer.Option(help="Folder of the data set (default: in the data home).")] = None,
    scenarios: Annotated[
        str | None,
        typer.Option(help="Such as pure:all,outlier:fog/snow@0.005,continual:all (default: pure:gaussian_noise)."),
    ] = None,
    severities: Annotated[str | None, typer.Option(help="5, 1-5 or 1,3,5, where the scenario has no #.")] = None,
    seeds: Annotated[str | None, typer.Option(help="0, 0-4 or 0,7 (default: 0).")] = None,
    batch_sizes: Annotated[str | None, typer.Option(help="1 to 500, by commas (default: 200).")] = None,
    images: Annotated[int | None, typer.Option(help="Use at most this many (default: all).")] = None,
    size: Annotated[int | None, typer.Option(help="Side in pixels of images in files.")] = None,
    precision: Annotated[str | None, typer.Option(help="float32, bf16 or auto (default: float32).")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or auto (default: auto).")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads a cell uses (default: 1).")] = None,
    import_: Annotated[str | None, typer.Option("--import", help="Modules with methods of your own.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results (default: runs/ and the plan's name).")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Cells at a time (default: processors / threads).")] = None,
    engine: Annotated[EngineName, typer.Option(help="This machine's processes, or a Ray cluster.")] = EngineName.local,
    address: Annotated[
        str | None, typer.Option(help="Of a running Ray cluster, or auto (default: one is started here).")
    ] = None,
    cpus_per_cell: Annotated[float | None, typer.Option(help="With Ray (default: threads).")] = None,
    gpus_per_cell: Annotated[float | None, typer.Option(help="With Ray (default: 1 on cuda).")] = None,
    keep_predictions: Annotated[bool, typer.Option("--keep-predictions", help="Also keep every answer.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait if another run has the folder.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the cells and how long they would take.")] = False,
) -> None:
    """Compare methods, one cell a method, network, data set, scenario and seed; run it again to resume."""
    flags: dict[str, Any] = {
        "methods": methods,
        "networks": listed(networks),
        "data": listed(data),
        "root": None if root is None else str(root),
        "scenarios": listed(scenarios),
        "severities": None if severities is None else list(parse_severities(severities)),
        "seeds": None if seeds is None else parse_wholes("seeds", seeds),
        "batch_sizes": None if batch_sizes is None else parse_wholes("batch-sizes", batch_sizes),
        "images": images,
        "size": size,
        "precision": precision,
        "device": device,
        "threads": threads,
        "import": listed(import_),
    }
    cells = _plan(plan, {key: value for key, value in flags.items() if value is not None})
    folder = out or Path("runs") / (plan.stem if plan else "run")
    processes = jobs or _sensible_jobs(cells)
    on_cluster = {"--address": address, "--cpus-per-cell": cpus_per_cell, "--gpus-per-cell": gpus_per_cell}
    if engine is EngineName.ray:
        if jobs is not None:
            raise ValueError("--jobs is for the local engine: Ray runs what fits, see --cpus-per-cell.")
    elif given := [flag for flag, value in on_cluster.items() if value is not None]:
        raise ValueError(f"{given[0]} is for clusters: add --engine ray.")
    else:
        check_device(cells)
    if dry_run:
        _show(cells, folder, processes, predictions=keep_predictions)
    elif engine is EngineName.ray:
        cluster = RayEngine(address=address, cpus_per_cell=cpus_per_cell, gpus_per_cell=gpus_per_cell)
        _run(cells, folder, cluster, cluster.slots(cells), keep_predictions=keep_predictions, wait=wait)
    else:
        _run(cells, folder, LocalEngine(jobs=processes), processes, keep_predictions=keep_predictions, wait=wait)


def _plan(path: Path | None, flags: dict[str, Any]) -> list[Cell]:
    """Put the file and the flags together; errors point at the line or name the flag."""
    content = read_plan(path) if path else {}
    if "methods" in flags:
        content.pop("method", None)
    try:
        return Grid.from_dict(content | flags).cells()
    except PlanError as error:
        guilty = error.where[0] if error.where else ""
        if path is not None and guilty in content and guilty not in flags:
            raise pointed_at(path, error) from error
        if guilty in flags:
            raise PlanError(f"--{str(guilty).replace('_', '-')}: {error}", *error.where) from error
        raise


def check_data(cells: Sequence[Cell]) -> None:
    """Load each data set once before anything begins: what is missing is said now, not cell by cell."""
    material = Material()
    for cell in {(cell.data, cell.root, cell.size): cell for cell in cells}.values():
        material.data_set(cell)


def check_device(cells: Sequence[Cell]) -> None:
    """Refuse a GPU that is not there."""
    if any(cell.device.startswith("cuda") for cell in cells) and not torch.cuda.is_available():
        raise ValueError(
            "--device: torch finds no GPU here: use cpu or auto, or a cluster that has one (--engine ray)."
        )


def _run(cells: Sequence[Cell], folder: Path, engine: Engine, jobs: int, *, keep_predictions: bool, wait: bool) -> None:
    console = terminal()
    command = shlex.join(["midway", *sys.argv[1:]])
    with Store(folder, wait=wait) as store:
        if store.torn:
            console.print("The last line of the store was torn off by a kill; its cell is run again.")
        _tell_of_other_results(console, store, cells)
        check_data([cell for cell in cells if not store.has(cell)])
        try:
            with RunProgress(console, jobs) as progress:
                tally = run_cells(
                    cells,
                    store,
                    engine,
                    command=command,
                    keep_predictions=keep_predictions,
                    watcher=progress,
                )
        except KeyboardInterrupt:
            done = sum(store.has(cell) for cell in cells)
            console.print(
                f"Stopped: {done} of {len(cells)} cells are in {folder}. The same command goes on from there."
            )
            with suppress(KeyboardInterrupt):  # who presses it again waits for no report
                report_records(console, folder, _stored(store, cells), command=command)
            raise typer.Exit(130) from None
        records = _stored(store, cells)
    for comparison in gather(records, command=command):
        if comparison.results:
            _print_table(console, accuracy_table(comparison))
    again = f", {tally.before} before" if tally.before else ""
    console.print(f"{tally.finished} cells finished now{again}. Results: {store.path}", highlight=False, soft_wrap=True)
    report_records(console, folder, records, command=command)
    if tally.failed:
        for record in records:
            if record.failure is not None:
                console.print(f"[red]failed:[/red] {escape(f'{record.cell}: {record.failure.error}')}", soft_wrap=True)
        console.print(f"{tally.failed} cells failed; their tracebacks are in the results. Run again to retry them.")
        raise typer.Exit(1)


def _stored(store: Store, cells: Sequence[Cell]) -> list[Record]:
    return [record for cell in cells if (record := store.labelled(cell)) is not None]


def _print_table(console: Console, table: report.Table) -> None:
    """Print a table in parts that fit the terminal, its title and notes as lines of their own."""
    for part in fit_width(table, console.width):
        console.print(f"\n[bold]{escape(part.title)}[/bold]", highlight=False)
        console.print(to_rich(replace(part, title="", notes=())))
    for note in table.notes:
        console.print(note, style="dim", highlight=False, markup=False)


def _tell_of_other_results(console: Console, store: Store, cells: Sequence[Cell]) -> None:
    """Say what is in the folder and not used, and what was measured elsewhere."""
    keys = {cell.key for cell in cells}
    if others := len(store.records.keys() - keys):
        console.print(f"{others} results in the folder are of other settings or versions; they stay as they are.")
    here = environment()
    for part in ("torch", "cpu"):
        elsewhere = {store.records[key].environment.get(part) for key in keys & store.records.keys()} - {here[part]}
        if elsewhere:
            found = ", ".join(map(str, sorted(elsewhere, key=str)))
            console.print(f"Finished cells ran with {part} {found}, this is {here[part]}: last digits may differ.")


def _show(cells: Sequence[Cell], folder: Path, jobs: int, *, predictions: bool) -> None:
    """Print the cells, which are done, and how long the others would take."""
    console = terminal()
    done = set()
    if (folder / RESULTS).is_file():
        records = [record for record in read_records(folder) if record.result is not None]
        done = {record.cell.key for record in records if record.predictions or not predictions}
    table = Table("method", "network", "data", "scenario", "seed", "batch", "key", "estimate", box=None)
    total = 0.0
    estimate = Estimate()
    for cell in cells:
        shown = "done"
        if cell.key not in done:
            seconds = estimate.seconds(cell)
            total += seconds
            shown = in_words(seconds)
        network = cell.network.rpartition("/")[2]
        row = (cell.label, network, cell.data, cell.scenario, cell.seed, cell.batch_size, cell.key, shown)
        table.add_row(*(escape(str(part)) for part in row))
    console.print(table)
    left = sum(cell.key not in done for cell in cells)
    console.print(
        f"{len(cells)} cells, {left} to run: about {in_words(total / min(jobs, max(left, 1)))} with {jobs} at a time.",
        highlight=False,
    )


def listed(text: str | None) -> list[str] | None:
    """Read names with commas between them.

    Example:
        >>> listed("bn, tent"), listed(None)
        (['bn', 'tent'], None)
    """
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def parse_wholes(flag: str, text: str) -> list[int]:
    """Read whole numbers as people write them.

    Example:
        >>> parse_wholes("seeds", "0-2,7")
        [0, 1, 2, 7]
    """
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not first.isdecimal() or not last.isdecimal():
            raise ValueError(f"--{flag} '{text}' is not understood: write whole numbers, such as 1, 1-4 or 1,7.")
        found += range(int(first), int(last) + 1)
    return found


def _sensible_jobs(cells: Sequence[Cell]) -> int:
    """Choose as many jobs as there are processors for; a GPU gets one, whose memory it is."""
    if cells[0].device != "cpu":
        return 1
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(len(cells), processors // cells[0].threads))
