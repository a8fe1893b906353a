"""`midway paper` and `midway demo`: the plans of the package, within a time; tables beside those of the MITA paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from midway import data as datasets
from midway import models
from midway.bench import Grid, LocalEngine, Record, Store, paper, suites
from midway.bench.budget import BudgetChoice, CostEstimator, fit_grid, read_duration
from midway.bench.resources import load_network
from midway.cli.report import print_table, report_run
from midway.cli.run import check_device, command_line, default_jobs, find_records, run_into, show_results, split_commas
from midway.cli.signals import create_exit
from midway.cli.terminal import ProgressLine, terminal
from midway.metrics import METRICS
from midway.report import Table, export, frame, group_records, stored_run
from midway.report.figures import NetworkAndImages, draw_figures, save
from midway.report.paper import complexity_table
from midway.report.paper import paper_table as compare_with_paper
from midway.report.ranking import versus_best
from midway.report.render import FORMATS
from midway.streams import pure

Which = Literal["outlier", "mixture", "pure", "sweep", "ablation", "complexity"]
"""Tables of the paper."""

SHARE_OF_CELLS = 0.8
"""Share of the demo's time for trials and cells; the rest is for the start of workers, figures and the report."""


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
        _show(console, _complexity(console, data, root, network, rows, images or batch_size), folder)
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
    fitted = None
    with Store(folder) as store:
        if budget:
            seconds = read_duration(budget)
            console.print(f"Trying each method on a few images to fit {budget} ...", highlight=False)
            grid, fitted = fit_grid(grid, store, seconds, jobs=jobs, resources=engine.resources)
        tally = run_into(console, grid.cells(), store, engine)
        records = find_records(store, grid.cells())
    title = f"{chosen.title}. {network} on {data}"
    _show(console, _table(title, records, paper.find_comparable(data), metric or ("accuracy",), budget, fitted), folder)
    left_out = fitted.left_out if fitted else None
    run = stored_run(folder.resolve().name, records, folder=folder, command=command_line(), left_out=left_out)
    report_run(console, run)
    for part, comparison in versus_best(frame(records)).items():
        console.print(f"mita on {part}: {comparison}", highlight=False)
    if tally is None or any(record.failure for record in records):
        raise create_exit() if tally is None else typer.Exit(1)


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


def _show(console: Console, table: Table, folder: Path) -> None:
    """Print a table and write it in every format."""
    print_table(console, table)
    for suffix in FORMATS:
        export([table], folder / f"table{suffix}")
    console.print(f"Tables: {folder / 'table.md'} (also .csv, .tex and .json)", highlight=False, soft_wrap=True)


def demo(
    methods: Annotated[str, typer.Option(help="Methods to compare, separated by commas (default: a choice).")] = "",
    images: Annotated[
        int | None,
        typer.Option(min=200, max=2000, help="Number of embedded images (default: 2000, fewer if time is short)."),
    ] = None,
    budget: Annotated[
        float,
        typer.Option(
            min=1,
            help="Seconds for everything, approximately. If they are too few, slower methods are left out, then the "
            "mixed stream, then images; never Source, BN, TENT and MITA.",
        ),
    ] = 120,
    jobs: Annotated[int | None, typer.Option(min=1, help="Cells at a time (default: one for each processor).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of corruptions, outliers and methods.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/demo"),
) -> None:
    """Adapt the embedded network to corrupted CIFAR-10 images, outliers and mixtures, and compare the methods."""
    console = terminal()
    grids = suites.demo_grids(split_commas(methods) or (), images=images, seed=seed)
    engine = LocalEngine(jobs=jobs or default_jobs(grids[0].cells()))
    with Store(out) as store:
        console.print("Comparing methods on corrupted CIFAR-10 (embedded network and images) ...")
        grid, fitted = _fit_demo(console, grids, store, engine, budget)
        slowest_first = sorted(grid.cells(), key=lambda cell: cell.method != "mita")  # they end at about the same time
        tally = run_into(console, slowest_first, store, engine)
        records = find_records(store, grid.cells())
    if tally is not None and any(entry.name == "mita" for entry in grid.methods):
        _draw_image_changes(out, seed)
    show_results(console, out, records, tally, left_out=fitted.left_out)
    for comparison in group_records(records):
        console.print(comparison.summary(), highlight=False)


def _fit_demo(
    console: Console, grids: Sequence[Grid], store: Store, engine: LocalEngine, budget: float
) -> tuple[Grid, BudgetChoice]:
    """Return the largest plan that fits the time, or the smallest; say before it runs how long it takes."""
    estimator = CostEstimator(engine.resources)
    for plan in grids:
        grid, fitted = fit_grid(
            plan,
            store,
            budget * SHARE_OF_CELLS,
            jobs=engine.jobs,
            required=suites.DEMO_REQUIRED,
            estimator=estimator,
            fixed_images=plan.images,
            reuse_images=False,
        )
        if fitted.seconds <= budget * SHARE_OF_CELLS:
            break
    seconds = fitted.seconds / SHARE_OF_CELLS
    streams = f"{len(grid.scenarios)} of {len(grids[0].scenarios)} streams"
    count = f"{len(grid.methods)} methods on {fitted.images:,} images, {streams}"
    late = "" if seconds <= budget else f", more than the {budget:.0f} s allowed: these methods cannot take less"
    console.print(f"{count}: about {seconds:.0f} s with {engine.jobs} cells at a time{late}.", highlight=False)
    return grid, fitted


def _draw_image_changes(out: Path, seed: int) -> None:
    """Draw what MITA changes in one image under each corruption; a small batch is enough."""
    network, images = models.load(suites.DEMO_NETWORK).eval(), datasets.load(suites.DEMO_DATA).first(20)
    given = NetworkAndImages(network, images, batch_size=20, image=3, seed=seed)
    for name, figure in draw_figures(given, only=["image_changes"]):
        save(figure, out / "figures" / name)
