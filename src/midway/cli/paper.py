"""`midway paper`: the tables of the MITA paper, our numbers beside its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from midway import data as datasets
from midway.bench import Grid, LocalEngine, Record, Store, paper, suites
from midway.bench.budget import BudgetChoice
from midway.bench.resources import load_network
from midway.cli.options import split_commas
from midway.cli.report import show_table
from midway.cli.run import check_device, end_with_status, find_records, fit_to_budget, report_records, run_into
from midway.cli.terminal import ProgressLine, terminal
from midway.metrics import METRICS
from midway.report import Table, frame
from midway.report.paper import complexity_table
from midway.report.paper import paper_table as compare_with_paper
from midway.report.ranking import versus_best
from midway.streams import pure

Which = Literal["outlier", "mixture", "pure", "sweep", "ablation", "complexity"]
"""Tables of the paper."""


def paper_table(
    table: Annotated[Which, typer.Argument(help="Which table of the paper.")],
    data: Annotated[str, typer.Option(help="Data set, see `midway data ls`.")] = "cifar10-mini",
    root: Annotated[Path | None, typer.Option(help="Folder of the data set (default: in the data home).")] = None,
    network: Annotated[
        str, typer.Option(help="Network: a name, a checkpoint, architecture@checkpoint, or an untrained architecture.")
    ] = "wrn16_2.cifar10",
    methods: Annotated[str, typer.Option(help="Rows besides Source, separated by commas (default: all).")] = "",
    shifts: Annotated[
        str, typer.Option(help="Columns: corruptions or pairs a/b, separated by commas (default: all).")
    ] = "",
    images: Annotated[int | None, typer.Option(min=1, help="Number of images of the data set (default: all).")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions, with seeds 0, 1, ...")] = 1,
    batch_size: Annotated[int, typer.Option(min=1, max=500, help="Images per batch.")] = 200,
    budget: Annotated[
        str,
        typer.Option(
            help="Time, such as 30m: fewer images before fewer rows, always with Source and MITA. It is approximate, "
            "without the start of processes and the report."
        ),
    ] = "",
    precision: Annotated[str, typer.Option(help="float32, bf16 or auto.")] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    threads: Annotated[int, typer.Option(min=1, help="Threads per cell.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Cells at a time.")] = 1,
    metric: Annotated[
        list[str] | None, typer.Option(help="Metric of the table, see `midway list metrics`; may be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for results (default: runs/paper/TABLE).")] = None,
) -> None:
    """Run a table of the MITA paper and print our numbers beside the paper's, with the difference.

    The same command continues a run that was stopped.
    """
    console = terminal()
    folder = out or Path("runs/paper") / table
    rows, columns = split_commas(methods) or [], split_commas(shifts) or []
    if table == "complexity":
        given = {"shifts": bool(shifts), "seeds": seeds != 1, "budget": bool(budget), "jobs": jobs != 1}
        given |= {"precision": precision != "float32", "device": device != "auto", "threads": threads != 1}
        if unused := [f"--{name}" for name, is_given in given.items() if is_given]:
            raise ValueError(f"{', '.join(unused)}: the complexity table is of one batch on one core, leave it out.")
        folder.mkdir(parents=True, exist_ok=True)  # an error here comes before the work
        show_table(console, _complexity(console, data, root, network, rows, images or batch_size), folder)
        return
    for name in metric or ():
        _ = METRICS[name]  # raises if it is unknown
    chosen = suites.suite(table, only=rows, shifts=columns)
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
    engine = LocalEngine(jobs=jobs)
    check_device(grid.cells(), engine)
    with Store(folder) as store:
        grid, fitted = fit_to_budget(console, grid, store, engine, budget)
        tally = run_into(console, grid.cells(), store, engine)
        records = find_records(store, grid.cells())
    title = f"{chosen.title}. {network} on {data}"
    show_table(
        console, _table(title, records, paper.find_comparable(data), metric or ("accuracy",), budget, fitted), folder
    )
    report_records(console, folder, records, fitted.left_out if fitted else None)
    for part, comparison in versus_best(frame(records)).items():
        console.print(f"mita on {part}: {comparison}", highlight=False)
    end_with_status(records, tally)


def _table(
    title: str,
    records: Sequence[Record],
    data: str | None,
    metrics: Sequence[str],
    budget: str,
    fitted: BudgetChoice | None,
) -> Table:
    counts = {record.result.images for record in records if record.result is not None}
    images = " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)})) if counts else "no"
    reduced = f" REDUCED to fit {budget}" if fitted is not None and fitted.reduced else ""
    left_out = fitted.left_out if fitted is not None else {}
    notes = [f"left out: {label}, {reason}" for label, reason in left_out.items()]
    notes += [f"failed: {record.cell}: {record.failure.error}" for record in records if record.failure is not None]
    full_title = f"{title}, {images} images{reduced} (the paper: WRN-28-10, 10,000)"
    return compare_with_paper(frame(records), data=data, title=full_title, notes=notes, metrics=metrics)


def _complexity(
    console: Console, data: str, root: Path | None, network: str, rows: Sequence[str], images: int
) -> Table:
    loaded = datasets.load(data, root)
    classifier = load_network(network, len(loaded.class_names))
    batch = next(iter(pure(loaded.first(images), "gaussian_noise", batch_size=images))).images
    with ProgressLine(console) as progress:
        lines = suites.measure_complexity(classifier, batch, only=rows, repeats=0, on_entry=progress)
    return complexity_table(f"Complexity. {network} on {data}, one batch of {len(batch)} images", lines)
