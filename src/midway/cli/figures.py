"""`midway figures`: the figures that a stored run allows, and on request those that need its network and images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from torch import nn

import midway
from midway.adaptation.registry import WRAP
from midway.bench import Comparison, Record, gather
from midway.bench.networks import load_network
from midway.bench.resources import arranged
from midway.cli.terminal import terminal
from midway.report.labels import tell_apart
from midway.report.stored_run import StoredRun, read_run
from midway.suggest import unknown

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figures(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, drawn together, or of a demo.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the figures (default: figures in that of the first run).")
    ] = None,
    only: Annotated[str, typer.Option(help="Names of the wanted ones, with commas (default: all there can be).")] = "",
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Also compute those that need the network and images; takes minutes.")
    ] = False,
    images: Annotated[int, typer.Option(min=1, help="Images to compute pictures with.")] = 1000,
    batch_size: Annotated[int, typer.Option(min=1, max=500, help="Images a batch, for pictures.")] = 200,
    image: Annotated[int, typer.Option(min=0, help="Number of the image whose moves are shown.")] = 0,
    langevin_steps: Annotated[int, typer.Option(min=1, help="Length of the chains that are shown.")] = 200,
    pair: Annotated[
        str,
        typer.Option(help="Outliers and what they are among, for corrections; samples and energies have the latter."),
    ] = "glass_blur/gaussian_noise",
    baseline: Annotated[str, typer.Option(help="Label of the method whose mistakes are corrected.")] = "tent",
    method: Annotated[str, typer.Option(help="Label of the method that corrects them.")] = "mita",
    seed: Annotated[int, typer.Option(help="Seed of the pictures.")] = 0,
) -> None:
    """Draw the figures of stored runs as SVG, PDF and PNG."""
    from midway.report.figures import FIGURES
    from midway.report.figures.pictures import PICTURES, Setting, entry_of, picture_figures

    stored = [read_run(run) for run in runs]
    outliers, _, rest = pair.partition("/")
    if not (outliers and rest) or "/" in rest:
        raise ValueError(f"'{pair}' is no pair: write it like glass_blur/gaussian_noise.")
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    for name in wanted:
        if name not in (*FIGURES, *PICTURES):
            raise ValueError(unknown("figure", name, (*FIGURES, *PICTURES)))
    records = [record for each in stored for record in each.records]
    comparisons = gather(records) + [one for each in stored if not each.records for one in each.comparisons]
    keep = _Keep(terminal(), out or (stored[0].folder or Path()) / "figures")
    _draw_results(comparisons, wanted, keep)
    if not wanted or "corrections" in wanted:
        _draw_kept_corrections(stored, keep, baseline=baseline, method=method)
    computed = [name for name in wanted or PICTURES if name in PICTURES and name not in keep.drawn]
    if pictures and computed:
        network, data = _of(records, comparisons)
        own = entry_of(records, "mita").settings
        setting = Setting(
            network,
            arranged(data, images=images, seed=seed),
            batch_size=batch_size,
            image=image,
            shift=rest,
            outliers=outliers,
            mita={key: value for key, value in own.items() if key != WRAP},  # pictures look inside
            baseline=entry_of(records, baseline),
            method=entry_of(records, method),
            langevin_steps=langevin_steps,
            seed=seed,
        )
        for name, figure in picture_figures(setting, only=computed):
            keep(name, figure)

    def lacks(name: str) -> str:
        if name in FIGURES:
            return f"{name} needs {FIGURES[name].needs}. A run that has them: midway run {FIGURES[name].run}"
        if pictures:
            return (
                f"{name}: no outlier that {baseline} has wrong and {method} right; "
                "more --images have more outliers, and another --pair has others."
            )
        return f"{name}: computed from the network and images, ask for it with --pictures."

    if pictures and not wanted and "corrections" not in keep.drawn:
        keep.console.print(lacks("corrections"), highlight=False, soft_wrap=True)
    if missing := [lacks(name) for name in wanted if name not in keep.drawn]:
        raise ValueError("\n".join(missing))


class _Keep:
    """Saves figures, says where, and remembers which."""

    def __init__(self, console: Console, folder: Path) -> None:
        self.console, self.folder = console, folder
        self.drawn: set[str] = set()

    def __call__(self, name: str, figure: Figure, suffix: str = "") -> None:
        from midway.report.figures import save

        self.drawn.add(name)
        path = self.folder / (name + suffix)
        save(figure, path)
        self.console.print(f"{path}.svg, .pdf and .png", highlight=False, soft_wrap=True)


def _draw_results(comparisons: Sequence[Comparison], wanted: Sequence[str], keep: _Keep) -> None:
    """Draw what stored numbers allow; the figures of several comparisons are numbered."""
    from midway.report.figures import stored_figures

    for number, comparison in enumerate(comparisons, start=1):
        suffix = f"_{number}" if len(comparisons) > 1 else ""
        comparison = replace(comparison, results=tell_apart(comparison.results))
        for name, figure in stored_figures(comparison, only=wanted).items():
            keep(name, figure, suffix)


def _draw_kept_corrections(stored: Sequence[StoredRun], keep: _Keep, *, baseline: str, method: str) -> None:
    """Draw the outliers put right from answers that a run kept, of several runs from the one that has most."""
    from midway.report.figures.corrections import draw_corrections, stored_corrections

    kept = [
        stored_corrections(each.folder, each.records, baseline=baseline, method=method)
        for each in stored
        if each.folder is not None
    ]
    if found := [each for each in kept if each is not None and each.cases]:
        keep("corrections", draw_corrections(max(found, key=lambda each: each.corrected)))


def _of(records: Sequence[Record], comparisons: Sequence[Comparison]) -> tuple[nn.Module, midway.data.ImageSet]:
    """Load the network and the clean images of a run: of its MITA if it has one."""
    from midway.report.figures.pictures import cell_of

    if not records:
        settings = comparisons[0].settings
        return midway.models.load(settings["network"]).eval(), midway.data.load(settings["data"])
    cell = cell_of(records, "mita") or records[0].cell
    if cell.data.endswith("-c"):
        raise ValueError(f"pictures need clean images to corrupt, and {cell.data} has none: use a run on another set.")
    data = midway.data.load(cell.data, cell.root, size=cell.size)
    return load_network(cell.network, len(data.class_names)).eval(), data
