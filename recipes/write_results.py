"""Write docs/results.md from the stored runs in docs/results, each a folder named after its plan.

midway run docs/results/mita.toml --jobs 2 --out docs/results/mita
python recipes/write_results.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from result_sections import SECTIONS, TUNED, Section

from midway.bench import Grid, Record, paper, read_records
from midway.bench.plan_file import read_plan
from midway.report.html.tables import cost_rows, show_number
from midway.report.paper_tables import comparison_table, measured, standing
from midway.report.side_by_side import AVERAGES, OURS, PAPER, Measured, split_columns, to_brief_markdown
from midway.report.tables import Table, to_markdown

FOLDER = Path("docs/results")

INTRODUCTION = """\
# Results

Accuracies in percent of the embedded network (WideResNet-16-2, 0.7 million weights) on the 10,000 CIFAR-10 test images,
or the first of them, as each section says, corrupted at severity 5 and shown in batches of 200, beside the numbers of
the MITA paper, whose network is a WideResNet-28-10 (36.5 million weights): the order of the methods compares, the level
does not. Every table is made by `python recipes/write_results.py` from the stored runs in `docs/results/`: no number
here is written by hand, only the sentences below the tables. The command above a table runs it again, and goes on where
it was stopped (the images come first: `midway data fetch cifar10`). Rivals have the settings of their papers, and MITA
those found by small trials on corruptions that no table here compares methods on, apart from the tables that say so;
where all methods have tuned settings, a search gave each as many trials ([tuning.md](tuning.md)). What the rows called
`mita` and `tea` change of their papers, and what that costs, is in [methods.md](methods.md) and in the section *To the
letter*. The paper names DomainNet and ImageNet-C but has no numbers for them.
"""

COSTS = """\
What a batch of 200 costs, means over the streams of the table above, in seconds of one core of a shared machine; a
multiply-add counts as two operations, forward and backward. The paper's own complexity table, with its network and its
rows, is in [bench.md](bench.md). The last two columns say how far the confidence of a method can be trusted: the
surprise at the true class, and the calibration error; MITA pays there: moving images down the energy makes answers
surer than they are right. DUA does its work on the first batch of a stream: its passes and operations are those of
that batch, its seconds are shared among all.
"""


def numbers_of(records: Iterable[Record], grids: Iterable[Grid]) -> list[Measured]:
    """Return all accuracies of stored results in the order of the plans they come from."""
    kept = [record for record in records if record.result is not None]
    labels = [entry.label for grid in grids for entry in grid.methods]
    streams = [str(scenario) for grid in grids for scenario in grid.each_scenario()]

    def place(record: Record) -> tuple[int, ...]:
        return streams.index(record.cell.scenario), labels.index(record.cell.label), record.cell.seed

    kept.sort(key=place)
    return [number for record in kept if record.result is not None for number in measured(record.result)]


def complete(numbers: list[Measured]) -> list[Measured]:
    """Keep the seeds that every method has on every stream, so that means are over the same seeds."""
    rows: dict[tuple[str, str], set[int]] = {}
    for number in numbers:
        rows.setdefault((number.method, number.stream), set()).add(number.seed)
    common = set.intersection(*rows.values())
    return [number for number in numbers if number.seed in common]


def write_section(section: Section, folder: Path) -> str:
    """Return a section as Markdown: the command, the tables, how MITA stands."""
    records = [record for name in section.runs for record in read_records(folder / name)]
    found = numbers_of(records, [Grid.from_dict(read_plan(folder / f"{name}.toml")) for name in section.runs])
    shown = [number for number in found if number.method in (section.rows or (number.method,))]
    numbers = complete([number for number in shown if number.stream in (section.streams or (number.stream,))])
    data = paper.comparable(records[0].cell.data)
    table = comparison_table(section.title, numbers, data=data)
    seeds = sorted({number.seed for number in numbers})
    count = f"{section.images:,} images a stream"
    said = f"{count}, seeds {', '.join(map(str, seeds))}." if len(seeds) > 1 else f"{count}, one seed ({seeds[0]})."
    parts = [f"## {section.title}\n", section.commands, f"{section.about} {said}\n"]
    parts += [to_brief_markdown(table)] if section.brief else map(to_markdown, split_columns(table, at_most=9))
    if section.shares:
        parts += ["How many of the images a filter lets pass, in percent:\n", shares_table(records, section.shares)]
    if section.ranked:
        parts += ranking(section, numbers, data)
    parts += [f"{section.verdict}\n"] if section.verdict else []
    return "\n".join([*parts, *([costs_table(records)] if section.costs else [])])


def ranking(section: Section, numbers: list[Measured], data: str | None) -> list[str]:
    """Say how MITA stands against the others; rows of tuned settings among defaults are left out."""
    rivals = [number for number in numbers if not number.method.endswith(TUNED)]
    among = ", default settings alone" if len(rivals) < len(numbers) else ""
    named = {"A": "the first distribution of a pair", "B": "the second", "all": "all images of a stream"}
    compared = "\n".join(f"- {named[part]}: {result}" for part, result in standing(rivals).items())
    best = where_best(comparison_table(section.title, rivals, data=data))
    return [f"MITA against the best other method{among}, over streams and seeds:\n", f"{compared}\n", f"{best}\n"]


def where_best(table: Table, method: str = "mita") -> str:
    """Say in how many places a method is best, here and in the paper, and where only the paper has it best."""
    cells = dict(table.rows)[method]
    ran = {(c.stream, c.group) for c, cell in zip(table.columns, cells, strict=True) if c.kind == OURS and cell}

    def best(kind: str) -> list[tuple[str, str]]:
        return [
            (column.stream, column.group)
            for column, cell in zip(table.columns, cells, strict=True)
            if column.kind == kind and column.stream != AVERAGES and cell is not None and cell.best
            if (column.stream, column.group) in ran
        ]

    here, there = best(OURS), best(PAPER)
    count = sum(stream != AVERAGES for stream, _ in ran)
    said = f"Alone or level, MITA is best in {len(here)} of {count} places"
    if not there:
        return f"{said}."
    missed = [_place(*place) for place in there if place not in here]
    said += f"; of these methods the paper has it best in {len(there)}, of which here in {len(there) - len(missed)}"
    return f"{said}, and not in {'; '.join(missed)}." if missed else f"{said}."


def _place(stream: str, group: str) -> str:
    kind, _, rest = stream.partition(":")
    shifts = rest.partition("@")[0]
    named = group if shifts == group else f"{group} of the {kind} {shifts}"
    return named.replace("_", " ").replace("/", " / ")


def shares_table(records: Iterable[Record], shares: Iterable[tuple[str, str]]) -> str:
    """Return what each filter let pass of the images it judged, streams down and filters across, as Markdown."""
    named = [f"{label}, {count}" for label, count in shares]
    found: dict[str, dict[str, float]] = {}
    for record in records:
        if record.result is not None:
            row = found.setdefault(record.result.stream, {})
            noted = record.result.diagnostics
            for name in noted.keys() & {count for _, count in shares}:
                row.setdefault(f"{record.result.label}, {name}", 100 * noted[name] / noted["judged"])  # the first seed
    lines = [f"| | {' | '.join(named)} |", f"| --- |{' ---: |' * len(named)}"]
    for stream, row in found.items():
        heading = stream.replace(":", ": ").replace("_", " ")
        lines.append(f"| {heading} | {' | '.join(f'{row[name]:.1f}' if name in row else '-' for name in named)} |")
    return "\n".join(lines) + "\n"


def costs_table(records: Iterable[Record]) -> str:
    """Return what a batch costs each method, and how far its confidence can be trusted, as Markdown."""
    rows = cost_rows([record.result for record in records if record.result is not None])
    heads = list(rows[0].values)
    lines = ["| | " + " | ".join(heads) + " |", "| --- |" + " ---: |" * len(heads)]
    for row in rows:
        shown = ("-" if value is None else show_number(value) for value in row.values.values())
        lines.append(f"| {row.label} | {' | '.join(shown)} |")
    return f"### Complexity\n\n{COSTS}\n" + "\n".join(lines) + "\n"


def finished(name: str, folder: Path = FOLDER) -> bool:
    """Tell whether a stored run has every method of its plan on every stream, with one seed at least."""
    if not (folder / name).is_dir():
        return False
    plan = Grid.from_dict(read_plan(folder / f"{name}.toml"))
    cells = [record.cell for record in read_records(folder / name) if record.result is not None]
    stored = {(cell.label, cell.scenario, cell.seed) for cell in cells}
    wanted = [(entry.label, str(scenario)) for entry in plan.methods for scenario in plan.each_scenario()]
    return any(all((*place, seed) in stored for place in wanted) for seed in {cell.seed for cell in cells})


def main(folder: Path = FOLDER) -> None:
    """Write the page beside the folder of runs; what is not finished is left out."""
    done = {section.name for section in SECTIONS if finished(section.name, folder)}
    found = [section for section in SECTIONS if section.name in done and section.until not in done]
    page = "\n".join([INTRODUCTION, *(write_section(section, folder) for section in found)])
    folder.with_suffix(".md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
