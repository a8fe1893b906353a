"""Write docs/benchmark.md from the stored runs of `midway benchmark` in docs/results.

midway benchmark --data cifar10 --images 600 --out docs/results/benchmark
python recipes/write_benchmark.py

A run with more images, into the same folder, adds a section. Rows and columns that were not run are left open.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path

from benchmark_text import GROUP_NORM, INTRODUCTION, STREAMS_TEXT, VERDICTS
from write_results import FOLDER, ordered_frame

from midway.bench import Grid, Record, read_records
from midway.bench.benchmark import STREAMS, benchmark_entries
from midway.report import Table
from midway.report.benchmark import benchmark_table
from midway.report.render import markdown_table
from midway.report.table import OURS, PAPER, Value

PAGE = "benchmark.md"
RUN, GROUP_NORM_RUN = "benchmark", "benchmark_gn"


def table_of(records: Iterable[Record]) -> Table:
    """Return the table of stored results, its rows in the order of the benchmark."""
    scenarios = tuple(text for column in STREAMS.values() for text in column.texts)
    grid = Grid(methods=benchmark_entries(), scenarios=scenarios)
    return benchmark_table(ordered_frame(records, [grid]), STREAMS)


def errors_table(table: Table) -> str:
    """Return our errors and costs, as Markdown."""
    indices = [index for index, column in enumerate(table.columns) if column.origin == OURS]
    heads = [
        table.columns[i].metric_title if table.columns[i].group == "cost" else table.columns[i].group for i in indices
    ]
    rows = [[label, *(show(values[index]) for index in indices)] for label, values in table.rows]
    return markdown_table(["", *heads], rows)


def order_table(table: Table) -> str:
    """Return our errors beside the published ones, for the methods and columns that have some, as Markdown."""
    indices = [index for column in published_columns(table) for index in column]
    heads = [
        table.columns[index].group if table.columns[index].origin == PAPER else f"{table.columns[index].group}, here"
        for index in indices
    ]
    published = [paper for _, paper in published_columns(table)]
    rows = [
        [label, *(show(values[index]) for index in indices)]
        for label, values in table.rows
        if any(values[index] is not None for index in published)
    ]
    return markdown_table(["", *heads], rows)


def published_columns(table: Table) -> list[tuple[int, int]]:
    """Return the indices of the columns with published errors: ours, published."""
    ours = {column.group: index for index, column in enumerate(table.columns) if column.origin == OURS}
    papers = [(column.group, index) for index, column in enumerate(table.columns) if column.origin == PAPER]
    return [(ours[group.rpartition(", ")[0]], index) for group, index in papers]


def show(value: Value | None) -> str:
    """Return a number with one decimal: the best in bold, a star where Source is better."""
    if value is None:
        return "-"
    number = f"{value.mean:.1f}{'' if value.spread is None else f' ± {value.spread:.1f}'}"
    return f"**{number}**" if value.best else f"{number}{'*' if value.below_source else ''}"


def missing(table: Table) -> str:
    """Return a sentence about the rows and columns that were not run; empty if there are none."""
    titles = {column.group for column in table.columns}
    labels = {label for label, _ in table.rows}
    absent = [column.title for column in STREAMS.values() if column.title not in titles]
    absent += [entry.label for entry in benchmark_entries() if entry.label not in labels]
    return f"Not run with so many images: {', '.join(absent)}, and what is marked -.\n" if absent else ""


def orders(table: Table) -> list[str]:
    """Return, for each column with published errors, how many pairs of methods have the published order."""
    sentences = []
    for ours, paper in published_columns(table):
        both = [
            (label, values[ours], values[paper])
            for label, values in table.rows
            if values[ours] is not None and values[paper] is not None
        ]
        same, turned = compare_orders([(label, a.mean, b.mean) for label, a, b in both if a and b])
        named = f": {', '.join(turned)}" if turned else ""
        group = table.columns[paper].group
        sentences.append(
            f"- {group}: {same} of {same + len(turned)} pairs of methods have the published order; "
            f"the other way round{named or ': none'}."
        )
    return sentences


def compare_orders(errors: Sequence[tuple[str, float, float]]) -> tuple[int, list[str]]:
    """Return how many pairs of label, our error and published error have one order, and those that have not."""
    same, turned = 0, []
    for (a, ours_a, theirs_a), (b, ours_b, theirs_b) in combinations(errors, 2):
        sign = (ours_a - ours_b) * (theirs_a - theirs_b)
        if sign < 0:
            better, worse = (a, b) if ours_a < ours_b else (b, a)
            turned.append(f"{better} before {worse}")
        elif theirs_a != theirs_b:
            same += 1
    return same, turned


def write_size(records: Sequence[Record], images: int) -> str:
    """Return the section of one number of images."""
    table = table_of(records)
    command = f"    midway benchmark --data cifar10 --images {images} --out docs/results/{RUN}\n"
    parts = [f"## {images:,} images a corruption\n", command, STREAMS_TEXT, errors_table(table), missing(table)]
    parts += ["Beside published errors of other networks, for the order of the methods:\n", order_table(table)]
    parts += ["\n".join(orders(table)) + "\n", VERDICTS.get(images, "")]
    return "\n".join(part for part in parts if part)


def write_group_norm(records: Sequence[Record]) -> str:
    """Return the section about a network without BatchNorm."""
    images = {record.cell.images for record in records}.pop()
    command = (
        "    midway benchmark --streams correlated --network recipes/networks.py:cifar10_resnet26_gn --data cifar10"
        f" --images {images} --methods '{GROUP_NORM.methods}' --out docs/results/{GROUP_NORM_RUN}\n"
    )
    table = table_of(records)
    parts = [f"## {GROUP_NORM.title}\n", command, GROUP_NORM.about, order_table(table), "\n".join(orders(table)) + "\n"]
    return "\n".join([*parts, GROUP_NORM.verdict])


def main(folder: Path = FOLDER) -> None:
    """Write the page beside the folder of runs."""
    records = [record for record in read_records(folder / RUN) if record.result is not None]
    sizes = sorted({record.cell.images or 10_000 for record in records})
    parts = [INTRODUCTION]
    parts += [write_size([r for r in records if (r.cell.images or 10_000) == images], images) for images in sizes]
    if (folder / GROUP_NORM_RUN).is_dir():
        parts.append(write_group_norm([r for r in read_records(folder / GROUP_NORM_RUN) if r.result is not None]))
    (folder.parent / PAGE).write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
