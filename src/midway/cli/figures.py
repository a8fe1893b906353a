"""`midway figures`: the figures that stored runs allow, and on request those that need the network and images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from torch import nn
from typer.core import TyperCommand, TyperOption

from midway import data
from midway.adaptation.registry import WRAP
from midway.bench import Cell, Record
from midway.bench.entries import Entry, import_plugins
from midway.bench.resources import arrange, load_network
from midway.cli.options import Import, split_commas
from midway.cli.terminal import terminal
from midway.report import group_records, read_run
from midway.report.figures import (
    FIGURES,
    SOURCES,
    FigureSpec,
    NetworkAndImages,
    PredictionPair,
    all_figures,
    draw_figures,
    save,
)

ONLY = "Names, separated by commas (default: all that are possible)."


class FiguresCommand(TyperCommand):
    """A command whose help lists all figures; other commands do not import them."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Add the names of all figures, by what they are computed from, to the help of ``--only``."""
        names = {kind: [spec.name for spec in all_figures() if spec.source is kind] for kind in SOURCES}
        listing = "; ".join(f"of {SOURCES[kind]}: {', '.join(each)}" for kind, each in names.items() if each)
        for parameter in self.params:
            if isinstance(parameter, TyperOption) and parameter.name == "only":
                parameter.help = f"{ONLY} Figures {listing}."
        super().format_help(ctx, formatter)


def figures(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, drawn together, of a demo, or of a search.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the figures (default: figures in that of the first run).")
    ] = None,
    only: Annotated[str, typer.Option(help=ONLY)] = "",
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Also compute figures from the network and images; takes minutes.")
    ] = False,
    images: Annotated[int, typer.Option(min=1, help="Number of images for --pictures.")] = 1000,
    batch_size: Annotated[int, typer.Option(min=1, max=500, help="Images per batch for --pictures.")] = 200,
    image: Annotated[int, typer.Option(min=0, help="Index of the image whose changes are shown.")] = 0,
    langevin_steps: Annotated[int, typer.Option(min=1, help="Length of the Langevin chains.")] = 200,
    pair: Annotated[
        str, typer.Option(help="Corruptions of the outliers and of the rest; samples and energies use the second.")
    ] = "glass_blur/gaussian_noise",
    baseline: Annotated[str, typer.Option(help="Label of the method whose errors are corrected.")] = "tent",
    method: Annotated[str, typer.Option(help="Label of the method that corrects them.")] = "mita",
    seed: Annotated[int, typer.Option(help="Seed for --pictures.")] = 0,
    import_: Import = None,
) -> None:
    """Draw the figures of stored runs as SVG, PDF and PNG."""
    import_plugins(split_commas(import_) or [])
    wanted = split_commas(only) or []
    specs = [FIGURES[name] for name in wanted] or all_figures()
    stored = [read_run(run) for run in runs]
    outliers, _, rest = pair.partition("/")
    if not (outliers and rest) or "/" in rest:
        raise ValueError(f"'{pair}' is not a pair: write it like glass_blur/gaussian_noise.")
    records = [record for run in stored for record in run.records]

    @cache
    def network_and_images() -> NetworkAndImages:
        mita = {key: value for key, value in entry_of(records, "mita").settings.items() if key != WRAP}
        network, clean = _load(records)
        return NetworkAndImages(
            network,
            arrange(clean, images=images, seed=seed),
            batch_size=batch_size,
            image=image,
            shift=rest,
            outliers=outliers,
            mita=mita,  # without a wrapper, which would hide the adapted images
            baseline=entry_of(records, baseline),
            method=entry_of(records, method),
            langevin_steps=langevin_steps,
            seed=seed,
        )

    frames = [comparison.frame for comparison in group_records(records)]
    folders = [(run.folder, run.records) for run in stored if run.folder is not None]
    sources: list[tuple[str, object]] = [
        (f"_{number}" if len(frames) > 1 else "", frame) for number, frame in enumerate(frames, start=1)
    ]
    sources += [("", run.search) for run in stored if run.search is not None]
    sources += [("", PredictionPair(folders, baseline, method, network_and_images if pictures else None))]
    if pictures and any(spec.source is NetworkAndImages for spec in specs):
        sources += [("", network_and_images())]
    folder = out or (stored[0].folder or Path()) / "figures"
    console = terminal()
    drawn = set()
    for suffix, source in sources:
        for name, figure in draw_figures(source, only=wanted):
            drawn.add(name)
            save(figure, path := folder / (name + suffix))
            console.print(f"{path}.svg, .pdf and .png", highlight=False, soft_wrap=True)
    missing = [spec for spec in specs if spec.name not in drawn]
    if wanted and missing:
        raise ValueError("\n".join(_reason(spec, pictures) for spec in missing))
    for spec in missing:
        if pictures and spec.source is PredictionPair:  # the user asked to compute it
            console.print(_reason(spec, pictures), highlight=False, soft_wrap=True)


def _reason(spec: FigureSpec, pictures: bool) -> str:
    """Return why a figure was not drawn and what would help."""
    if spec.source is NetworkAndImages and not pictures:
        return f"{spec.name} is computed from the network and images: add --pictures."
    example = f", as in: midway run {spec.example}" if spec.example else ""
    return f"{spec.name} requires {spec.requires}{example}."


def _load(records: Sequence[Record]) -> tuple[nn.Module, data.ImageSet]:
    """Load the network and the clean images of a run: those of its MITA if it has one."""
    if not records:
        raise ValueError("--pictures needs results, which name the network and the data set: add the folder of a run.")
    cell = cell_of(records, "mita") or records[0].cell
    if cell.data.endswith("-c"):
        raise ValueError(f"pictures need clean images to corrupt, and {cell.data} has none: use a run on another set.")
    images = data.load(cell.data, cell.root, size=cell.size)
    return load_network(cell.network, len(images.class_names)).eval(), images


def cell_of(records: Iterable[Record], name: str) -> Cell | None:
    """Return the first cell with this label, or else of this method; None if there is neither."""
    cells = [record.cell for record in records]
    return next((cell for key in ("label", "method") for cell in cells if getattr(cell, key) == name), None)


def entry_of(records: Iterable[Record], name: str) -> Entry:
    """Return a method with its settings in a run, without the seed; with its defaults if it is not in the run."""
    cell = cell_of(records, name)
    if cell is None:
        return Entry.make(name, {})
    return Entry(cell.method, {key: value for key, value in cell.settings.items() if key != "seed"}, cell.label)
