"""Write docs/results.md from the stored runs in docs/results; each run is a folder with the name of its plan.

midway run docs/results/mita.toml --jobs 2 --out docs/results/mita
python recipes/write_results.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

from result_sections import SECTIONS, TUNED, Section

from midway.bench import Grid, Record, paper, read_records
from midway.bench.plan import read_plan
from midway.metrics import METRICS
from midway.report import Column, Frame, Table, frame, split_columns, to_brief_markdown, to_markdown
from midway.report.paper import paper_table
from midway.report.ranking import part_of, versus_best
from midway.report.render import markdown_table, show_number
from midway.report.table import OURS, PAPER, Value
from midway.streams import Scenario

FOLDER = Path("docs/results")
MOST_LISTED = 6
"""Where the paper's MITA is best and ours is not: so many are named, more are only counted."""

INTRODUCTION = """\
# Results

Accuracies in percent of the embedded network (WideResNet-16-2, 0.7 million weights) on the 10,000 CIFAR-10 test
images, or the first of them as each section states, corrupted at severity 5 in batches of 200, beside the numbers of
the MITA paper. The paper's network is a WideResNet-28-10 (36.5 million weights): the order of the methods is
comparable, the level is not. `python recipes/write_results.py` writes every table from the stored runs in
`docs/results/`; only the text around the tables is written by hand. The command above a table repeats it and continues
a run that was stopped (the images are needed first: `midway data fetch cifar10`). Methods have their defaults unless a
section states otherwise: the settings of their papers, or what [methods.md](methods.md) lists beside them; MITA's were
chosen by small trials on the four other corruptions. Where all methods have tuned settings, a search gave each the same
number of trials ([tuning.md](tuning.md)). [methods.md](methods.md) and the section *As published* describe how the rows
`mita` and `tea` differ from their papers, and the effect. The paper mentions DomainNet and ImageNet-C but has no
numbers for them.
"""

COSTS = """\
The cost of a batch of 200, means over the streams of the table above. A multiply-add counts as two operations; forward
and backward passes count. [complexity.md](complexity.md) has the paper's own complexity table, with its network, its
rows and times. The last two columns show how reliable the confidence of a method is: the negative log-likelihood of the
true class, and the calibration error. `mita_two_models` is the worst in both of the methods with batch statistics:
adapting images to a lower energy makes predictions more confident than they are accurate; `mita` answers with the
confidence of the images as given. DUA does its work in the first batch of a stream: its passes and operations are those
of that batch.
"""


def ordered_frame(records: Iterable[Record], grids: Sequence[Grid]) -> Frame:
    """Return stored results as rows in the order of the plans they come from."""
    labels = [entry.label for grid in grids for entry in grid.methods]
    scenarios = [str(scenario) for grid in grids for scenario in grid.each_scenario()]

    def position(record: Record) -> tuple[int, ...]:
        cell = record.cell
        return scenarios.index(str(cell.scenario)), labels.index(cell.label), cell.seed

    return frame(sorted((record for record in records if record.result is not None), key=position))


def complete_seeds(rows: Frame) -> Frame:
    """Keep the seeds that every method has on every stream, so that all means are over the same seeds."""
    seeds: dict[tuple[str, Scenario], set[int]] = {}
    for row in rows:
        seeds.setdefault((row.label, row.scenario), set()).add(row.seed)
    return rows.where(seed=set.intersection(*seeds.values()))


def write_section(section: Section, folder: Path) -> str:
    """Return a section as Markdown: the command, the tables, MITA against the best other method."""
    records = [record for name in section.runs for record in read_records(folder / name)]
    grids = [Grid.from_dict(read_plan(folder / f"{name}.toml")) for name in section.runs]
    scenarios = [Scenario.parse(text) for text in section.streams]
    shown = ordered_frame(records, grids).where(label=section.rows or None, scenario=scenarios or None)
    rows = complete_seeds(shown)
    data = paper.find_comparable(records[0].cell.data)
    table = paper_table(rows, data=data, title=section.title)
    seeds = sorted(rows.unique("seed"))
    count = f"{section.images:,} images per stream"
    said = f"{count}, seeds {', '.join(map(str, seeds))}." if len(seeds) > 1 else f"{count}, one seed ({seeds[0]})."
    parts = [f"## {section.title}\n", section.commands, f"{section.about} {said}\n"]
    if section.means:
        parts += ["Means over the streams:\n", means_table(rows), "Every stream:\n"]
    parts += [to_brief_markdown(table)] if section.brief else map(to_markdown, split_columns(table, at_most=9))
    if section.shares:
        parts += ["Share of the images that a filter selects, in percent:\n", shares_table(records, section.shares)]
    if section.against:
        parts += ["MITA minus others, in points of accuracy on all images of a stream:\n"]
        parts += [differences_table(rows, section.against)]
    if section.ranked:
        parts += ranking(rows, data)
    parts += [f"{section.verdict}\n"] if section.verdict else []
    return "\n".join([*parts, *([costs_table(records)] if section.costs else [])])


