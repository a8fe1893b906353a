"""`midway demo`: embedded data and network, a table on the screen, an HTML report beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from midway import data, models
from midway.bench.demo import DATA, MODEL, STOPPED, run_demo
from midway.cli.progress import ProgressLine
from midway.cli.terminal import terminal
from midway.report import StoredRun, accuracy_table, summary, to_markdown, to_rich, write_report


def demo(
    methods: Annotated[str, typer.Option(help="Methods to compare, with commas; all of them if left out.")] = "",
    images: Annotated[
        int | None, typer.Option(min=200, max=2000, help="How many of the embedded images (default: as time allows).")
    ] = None,
    budget: Annotated[float, typer.Option(min=1, help="Seconds; dearer methods are left out and named.")] = 120,
    seed: Annotated[int, typer.Option(help="Seed of corruptions and outliers.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/demo"),
) -> None:
    """Adapt the embedded network to corrupted CIFAR-10 images in three scenarios and compare the methods."""
    console = terminal()
    console.print("Comparing methods on corrupted CIFAR-10 (embedded network and images) ...")
    chosen = [name.strip() for name in methods.split(",") if name.strip()] or None
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out: {out} is a file: name a folder.")
    with ProgressLine(console) as progress:
        comparison = run_demo(methods=chosen, images=images, budget_seconds=budget, seed=seed, on_progress=progress)
    stopped = STOPPED in comparison.settings
    if stopped and not comparison.results:
        raise typer.Exit(130)
    table = accuracy_table(comparison)
    comparison.save(out / "results.json")
    (out / "table.md").write_text(to_markdown(table))
    if any(result.method == "mita" for result in comparison.results) and not stopped:
        _picture_moves(out, seed)
    write_report(StoredRun("Midway demo", out, (comparison,)), out / "report.html")
    console.print(to_rich(table))
    console.print(summary(comparison), highlight=False)
    console.print(f"Report: {out / 'report.html'}   results: {out / 'results.json'}", highlight=False, soft_wrap=True)
    if stopped:
        raise typer.Exit(130)


def _picture_moves(out: Path, seed: int) -> None:
    """Show what MITA does to one image under each corruption; a few images a batch are enough to see it."""
    from midway.report.figures import NetworkAndImages, draw_figures, save

    given = NetworkAndImages(models.load(MODEL).eval(), data.load(DATA).first(20), batch_size=20, image=3, seed=seed)
    for name, figure in draw_figures(given, only=["image_changes"]):
        save(figure, out / "figures" / name)
