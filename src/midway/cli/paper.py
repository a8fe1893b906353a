"""`midway paper`: the MITA paper's tables, ours beside its own."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import midway
from midway.bench import Grid, LocalEngine, Record, Store, paper, run
from midway.bench.budget import Fit, fit_grid, read_duration
from midway.bench.complexity import measure_complexity
from midway.bench.networks import load_network
from midway.bench.resources import ResourceCache, check_data
from midway.bench.suites import Suite, suite
from midway.cli.progress import ProgressLine, RunProgress
from midway.cli.report import report_records
from midway.cli.run import check_device, stored
from midway.cli.terminal import terminal
from midway.report import to_rich
from midway.report.common_seeds import UNEQUAL, common_seeds
from midway.report.exports import FORMATS, export
from midway.report.paper_tables import comparison_table, complexity_table, measured, standing
from midway.report.side_by_side import fit_width, split_columns
from midway.report.tables import Table
from midway.suggest import unknown


class Which(StrEnum):
    """Tables of the paper."""

    outlier = "outlier"
    mixture = "mixture"
    pure = "pure"
    sweep = "sweep"
    ablation = "ablation"
    complexity = "complexity"


def paper_table(
    table: Annotated[Which, typer.Argument(help="Which table of the paper.")],
    data: Annotated[str, typer.Option(help="Data set, see `midway data ls`.")] = "cifar10-mini",
    root: Annotated[Path | None, typer.Option(help="Folder of the data set (default: the usual place).")] = None,
    network: Annotated[
        str, typer.Option(help="Network: a name, a checkpoint, architecture@checkpoint, or an untrained architecture.")
    ] = "wrn16_2.cifar10",
    methods: Annotated[str, typer.Option(help="Rows to run besides Source, with commas (default: all).")] = "",
    shifts: Annotated[
        str, typer.Option(help="Columns to run: corruptions or pairs a/b, with commas (default: all).")
    ] = "",
    images: Annotated[int | None, typer.Option(min=1, help="How many images of the set (default: all).")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions, with seeds 0, 1, ...")] = 1,
    batch_size: Annotated[int, typer.Option(min=1, max=500, help="Images a batch.")] = 200,
    budget: Annotated[
        str,
        typer.Option(help="Time there is, such as 30m: fewer images before fewer rows, never without Source and MITA."),
    ] = "",
    precision: Annotated[str, typer.Option(help="float32, bf16 or auto.")] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    threads: Annotated[int, typer.Option(min=1, help="Threads a cell uses.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Cells to run at a time.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder for results (default: runs/paper/TABLE).")] = None,
) -> None:
    """Run a table of the MITA paper and print our numbers beside its own, with the difference.

    The same command goes on where it was stopped.
    """
    console = terminal()
    folder = out or Path("runs/paper") / table
    rows = [label.strip() for label in methods.split(",") if label.strip()]
    if table is Which.complexity:
        given = {"shifts": bool(shifts), "seeds": seeds != 1, "budget": bool(budget), "jobs": jobs != 1}
        given |= {"precision": precision != "float32", "device": device != "auto", "threads": threads != 1}
        if strange := [f"--{name}" for name, is_given in given.items() if is_given]:
            raise ValueError(f"{', '.join(strange)}: the complexity table is of one batch on one core, leave it out.")
        folder.mkdir(parents=True, exist_ok=True)  # what cannot be written to is better known before than after
        made = _complexity(console, data, root, network, rows, images or batch_size)
        _show(console, made, folder)
        return
    chosen = _only_shifts(suite(table, only=rows), [text.strip() for text in shifts.split(",") if text.strip()])
    grid = Grid(
        methods=chosen.entries,
        networks=(network,),
        data=(data,),
        root=None if root is None else str(root),
        scenarios=tuple(map(str, chosen.scenarios)),
        seeds=tuple(range(seeds)),
        batch_sizes=(batch_size,),
        images=images,
        precision=precision,
        device=device,
        threads=threads,
    )
    stopped = False
    engine = LocalEngine(jobs=jobs)
    check_device(grid.cells(), engine)
    with Store(folder) as store:
        fitted = None
        if budget:
            console.print(f"Trying each method on a few images to fit {budget} ...", highlight=False)
            grid, fitted = fit_grid(grid, store, read_duration(budget), jobs=jobs, resources=engine.resources)
        cells = grid.cells()
        left = [cell for cell in cells if not store.has(cell)]
        check_data(left, engine.resources or ResourceCache(), load_pixels=engine.resources is not None)
        try:
            with RunProgress(console, jobs) as progress:
                run(cells, store, engine, command=_command(), watcher=progress)
        except KeyboardInterrupt:
            console.print("Stopped. The same command goes on from here; this is what there is so far.")
            stopped = True
        records = stored(store, cells)
    made = _table(chosen, records, data=data, network=network, budget=budget, fitted=fitted)
    _show(console, made, folder)
    report_records(console, folder, records, command=_command())
    numbers = [number for record in records if record.result is not None for number in measured(record.result)]
    for part, comparison in standing(numbers).items():
        console.print(f"mita on {part}: {comparison}", highlight=False)
    if stopped or any(record.failure for record in records):
        raise typer.Exit(130 if stopped else 1)


def _only_shifts(whole: Suite, wanted: Sequence[str]) -> Suite:
    """Keep the streams of these corruptions or pairs."""
    known = {"/".join(scenario.shifts) for scenario in whole.scenarios}
    for text in wanted:
        if text not in known:
            raise ValueError(unknown(f"column of the {whole.name} table", text, sorted(known)))
    kept = tuple(scenario for scenario in whole.scenarios if not wanted or "/".join(scenario.shifts) in wanted)
    return replace(whole, scenarios=kept)


def _table(
    chosen: Suite, records: Sequence[Record], *, data: str, network: str, budget: str, fitted: Fit | None
) -> Table:
    results = [record.result for record in records if record.result is not None]
    equal = common_seeds(results)
    numbers = [number for result in equal for number in measured(result)]
    images = {record.result.images for record in records if record.result is not None}
    counted = " to ".join(f"{count:,}" for count in sorted({min(images), max(images)})) if images else "no"
    reduced = f" REDUCED to fit {budget}" if fitted is not None and fitted.reduced else ""
    title = f"{chosen.title}. {network} on {data}, {counted} images{reduced} (the paper: WRN-28-10, 10,000)"
    left_out = fitted.left_out if fitted is not None else {}
    notes = [f"left out: {label}, {reason}" for label, reason in left_out.items()]
    notes += [UNEQUAL] if len(equal) < len(results) else []
    notes += [f"failed: {record.cell}: {record.failure.error}" for record in records if record.failure is not None]
    return comparison_table(title, numbers, data=paper.comparable(data), notes=notes)


def _complexity(
    console: Console, data: str, root: Path | None, network: str, rows: Sequence[str], images: int
) -> Table:
    loaded = midway.data.load(data, root)
    classifier = load_network(network, len(loaded.class_names))
    stream = midway.streams.pure(loaded.first(images), "gaussian_noise", batch_size=images)
    batch = next(iter(stream)).images
    with ProgressLine(console) as progress:
        lines = measure_complexity(classifier, batch, only=rows, repeats=0, on_entry=progress)
    title = f"Complexity. {network} on {data}, one batch of {len(batch)} images"
    return complexity_table(title, lines)


def _show(console: Console, table: Table, folder: Path) -> None:
    """Print a table in parts that fit the terminal and write it in every form."""
    for part in fit_width(table, console.width):
        console.print(to_rich(part))
    for ending in FORMATS:
        export(split_columns(table) if ending in (".md", ".tex") else [table], folder / f"table{ending}")
    console.print(f"Tables: {folder / 'table.md'} (also .csv, .tex and .json)", highlight=False, soft_wrap=True)


def _command() -> str:
    return shlex.join(["midway", *sys.argv[1:]])
