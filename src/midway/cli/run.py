"""`midway run`: compare any methods, networks, data sets, scenarios and seeds; a stopped run is continued."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.markup import escape

from midway._secrets import without_password
from midway._workers import count_processors
from midway.bench import Cell, Engine, Grid, LocalEngine, PlanError, Record, Store, Tally, read_records
from midway.bench import run as run_cells
from midway.bench.budget import BudgetChoice, CostEstimator, fit_grid, read_duration
from midway.bench.engines.base import CellTask
from midway.bench.entries import READERS, import_plugins
from midway.bench.environment import environment
from midway.bench.plan import locate, read_plan
from midway.bench.resources import check_data
from midway.bench.store import RESULTS
from midway.cli.options import (
    ENGINE_HELP,
    Address,
    Classes,
    EngineOption,
    Import,
    Json,
    create_engine,
    parse_integers,
    parse_severities,
    split_commas,
)
from midway.cli.report import print_table, report_run
from midway.cli.signals import create_exit
from midway.cli.terminal import PLAN_COLUMNS, RunProgress, print_json, print_plan, show_duration, terminal
from midway.models import ARCHITECTURES
from midway.report import stored_run

NO_GPU = "--device: this machine has no GPU that torch can use: use cpu or auto"


def run(
    plan: Annotated[Path | None, typer.Argument(help="A TOML file. Flags override the file.")] = None,
    methods: Annotated[str | None, typer.Option(help='Such as "tent,tea(steps=4),mita".')] = None,
    networks: Annotated[
        str | None,
        typer.Option(
            help="Names, checkpoints, architecture@checkpoint, or file.py:function for a network of your own, "
            "separated by commas (default: wrn16_2.cifar10)."
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Data sets separated by commas; name@folder sets a root (default: cifar10-mini).")
    ] = None,
    root: Annotated[Path | None, typer.Option(help="Folder of the data set (default: in the data home).")] = None,
    scenarios: Annotated[
        str | None,
        typer.Option(help="Such as pure:all,outlier:fog/snow@0.005,continual:all (default: pure:gaussian_noise)."),
    ] = None,
    severities: Annotated[
        str | None, typer.Option(help="5, 1-5 or 1,3,5, for scenarios without a # (default: 5).")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="0, 0-4 or 0,7 (default: 0).")] = None,
    batch_sizes: Annotated[str | None, typer.Option(help="1 to 500, separated by commas (default: 200).")] = None,
    images: Annotated[int | None, typer.Option(help="Use at most this many images (default: all).")] = None,
    size: Annotated[int | None, typer.Option(help="Side in pixels of images in files.")] = None,
    classes: Classes = None,
    precision: Annotated[str | None, typer.Option(help="float32, bf16 or auto (default: float32).")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or auto (default: auto).")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads per cell (default: 1).")] = None,
    import_: Import = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results (default: runs/ and the name of the plan).")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Cells at a time (default: processors / threads).")] = None,
    engine: Annotated[str, typer.Option(help=ENGINE_HELP)] = "local",
    address: Address = None,
    cpus_per_task: Annotated[float | None, typer.Option(help="CPUs per cell with Ray (default: threads).")] = None,
    gpus_per_task: Annotated[float | None, typer.Option(help="GPUs per cell with Ray (default: 1 on cuda).")] = None,
    engine_option: EngineOption = None,
    keep_predictions: Annotated[bool, typer.Option("--keep-predictions", help="Also store all predictions.")] = False,
    keep_old: Annotated[bool, typer.Option("--keep-old", help="Accept results that other code computed.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait if another run uses the folder.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the cells and the estimated time.")] = False,
    as_json: Json = False,
) -> None:
    """Compare methods: one cell per method, network, data set, scenario and seed. Run it again to resume."""
    flags: dict[str, Any] = {
        "methods": methods,
        "networks": split_commas(networks),
        "data": split_commas(data),
        "root": None if root is None else str(root),
        "scenarios": split_commas(scenarios),
        "severities": None if severities is None else list(parse_severities(severities)),
        "seeds": None if seeds is None else parse_integers("seeds", seeds),
        "batch_sizes": None if batch_sizes is None else parse_integers("batch-sizes", batch_sizes),
        "images": images,
        "size": size,
        "classes": classes,
        "precision": precision,
        "device": device,
        "threads": threads,
        "import": split_commas(import_),
    }
    cells = _cells(plan, {key: value for key, value in flags.items() if value is not None})
    folder = out or Path("runs") / (plan.stem if plan else "run")
    options = {"jobs": jobs, "address": address, "cpus_per_task": cpus_per_task, "gpus_per_task": gpus_per_task}
    chosen = create_engine(engine, options, engine_option, jobs=default_jobs(cells))
    check_device(cells, chosen)
    if dry_run:
        _show_plan(cells, folder, chosen, predictions=keep_predictions, keep_old=keep_old, as_json=as_json)
        return
    console = terminal(stderr=as_json)
    with Store(folder, wait=wait) as store:
        tally = run_into(console, cells, store, chosen, keep_predictions=keep_predictions, keep_old=keep_old)
        records = find_records(store, cells, keep_old=keep_old)
    if as_json:
        print_json([_as_row(record) for record in records])
    show_results(console, folder, records, tally)


def _cells(path: Path | None, flags: dict[str, Any]) -> list[Cell]:
    """Combine the file and the flags; errors have the line in the file or the name of the flag."""
    content = read_plan(path) if path else {}
    if "methods" in flags:
        content.pop("method", None)
    merged = content | flags
    try:
        if path is not None and "import" in merged:
            import_plugins(READERS["import"]("import", merged["import"]), beside=path)
        return Grid.from_dict(merged).cells()
    except PlanError as error:
        key = error.where[0] if error.where else ""
        if path is not None and key in content and key not in flags:
            raise locate(path, error) from error
        if key in flags:
            raise PlanError(f"--{str(key).replace('_', '-')}: {error}", *error.where) from error
        raise


def check_device(cells: Sequence[Cell], engine: Engine) -> None:
    """Raise if cells need a GPU and the engine runs on this machine, which has none."""
    if engine.local and any(cell.device.startswith("cuda") for cell in cells) and not torch.cuda.is_available():
        raise ValueError(f"{NO_GPU}, or a cluster.")


def run_into(
    console: Console,
    cells: Sequence[Cell],
    store: Store,
    engine: Engine,
    *,
    keep_predictions: bool = False,
    keep_old: bool = False,
) -> Tally | None:
    """Run cells into a store and show the progress; return None if Ctrl-C stopped the run."""
    if store.truncated:
        console.print("The last line of the store was truncated by a kill; its cell is run again.")
    _show_other_results(console, store, cells, keep_old=keep_old)
    left = [cell for cell in cells if not store.has(cell, predictions=keep_predictions, keep_old=keep_old)]
    for name in sorted({cell.network for cell in left} & set(ARCHITECTURES)):
        console.print(f"{name} has no trained weights: its answers are guesses. Write {name}@FILE with a checkpoint.")
    check_data(left, engine.resources)
    try:
        with RunProgress(console, engine.slots(CellTask(cells[0])) if left else 1) as progress:
            return run_cells(
                cells,
                store,
                engine,
                command=command_line(),
                keep_predictions=keep_predictions,
                keep_old=keep_old,
                watcher=progress,
            )
    except KeyboardInterrupt:
        done = sum(store.has(cell, keep_old=keep_old) for cell in cells)
        console.print(f"Stopped: {done} of {len(cells)} cells are in {store.folder}. Run the same command to continue.")
        return None


def fit_to_budget(
    console: Console, grid: Grid, store: Store, engine: LocalEngine, budget: str
) -> tuple[Grid, BudgetChoice | None]:
    """Reduce a plan to what fits a time, such as 2h, and return what was chosen; the whole plan without a time."""
    if not budget:
        return grid, None
    console.print(f"Trying each method on a few images to fit {budget} ...", highlight=False)
    return fit_grid(grid, store, read_duration(budget), jobs=engine.jobs, resources=engine.resources)


def find_records(store: Store, cells: Sequence[Cell], *, keep_old: bool = False) -> list[Record]:
    """Return the records of cells that have one."""
    return [record for cell in cells if (record := store.find(cell, keep_old=keep_old)) is not None]


def show_results(
    console: Console,
    folder: Path,
    records: Sequence[Record],
    tally: Tally | None,
    *,
    left_out: Mapping[str, str] | None = None,
) -> None:
    """Print tables, write the report, and end the command with a status: 1 if cells failed, 128 + n after signal n."""
    run = stored_run(folder.resolve().name, records, folder=folder, command=command_line(), left_out=left_out)
    if tally is None:
        with suppress(KeyboardInterrupt):  # a second Ctrl-C skips the report
            report_run(console, run)
        raise create_exit()
    for comparison in run.comparisons:
        if comparison.records:
            print_table(console, comparison.table())
    before = f", {tally.before} before" if tally.before else ""
    results = folder / RESULTS
    console.print(f"{tally.finished} cells finished now{before}. Results: {results}", highlight=False, soft_wrap=True)
    report_run(console, run)
    if tally.failed:
        for record in records:
            if record.failure is not None:
                console.print(f"[red]failed:[/red] {escape(f'{record.cell}: {record.failure.error}')}", soft_wrap=True)
        console.print(f"{tally.failed} cells failed; the results have their tracebacks. Run again to retry them.")
        raise typer.Exit(1)


def report_records(
    console: Console, folder: Path, records: Sequence[Record], left_out: Mapping[str, str] | None
) -> None:
    """Write the page about the results of this command."""
    run = stored_run(folder.resolve().name, records, folder=folder, command=command_line(), left_out=left_out)
    report_run(console, run)


def end_with_status(records: Sequence[Record], tally: Tally | None) -> None:
    """End the command with a status if it was stopped or cells failed."""
    if tally is None:
        raise create_exit()
    if any(record.failure for record in records):
        raise typer.Exit(1)


def command_line() -> str:
    """Return the command that was started, to be stored with results; passwords in addresses are hidden."""
    command = shlex.join(["midway", *map(without_password, sys.argv[1:])])
    return command.encode(errors="backslashreplace").decode()  # arguments may have bytes that are not UTF-8


def _show_other_results(console: Console, store: Store, cells: Sequence[Cell], *, keep_old: bool) -> None:
    """Print which stored results are out of date, not part of the plan, or from another machine."""
    if old := store.out_of_date(cells):
        results = sum(store.has(cell, keep_old=True) for cell in cells)
        action = "kept" if keep_old else "run again"
        console.print(f"{len(old)} of {results} results were made by other code and are {action}.", highlight=False)
    keys = {cell.key for cell in cells}
    if others := sum(record.cell.key not in keys for record in store.records):
        console.print(f"{others} results in the folder have other settings; they are not changed.", highlight=False)
    current, used = environment(), [record for record in find_records(store, cells, keep_old=keep_old) if record.result]
    for part in ("torch", "cpu"):
        if other := {str(record.environment.get(part)) for record in used} - {current[part]}:
            names = ", ".join(sorted(other))
            console.print(f"Finished cells ran with {part} {names}, this is {current[part]}: last digits may differ.")


def _as_row(record: Record) -> dict[str, Any]:
    """Return a record as plain values: its cell, what was measured, and the error of a failed one."""
    result = record.result
    return {
        "key": record.cell.key,
        **record.cell.to_dict(),
        "seconds": record.seconds,
        "metrics": {} if result is None else result.metrics,
        "groups": {} if result is None else result.groups,
        "error": None if record.failure is None else record.failure.error,
    }


def _show_plan(
    cells: Sequence[Cell], folder: Path, engine: Engine, *, predictions: bool, keep_old: bool, as_json: bool = False
) -> None:
    """Print the cells, which of them are finished, and how long the others will take."""
    console = terminal()
    done: set[tuple[str, str]] = set()
    if (folder / RESULTS).is_file():
        for record in read_records(folder):
            if record.result is not None and (record.predictions or not predictions):
                done |= {(record.cell.key, record.cell.code), *([(record.cell.key, "")] if keep_old else [])}
    lines: list[dict[str, str]] = []
    rows, left, estimator = [], [], CostEstimator(engine.resources)
    for cell in cells:
        finished = (cell.key, cell.code) in done or (cell.key, "") in done
        left += [] if finished else [estimator.seconds(cell)]
        rows.append({"key": cell.key, **cell.to_dict(), "seconds": 0.0 if finished else left[-1], "done": finished})
        network = cell.network.rpartition("/")[2]
        shown = "done" if finished else show_duration(left[-1])
        row = (cell.label, network, cell.data, cell.scenario, cell.seed, cell.batch_size, cell.key, shown)
        lines.append(dict(zip(PLAN_COLUMNS, map(str, row), strict=True)))
    if as_json:
        print_json(rows)
        return
    print_plan(console, lines)
    slots = engine.slots(CellTask(cells[0]))
    seconds = show_duration(sum(left) / min(slots, max(len(left), 1)))
    console.print(f"{len(cells)} cells, {len(left)} to run: about {seconds} with {slots} at a time.", highlight=False)


def default_jobs(cells: Sequence[Cell]) -> int:
    """Return as many jobs as there are processors for; one on a GPU, because of its memory."""
    if cells[0].device != "cpu":
        return 1
    return max(1, min(len(cells), count_processors() // cells[0].threads))