def ranking(rows: Frame, data: str | None) -> list[str]:
    """Compare MITA with the best other method; its own variants and rows of tuned settings are left out."""
    labels = [label for label in rows.unique("label") if not label.startswith("mita_")]
    defaults = [label for label in labels if not label.endswith(TUNED)]
    rivals = rows.where(label=defaults)
    among = " with default settings" if len(defaults) < len(labels) else ""
    named = {"A": "the first distribution of a pair", "B": "the second", "all": "all images of a stream"}
    compared = "\n".join(f"- {named[part]}: {result}" for part, result in versus_best(rivals).items())
    best = best_sentence(paper_table(rivals, data=data))
    said = (
        f"MITA against the best of the other methods{among}, without its own variants (`mita_...`), over streams and "
        "seeds; streams with nearly the same images, such as outliers in the same corruption, count as one:\n"
    )
    return [said, f"{compared}\n", f"Among the same rows {best}\n"]


def where_best(table: Table) -> tuple[list[Column], list[Column], int]:
    """Return the columns in which MITA is best, by our numbers and by the paper's, and how many columns it has.

    Means over all corruptions do not count, nor do columns without a number of ours.
    """
    values = dict(table.rows)["mita"]
    by_origin: dict[str, dict[tuple[str, str, str], tuple[Column, Value]]] = {OURS: {}, PAPER: {}}
    for column, value in zip(table.columns, values, strict=True):
        if column.scenario is not None and value is not None and column.origin in by_origin:
            by_origin[column.origin][column.stream, column.group, column.metric] = column, value
    ours, theirs = by_origin[OURS], by_origin[PAPER]
    best = [[column for key, (column, value) in each.items() if value.best and key in ours] for each in (ours, theirs)]
    return best[0], best[1], len(ours)


def best_sentence(table: Table) -> str:
    """Return in how many columns MITA is best, by our numbers and by the paper's, and what only the paper has."""
    ours, theirs, count = where_best(table)
    said = f"MITA is best, alone or tied, on {len(ours)} of {count} streams and groups"
    if not theirs:
        return f"{said}."
    keys = [(column.scenario, column.group) for column in ours]
    missed = [_column_name(column) for column in theirs if (column.scenario, column.group) not in keys]
    said += f" (in the paper: {len(theirs)})"
    if not missed:
        return f"{said}."
    listed = f": {'; '.join(missed)}" if len(missed) <= MOST_LISTED else f" {len(missed)} of them"
    return f"{said}; in the paper alone on{listed}."


def _column_name(column: Column) -> str:
    assert column.scenario is not None
    shifts = " / ".join(shift.replace("_", " ") for shift in column.scenario.shifts)
    group = column.group.replace("_", " ")
    return group if shifts == group else f"{group} of the {column.scenario.kind} {shifts}"


def shares_table(records: Iterable[Record], shares: Iterable[tuple[str, str]]) -> str:
    """Return the share of images that each filter selects, streams down and filters across, as Markdown."""
    named = [f"{label}, {count}" for label, count in shares]
    selected: dict[Scenario, dict[str, float]] = {}
    for record in records:
        if record.result is not None:
            row = selected.setdefault(record.cell.scenario, {})
            recorded = record.result.diagnostics
            for name in recorded.keys() & {count for _, count in shares}:
                share = 100 * recorded[name] / recorded["judged"]
                row.setdefault(f"{record.cell.label}, {name}", share)  # the first seed
    rows = [
        [str(scenario).replace(":", ": ").replace("_", " "), *(f"{row[n]:.1f}" if n in row else "-" for n in named)]
        for scenario, row in selected.items()
    ]
    return markdown_table(["", *named], rows)


def differences_table(rows: Frame, others: Sequence[str]) -> str:
    """Return how much MITA's accuracy exceeds that of others, means over seeds with their spread, streams down."""
    accuracies = {
        (row.label, row.scenario, row.seed): row.value
        for row in rows
        if row.metric == "accuracy" and part_of(row) == "all"
    }
    seeds = sorted(rows.unique("seed"))
    lines: list[list[str]] = []
    columns: list[list[float]] = [[] for _ in others]
    for scenario in rows.unique("scenario"):
        name = str(scenario).replace(":", ": ").replace("_", " ")
        line = [name]
        for other, column in zip(others, columns, strict=True):
            differences = [accuracies["mita", scenario, seed] - accuracies[other, scenario, seed] for seed in seeds]
            column.append(fmean(differences))
            line.append(_with_spread(differences))
        lines.append(line)
    lines.append(["*lowest*", *(f"{min(column):+.2f}" for column in columns)])
    return markdown_table(["", *(f"minus {other}" for other in others)], lines)


def _with_spread(values: Sequence[float]) -> str:
    spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    return f"{fmean(values):+.2f}{spread}"


