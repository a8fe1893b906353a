"""`midway demo`: the methods on corrupted images that the package contains, within a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from midway import data as datasets
from midway import models
from midway.bench import Grid, LocalEngine, Store, suites
from midway.bench.budget import BudgetChoice, CostEstimator, fit_grid
from midway.cli.options import split_commas
from midway.cli.run import default_jobs, find_records, run_into, show_results
from midway.cli.terminal import terminal
from midway.report import group_records
from midway.report.figures import NetworkAndImages, draw_figures, save

SHARE_OF_CELLS = 0.8
"""Share of the demo's time for trials and cells; the rest is for the start of workers, figures and the report."""


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
            "mixed stream, then images; never Source, BN and MITA, with and without clustered statistics.",
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
