"""`midway figures`: the figures that a stored run allows, and on request those that need its network and images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from torch import nn

import midway
from midway.bench.networks import load_network
from midway.report.stored_run import StoredRun, read_run
from midway.suggest import unknown


def figures(
    run: Annotated[Path, typer.Argument(help="Folder of a run or of a demo.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the figures (default: figures in that of the run).")
    ] = None,
    only: Annotated[str, typer.Option(help="Names of the wanted ones, with commas (default: all there can be).")] = "",
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Also compute those that need the network and images; takes minutes.")
    ] = False,
    images: Annotated[int, typer.Option(min=1, help="Images to compute pictures with.")] = 1000,
    batch_size: Annotated[int, typer.Option(min=1, max=500, help="Images a batch, for pictures.")] = 200,
    image: Annotated[int, typer.Option(min=0, help="Number of the image whose moves are shown.")] = 0,
    langevin_steps: Annotated[int, typer.Option(min=1, help="Length of the chains that are shown.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the pictures.")] = 0,
) -> None:
    """Draw the figures of a stored run as SVG, PDF and PNG."""
    from midway.report.figures import FIGURES, save, stored_figures
    from midway.report.figures.corrections import draw_corrections, stored_corrections
    from midway.report.figures.pictures import PICTURES, Setting, picture_figures

    console = Console()
    stored = read_run(run)
    folder = out or (stored.folder or Path()) / "figures"
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    for name in wanted:
        if name not in (*FIGURES, *PICTURES):
            raise ValueError(unknown("figure", name, (*FIGURES, *PICTURES)))

    def keep(name: str, figure: object) -> None:
        save(figure, folder / name)  # type: ignore[arg-type]
        console.print(f"{folder / name}.svg, .pdf and .png", highlight=False, soft_wrap=True)

    for number, comparison in enumerate(stored.comparisons, start=1):
        suffix = f"_{number}" if len(stored.comparisons) > 1 else ""
        for name, figure in stored_figures(comparison, only=wanted).items():
            keep(name + suffix, figure)
    kept = None
    if (not wanted or "corrections" in wanted) and stored.folder is not None:
        kept = stored_corrections(stored.folder, stored.records)
        if kept is not None and kept.cases:
            keep("corrections", draw_corrections(kept))
    computed = [name for name in wanted or PICTURES if name in PICTURES and not (name == "corrections" and kept)]
    if pictures and computed:
        network, data = _of(stored)
        setting = Setting(
            network,
            data.first(images),
            batch_size=batch_size,
            image=image,
            langevin_steps=langevin_steps,
            seed=seed,
        )
        for name, figure in picture_figures(setting, only=computed):
            keep(name, figure)
    elif set(wanted) & set(computed):
        console.print(f"{', '.join(computed)}: computed from the network and images, ask for it with --pictures.")


def _of(stored: StoredRun) -> tuple[nn.Module, midway.data.ImageSet]:
    """Load the network and the clean images of a run."""
    if not stored.records:
        settings = stored.comparisons[0].settings
        return midway.models.load(settings["network"]).eval(), midway.data.load(settings["data"])
    cell = stored.records[0].cell
    if cell.data.endswith("-c"):
        raise ValueError(f"pictures need clean images to corrupt, and {cell.data} has none: use a run on another set.")
    data = midway.data.load(cell.data, cell.root, size=cell.size)
    return load_network(cell.network, len(data.class_names)).eval(), data