PARTS = {"A": "first shift", "B": "second shift", "all": "all images"}
"""Part of the images of a pair -> heading."""
CONFIDENCE = {"nll": "NLL", "calibration_error": "calibration error"}


def means_table(rows: Frame) -> str:
    """Return means over streams, methods down: accuracies by part and share of the first shift, and confidence.

    Each mean is over the streams on which all methods with that number have it; the spread is that over seeds.
    """
    amounts = sorted({row.scenario.amount or 0.0 for row in rows})
    columns: dict[str, dict[str, dict[Scenario, dict[int, float]]]] = {}  # heading -> label -> stream -> seed -> value
    for row in rows:
        part = part_of(row)
        share = f", {100 * (row.scenario.amount or 0):g} %" if len(amounts) > 1 else ""
        if row.metric == "accuracy" and part in PARTS:
            heading = f"{PARTS[part]}{share}"
        elif row.metric in CONFIDENCE and part == "all" and len(amounts) == 1:
            heading = CONFIDENCE[row.metric]
        else:
            continue
        by_stream = columns.setdefault(heading, {}).setdefault(row.label, {})
        by_stream.setdefault(row.scenario, {})[row.seed] = row.value
    order = {f"{part}{share}": None for part in PARTS.values() for share in _shares(amounts)}
    headings = [heading for heading in (*order, *CONFIDENCE.values()) if heading in columns]
    cells = {heading: _mean_cells(columns[heading], heading) for heading in headings}
    lines = [[label, *(cells[heading].get(label, "-") for heading in headings)] for label in rows.unique("label")]
    return markdown_table(["", *headings], lines)


def _shares(amounts: Sequence[float]) -> list[str]:
    return [f", {100 * amount:g} %" for amount in amounts] if len(amounts) > 1 else [""]


def _mean_cells(column: Mapping[str, Mapping[Scenario, Mapping[int, float]]], heading: str) -> dict[str, str]:
    """Return the mean over seeds of the mean over streams of each label, with its spread; the best in bold."""
    streams = set.intersection(*(set(by_stream) for by_stream in column.values()))
    if not streams:
        return {}
    means = {
        label: [
            fmean(by_stream[stream][seed] for stream in streams) for seed in sorted(by_stream[min(streams, key=str)])
        ]
        for label, by_stream in column.items()
    }
    digits = 2 if heading == CONFIDENCE["nll"] else 1
    shown = {label: f"{fmean(values):.{digits}f}" for label, values in means.items()}
    best = (min if heading in CONFIDENCE.values() else max)(shown.values(), key=float)
    spreads = {label: f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "" for label, values in means.items()}
    cells = {label: f"{mean}{spreads[label]}" for label, mean in shown.items()}
    return {label: f"**{cell}**" if shown[label] == best else cell for label, cell in cells.items()}


COST_METRICS = (
    "forward_passes",
    "backward_passes",
    "gflops",
    "trainable_parameters",
    "peak_memory_mb",
    "nll",
    "calibration_error",
)


def costs_table(records: Iterable[Record]) -> str:
    """Return the cost of a batch and the calibration of each method, as Markdown."""
    rows = frame(records)
    means = {
        (label, name): fmean(values)
        for label in rows.unique("label")
        for name in COST_METRICS
        if (values := [row.value for row in rows.where(label=label, metric=name, group="all")])
    }
    heads = [_head(name) for name in COST_METRICS]
    lines = []
    for label in rows.unique("label"):
        cells = [show_number(means[label, name]) if (label, name) in means else "-" for name in COST_METRICS]
        lines.append([label, *cells])
    return f"### Complexity\n\n{COSTS}\n" + markdown_table(["", *heads], lines)


def _head(name: str) -> str:
    metric = METRICS[name]
    return f"{metric.title}, {metric.unit}" if metric.unit else metric.title


def finished(name: str, folder: Path = FOLDER) -> bool:
    """Tell whether a stored run has every method of its plan on every stream, with one seed at least."""
    if not (folder / name).is_dir():
        return False
    plan = Grid.from_dict(read_plan(folder / f"{name}.toml"))
    cells = [record.cell for record in read_records(folder / name) if record.result is not None]
    stored = {(cell.label, str(cell.scenario), cell.seed) for cell in cells}
    wanted = [(entry.label, str(scenario)) for entry in plan.methods for scenario in plan.each_scenario()]
    return any(all((*key, seed) in stored for key in wanted) for seed in {cell.seed for cell in cells})


def main(folder: Path = FOLDER) -> None:
    """Write the page beside the folder of runs; runs that are not finished are left out."""
    done = {section.name for section in SECTIONS if finished(section.name, folder)}
    shown = [section for section in SECTIONS if section.name in done]
    page = "\n".join([INTRODUCTION, *(write_section(section, folder) for section in shown)])
    folder.with_suffix(".md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
