"""`midway benchmark`: every method on the streams of the field, in one table of errors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from midway.bench import Grid, LocalEngine, Store
from midway.bench.benchmark import LEFT_OUT, benchmark_cells, benchmark_entries, select_columns
from midway.bench.budget import read_duration
from midway.cli.options import parse_integers, split_commas
from midway.cli.report import show_table
from midway.cli.run import check_device, end_with_status, find_records, fit_to_budget, report_records, run_into
from midway.cli.signals import create_exit
from midway.cli.terminal import show_duration, terminal
from midway.report import frame
from midway.report.benchmark import benchmark_table


def benchmark(
    streams: Annotated[
        str, typer.Option(help="Columns: reset, continual, mixed, correlated, outlier, mixture (default: all).")
    ] = "",
    methods: Annotated[
        str, typer.Option(help="Rows besides Source, as in `midway run` (default: all methods and some variants).")
    ] = "",
    data: Annotated[str, typer.Option(help="Data set, see `midway data ls`.")] = "cifar10-mini",
    network: Annotated[
        str, typer.Option(help="Network: a name, a checkpoint, or architecture@checkpoint.")
    ] = "wrn16_2.cifar10",
    images: Annotated[
        int | None, typer.Option(min=1, help="Images a corruption (default: all of the data set).")
    ] = None,
    seeds: Annotated[str, typer.Option(help="0, 0-4 or 0,7.")] = "0",
    batch_size: Annotated[
        int, typer.Option(min=1, max=500, help="Images per batch; correlated streams have at most 64.")
    ] = 200,
    budget: Annotated[
        str,
        typer.Option(
            help="Time, such as 2h: fewer images before fewer rows, always with Source and MITA. It is approximate, "
            "without the start of processes and the report."
        ),
    ] = "",
    precision: Annotated[str, typer.Option(help="float32, bf16 or auto.")] = "float32",
    jobs: Annotated[int, typer.Option(min=1, help="Cells at a time.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/benchmark"),
    keep_old: Annotated[bool, typer.Option("--keep-old", help="Accept results that other code computed.")] = False,
) -> None:
    """Compare all methods on six kinds of streams; print mean errors beside published ones of other networks.

    The same command continues a run that was stopped.
    """
    console = terminal()
    columns = select_columns(split_commas(streams) or ())
    grid = Grid(
        methods=benchmark_entries(methods),
        networks=(network,),
        data=(data,),
        scenarios=tuple(text for column in columns.values() for text in column.texts),
        seeds=tuple(parse_integers("seeds", seeds)),
        batch_sizes=(batch_size,),
        images=images,
        precision=precision,
    )
    engine = LocalEngine(jobs=jobs)
    check_device(benchmark_cells(grid, columns), engine)
    left_out = {} if methods else dict(LEFT_OUT)
    with Store(out) as store:
        grid, fitted = fit_to_budget(console, grid, store, engine, budget)
        if fitted is not None:
            left_out |= fitted.left_out
            if fitted.seconds > read_duration(budget):
                least = f"{fitted.images:,} images take about {show_duration(fitted.seconds)}, more than {budget}"
                console.print(f"{least}: the remaining methods cannot take less.", highlight=False)
        cells = benchmark_cells(grid, columns)
        tally = run_into(console, cells, store, engine, keep_old=keep_old)
        records = find_records(store, cells, keep_old=keep_old)
    if tally is None and not records:
        raise create_exit()
    counted = f", {grid.images:,} images a corruption" if grid.images else ""
    counted += ", bf16" if cells[0].precision == "bf16" else ""
    notes = [f"left out: {label}, {reason}" for label, reason in left_out.items()]
    title = f"Benchmark. {network} on {data}{counted}"
    table = benchmark_table(frame(records), columns, data=data, title=title, notes=notes)
    show_table(console, table, out)
    report_records(console, out, records, left_out)
    end_with_status(records, tally)
