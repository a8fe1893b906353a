"""``midway demo``: the embedded network on embedded images in three scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from midway import data as datasets
from midway.bench import LocalEngine, Store, suites
from midway.bench.budget import fit_grid
from midway.cli.run import run_into, show_results, split_commas, stored
from midway.cli.terminal import terminal
from midway.report import group_records


def demo(
    methods: Annotated[str, typer.Option(help="Methods to compare, separated by commas (default: all).")] = "",
    images: Annotated[
        int | None, typer.Option(min=200, max=2000, help="Number of embedded images (default: what fits the budget).")
    ] = None,
    budget: Annotated[
        float, typer.Option(min=1, help="Seconds; slower methods are left out, never Source, BN, TENT and MITA.")
    ] = 120,
    seed: Annotated[int, typer.Option(help="Seed of corruptions, outliers and methods.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/demo"),
) -> None:
    """Adapt the embedded network to corrupted CIFAR-10 images in three scenarios and compare the methods."""
    console = terminal()
    grid = suites.demo_grid(split_commas(methods) or (), images=images, seed=seed)
    engine = LocalEngine()
    with Store(out) as store:
        console.print("Comparing methods on corrupted CIFAR-10 (embedded network and images) ...")
        grid, fitted = fit_grid(
            grid,
            store,
            budget,
            required=suites.DEMO_REQUIRED,
            resources=engine.resources,
            fixed_images=images,
            reuse_images=False,
        )
        tally = run_into(console, grid.cells(), store, engine)
        records = stored(store, grid.cells())
    if tally is not None and any(entry.name == "mita" for entry in grid.methods):
        _draw_image_changes(out, seed)
    show_results(console, out, records, tally, left_out=fitted.left_out)
    for comparison in group_records(records):
        console.print(comparison.summary(), highlight=False)


def _draw_image_changes(out: Path, seed: int) -> None:
    """Draw what MITA changes in one image under each corruption; a small batch is enough."""
    from midway.models import load as load_model
    from midway.report.figures import NetworkAndImages, draw_figures, save

    network, images = load_model(suites.DEMO_NETWORK).eval(), datasets.load(suites.DEMO_DATA).first(20)
    given = NetworkAndImages(network, images, batch_size=20, image=3, seed=seed)
    for name, figure in draw_figures(given, only=["image_changes"]):
        save(figure, out / "figures" / name)
