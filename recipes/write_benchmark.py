"""Write docs/benchmark.md from the stored runs of `midway benchmark` in docs/results.

midway benchmark --data cifar10 --images 600 --precision bf16 --out docs/results/benchmark
python recipes/write_benchmark.py

A run with more images, into the same folder, adds a section. Rows and columns that were not run are left open. A table
has the cells of one precision; those of another are compared with them in a sentence.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from benchmark_orders import compare_orders, difference, errors_by_part, ranking
from benchmark_text import (
    EQUAL,
    GROUP_NORM,
    INTRODUCTION,
    ORDER_TEXT,
    PRECISIONS,
    PUBLISHED_BATCHES,
    REASONS,
    STREAMS_TEXT,
)
from write_results import FOLDER, ordered_frame

from midway.bench import Grid, Record, read_records
from midway.bench.benchmark import COLUMNS, benchmark_entries
from midway.report import Frame, Table
from midway.report.benchmark import benchmark_table
from midway.report.render import markdown_table
from midway.report.table import OURS, PAPER, Value

PAGE = "benchmark.md"
RUN, GROUP_NORM_RUN = "benchmark", "benchmark_gn"
SAME = 0.05
"""Errors that are closer, in points, count as equal."""


def rows_of(records: Iterable[Record]) -> Frame:
    """Return stored results as rows in the order of the benchmark."""
    scenarios = tuple(text for column in COLUMNS.values() for text in column.texts)
    return ordered_frame(records, [Grid(methods=benchmark_entries(), scenarios=scenarios)])


def table_of(records: Iterable[Record]) -> Table:
    """Return the table of stored results, its rows in the order of the benchmark."""
    return benchmark_table(rows_of(records), COLUMNS)


def errors_table(table: Table) -> str:
    """Return our errors and costs, as Markdown."""
    ours = [index for index, column in enumerate(table.columns) if column.origin == OURS]
    indices = [index for index in ours if table.columns[index].metric_title != "time"]  # the runs shared their machine
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
    absent = [column.title for column in COLUMNS.values() if column.title not in titles]
    absent += [entry.label for entry in benchmark_entries() if entry.label not in labels]
    return f"Not run with so many images: {', '.join(absent)}, and what is marked -.\n" if absent else ""


def orders(table: Table, rows: Frame) -> list[str]:
    """Return, for each column with published errors, how many pairs of methods have the published order."""
    keys = {column.title: key for key, column in COLUMNS.items()}
    sentences = []
    for ours, paper in published_columns(table):
        key, title = keys[table.columns[ours].group], table.columns[paper].group
        published = means_of(table, paper)
        here = {label: error for label, error in means_of(table, ours).items() if label in published}
        compared = compare_orders(errors_by_part(rows, COLUMNS[key]), published)
        turned = ", ".join(f"{better} before {worse}" for better, worse in compared.turned)
        sentences.append(
            f"- {title}, published: {ranking(published)}. Here: {ranking(here)}. Pairs in the published order: "
            f"{len(compared.same)} of {sum(map(len, compared))}; too close to tell: {len(compared.close)}; the other "
            f"way round: {f'{len(compared.turned)} ({turned})' if turned else 'none'}."
        )
    return sentences


def means_of(table: Table, index: int) -> dict[str, float]:
    """Return label -> error of a column."""
    return {label: value.mean for label, values in table.rows if (value := values[index]) is not None}


def leaders(rows: Frame) -> str:
    """Return the best method of each column, and those that are too close to it to tell."""
    lines = []
    for column in COLUMNS.values():
        errors = errors_by_part(rows, column)
        if len(errors) > 1:
            best = min(errors, key=lambda label: fmean(errors[label].values()))
            close = [label for label in errors if label != best and not difference(errors, best, label).is_clear]
            said = f"{best}, too close to it to tell: {', '.join(close)}" if close else f"{best}, ahead of all others"
            if len(close) == len(errors) - 1:
                said = "too few images to tell any method from the best"
            lines.append(f"- {column.title}: {said}.")
    return "\n".join(["The best of each column:\n", *lines]) + "\n" if lines else ""


def reasons(rows: Frame, images: int) -> str:
    """Return why some methods have another order than published, as far as it is known."""
    said = []
    for reason in (*REASONS, EQUAL):
        errors = errors_by_part(rows, COLUMNS[reason.column])
        if not {reason.better, reason.worse} <= errors.keys():
            continue
        found = difference(errors, reason.better, reason.worse)
        holds = abs(found.mean) < SAME if reason is EQUAL else found.mean > 0 and found.is_clear
        if holds:
            text = reason.text.format(images=images, batches=batches_of(images))
            said.append(f"- {COLUMNS[reason.column].title}: {text}")
    return "\n".join(said) + "\n" if said else ""


def batches_of(images: int) -> int:
    """Return the number of batches of 200 in a stream over all corruptions."""
    return -(-len(COLUMNS["continual"].scenarios[0].shifts) * images // 200)


def size_text(rows: Frame, images: int) -> str:
    """Return how much the numbers of a section can tell."""
    total = len(COLUMNS["continual"].scenarios[0].shifts) * images
    seeds = len(rows.unique("seed"))
    few = f", where published ones have {PUBLISHED_BATCHES}" if batches_of(images) < PUBLISHED_BATCHES else ""
    return (
        f"The continual and the mixed stream have {batches_of(images)} batches of 200{few}. The standard error of an "
        f"error over {total:,} images is at most {50 / math.sqrt(total):.1f} points, with {seeds} "
        f"seed{'s' if seeds > 1 else ''}. All methods see the same images: two of them are told apart if the mean "
        "difference over corruptions is more than two standard errors.\n"
    )


def compare_precisions(records: Sequence[Record], others: Sequence[Record]) -> str:
    """Return how far the errors of cells in another precision differ; empty without such cells."""
    named = {(r.cell.label, str(r.cell.scenario), r.cell.seed): r for r in others}
    pairs = [(r, named[key]) for r in records if (key := (r.cell.label, str(r.cell.scenario), r.cell.seed)) in named]
    if not pairs:
        return ""
    gaps = [abs(accuracy(a) - accuracy(b)) for a, b in pairs]
    largest, (record, other) = max(zip(gaps, pairs, strict=True), key=lambda each: each[0])
    return (
        f"{len(pairs)} of these cells were also run in {other.cell.precision}: the errors differ by "
        f"{fmean(gaps):.2f} points in the mean and {largest:.2f} at most ({record.cell.label}, "
        f"{record.cell.scenario.kind}).\n"
    )


def accuracy(record: Record) -> float:
    """Return the accuracy of a finished cell."""
    assert record.result is not None
    return record.result.accuracy


def by_precision(records: Iterable[Record]) -> tuple[list[Record], list[Record]]:
    """Return the records of the precision with the most cells, and the others: no table mixes them."""
    counts = Counter(record.cell.precision for record in records)
    main_one = max(sorted(counts), key=counts.__getitem__)
    return (
        [record for record in records if record.cell.precision == main_one],
        [record for record in records if record.cell.precision != main_one],
    )


def write_size(all_records: Sequence[Record], images: int) -> str:
    """Return the section of one number of images."""
    records, others = by_precision(all_records)
    precision = records[0].cell.precision
    table, rows = table_of(records), rows_of(records)
    option = "" if precision == "float32" else f" --precision {precision}"
    command = f"    midway benchmark --data cifar10 --images {images}{option} --out docs/results/{RUN}\n"
    parts = [f"## {images:,} images a corruption\n", command, PRECISIONS[precision], STREAMS_TEXT]
    parts += [
        errors_table(table),
        missing(table),
        compare_precisions(records, others),
        size_text(rows, images),
        leaders(rows),
    ]
    if published_columns(table):
        parts += ["### The order of the methods\n", ORDER_TEXT, order_table(table)]
        parts += ["\n".join(orders(table, rows)) + "\n"]
    known = reasons(rows, images)
    parts += ["Why, as far as it is known:\n", known] if known else []
    return "\n".join(part for part in parts if part)


def write_group_norm(records: Sequence[Record]) -> str:
    """Return the section about a network without BatchNorm."""
    images = {record.cell.images for record in records}.pop()
    command = (
        "    midway benchmark --streams correlated --network recipes/networks.py:cifar10_resnet26_gn --data cifar10"
        f" --images {images} --methods '{GROUP_NORM.methods}' --out docs/results/{GROUP_NORM_RUN}\n"
    )
    table = table_of(records)
    parts = [f"## {GROUP_NORM.title}\n", command, GROUP_NORM.about, order_table(table)]
    return "\n".join([*parts, "\n".join(orders(table, rows_of(records))) + "\n"])


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
