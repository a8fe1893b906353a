"""Mark stored results as computed by the present code, after repeating some of their cells.

A refactoring changes the digest of the code but not the numbers. This recipe repeats a sample of the cells of each
stored run and, if all numbers agree, writes the present digest into its records:

    python recipes/stamp_results.py docs/results --cells 3

Cells whose data or network is not installed keep the digest they have. Runs have a plan beside their folder; the run of
`midway benchmark`, whose plan is part of the package, is in the folder `benchmark`.
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import replace
from pathlib import Path

from midway._files import write_atomically
from midway.bench import Cell, Grid, PlanError, Record, ResourceCache, load_plan, read_records, run_cell
from midway.bench.benchmark import COLUMNS, benchmark_cells, benchmark_entries

BENCHMARK = "benchmark"

TOLERANCE = 0.05
"""Largest difference in accuracy, in points: another processor rounds differently, which moves single predictions."""


def present_cells(plan: Path) -> dict[str, Cell]:
    """Return the cells of a plan by key; none if its data or networks are not installed."""
    try:
        return {cell.key: cell for cell in load_plan(plan).cells()}
    except (PlanError, ValueError, OSError) as error:
        print(f"{plan.stem}: skipped ({error})")
        return {}


def cells_of_benchmark(records: list[Record]) -> dict[str, Cell]:
    """Return the cells of the benchmark by key, with the numbers of images and the precisions that are stored."""
    grids = [
        Grid(methods=benchmark_entries(), data=("cifar10",), images=images, precision=precision)
        for images, precision in {(record.cell.images, record.cell.precision) for record in records}
    ]
    return {cell.key: cell for grid in grids for cell in benchmark_cells(grid, COLUMNS)}


def repeat(record: Record, cell: Cell, resources: ResourceCache) -> float | None:
    """Run a cell again and return the difference to the stored accuracy; None if it cannot be run."""
    assert record.result is not None
    repeated = run_cell(cell, resources)
    if repeated.result is None:
        print(f"  {cell}: not repeated ({repeated.failure.error if repeated.failure else 'no result'})")
        return None
    return repeated.result.accuracy - record.result.accuracy


def stamp(folder: Path, cells: dict[str, Cell], *, count: int) -> None:
    """Repeat some of the cheapest quarter of a run's cells and mark its records if they agree."""
    records = read_records(folder)
    known = [record for record in records if record.cell.key in cells and record.result is not None]
    cheap = sorted(known, key=lambda record: record.seconds)[: max(count, len(known) // 4)]
    resources, differences = ResourceCache(), []
    for record in random.Random(0).sample(cheap, min(count, len(cheap))):
        difference = repeat(record, cells[record.cell.key], resources)
        if difference is not None:
            print(f"  {record.cell}: {difference:+.3f}")
            differences.append(difference)
    if not differences or max(map(abs, differences)) > TOLERANCE:
        print(f"{folder.name}: not marked, {len(differences)} of {count} cells repeated")
        return
    lines = []
    for record in records:
        cell = cells.get(record.cell.key)
        marked = record if cell is None else replace(record, cell=replace(record.cell, code=cell.code))
        lines.append(marked.to_line())
    write_atomically(folder / "results.jsonl", b"".join(lines))
    print(f"{folder.name}: {len(known)} of {len(records)} records marked")


def main(arguments: list[str]) -> None:
    """Mark every stored run of a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder with plans and the folders of their runs")
    parser.add_argument("--cells", type=int, default=3, help="cells of each run to repeat")
    given = parser.parse_args(arguments)
    for plan in sorted(given.folder.glob("*.toml")):
        if (plan.with_suffix("") / "results.jsonl").is_file():
            stamp(plan.with_suffix(""), present_cells(plan), count=given.cells)
    if (given.folder / BENCHMARK / "results.jsonl").is_file():
        benchmark = given.folder / BENCHMARK
        stamp(benchmark, cells_of_benchmark(read_records(benchmark)), count=given.cells)


if __name__ == "__main__":
    main(sys.argv[1:])
