"""Write docs/results.md from the stored runs in docs/results, each a folder named after its plan.

midway run docs/results/mita.toml --jobs 2 --out docs/results/mita
python recipes/write_results.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from midway.bench import Grid, Record, paper, read_records
from midway.bench.plan_file import read_plan
from midway.report.html.tables import cost_rows, show_number
from midway.report.paper_tables import comparison_table, measured, standing
from midway.report.side_by_side import AVERAGES, OURS, PAPER, Measured, split_columns, to_brief_markdown
from midway.report.tables import Table, to_markdown

FOLDER = Path("docs/results")

INTRODUCTION = """\
# Results

Accuracies in percent of the embedded network (WideResNet-16-2, 0.7 million weights) on the 10,000 CIFAR-10 test
images, or the first of them, as each section says, corrupted at severity 5 and shown in batches of 200, beside the
numbers of the MITA paper, whose network is a WideResNet-28-10 (36.5 million weights): the order of the methods
compares, the level does not. Every table is made by `python recipes/write_results.py` from the stored runs in
`docs/results/`: no number here is written by hand, only the sentences below the tables. The command above a table runs
it again, and goes on where it was stopped. Rivals have the settings of their papers, and MITA those found by small
trials on corruptions that no table here uses, apart from the tables that say so; where all methods have tuned
settings, a search gave each as many trials ([tuning.md](tuning.md)).
"""

FILTERS = (
    ("pl", "selected"),
    ("shot", "confident"),
    ("eata", "reliable"),
    ("eata", "selected"),
    ("sar", "reliable"),
)
"""Methods that choose among images, and what they call the chosen."""

PURE = (
    "Each corruption by itself, the method reset before it, published settings but for MITA, whose settings were"
    " found on other corruptions, and TEA, which has MITA's single Langevin step (20, as published, cost ten times"
    " as much). EATA has no Fisher images here and is ETA. The paper's numbers are in brackets; it has none for PL,"
    " T3A, LAME and DUA."
)

TUNED = "_tuned"
"""How the labels of tuned settings end where others have their defaults."""

COSTS = """\
What a batch of 200 costs, means over the streams of the table above, in seconds of one core of a shared machine; a
multiply-add counts as two operations, forward and backward. The paper's own complexity table, with its network and its
rows, is in [bench.md](bench.md). The last two columns say how far the confidence of a method can be trusted: the
surprise at the true class, and the calibration error; MITA pays there: moving images down the energy makes answers
surer than they are right. DUA does its work on the first batch of a stream: its passes and operations are those of
that batch, its seconds are shared among all.
"""


@dataclass(frozen=True)
class Section:
    """One stored run and what to say of it."""

    name: str
    title: str
    about: str
    verdict: str  # in words, to be read again whenever runs are added
    images: int = 10_000  # of each stream
    beside: str = ""  # another stored run whose rows come first
    rows: tuple[str, ...] = ()  # labels to show; all if left out
    streams: tuple[str, ...] = ()  # likewise
    ranked: bool = False  # say how MITA stands against the best other method
    brief: bool = False  # one table, the paper's numbers in brackets
    until: str = ""  # the section that takes its place once its run is finished
    shares: tuple[tuple[str, str], ...] = ()  # methods and what they count, as a share of all images
    costs: bool = False  # say what a batch costs

    @property
    def command(self) -> str:
        """What runs it again."""
        return f"midway run docs/results/{self.name}.toml --jobs 2 --out docs/results/{self.name}"


SECTIONS = (
    Section(
        "pure",
        "Every method on fifteen corruptions",
        PURE,
        "As in the paper, MITA has the highest mean accuracy and the lowest mCE, and TEA comes next; the distances"
        " are smaller than the paper's. T3A and LAME keep the statistics of the source and so its errors; LAME falls"
        " below it, for it expects a batch to hold few classes, and these are shuffled.",
        ranked=True,
        brief=True,
        costs=True,
        shares=FILTERS,
    ),
    Section(
        "defaults",
        "Every method on fifteen corruptions",
        PURE,
        "As in the paper, MITA has the highest mean accuracy and the lowest mCE, and TEA comes next; the distances are"
        " smaller than the paper's, for ten batches are few to whoever moves weights. T3A and LAME keep the statistics"
        " of the source and so its errors; LAME falls below it, for it expects a batch to hold few classes, and these"
        " are shuffled.",
        images=2000,
        until="pure",
        ranked=True,
        brief=True,
        costs=True,
        shares=FILTERS,
    ),
    Section(
        "tuned",
        "Tuned settings on fifteen corruptions",
        "The same with the settings that a search found for each method, with as many trials for each, on corruptions"
        " that no table here uses ([tuning.md](tuning.md)). MEMO was not searched.",
        "MITA has the highest mean, but the lead over TEA that it has with the default settings is gone: with as"
        " many trials for both they are level, each ahead on about half of the corruptions. Both stay above the"
        " methods that minimise entropy.",
        images=2000,
        ranked=True,
        brief=True,
    ),
    Section(
        "memo",
        "MEMO",
        "MEMO adapts to every image by itself, 32 views of it, and takes as long for one image as TENT for some"
        " sixty, so it has fewer images than the other methods. Source on the same images.",
        "MEMO gains most on noise, without seeing any other image, and loses a little on some corruptions. Its gain"
        " is within what its own authors report for other networks (one to eight points); that of the MITA paper is"
        " larger, as large as statistics of a whole batch would bring, but image by image, as MEMO is published,"
        " there are none.",
        images=200,
        brief=True,
    ),
    Section(
        "outlier",
        "Outliers",
        "One image in 200 is of the first corruption of a pair, the others of the second: the six pairs of the"
        " paper. With so few outliers, ten a pair, one of them is ten points; the means are over sixty. All methods"
        " have tuned settings ([tuning.md](tuning.md)), for which streams are as short as those of the search; MEMO,"
        " which the paper has here, is left out for its cost.",
        "On all images of a stream MITA has the highest mean, and on the outliers none is above it in the mean. But"
        " with glass blur, pixelate and elastic transform, where batch statistics drag the outliers below the"
        " unadapted Source or to its level, MITA does not lift them above it; in the paper it does. An outlier is"
        " normalised by the batch it is in before its energy is followed. Kindred statistics, below, are about that.",
        images=2000,
        brief=True,
        ranked=True,
    ),
    Section(
        "mixture",
        "Mixtures",
        "Half of the images are of one corruption of a pair, half of the other. All methods have tuned settings.",
        "MITA has the highest mean, as in the paper, but by less: with one seed and ten batches the lead is none to"
        " rely on.",
        images=2000,
        brief=True,
        ranked=True,
    ),
    Section(
        "sweep",
        "From a rare outlier to half and half",
        "The share of the first corruption of a pair grows from one image in 200 to half of all, in two of the paper's"
        " six pairs; the paper has SAR, SHOT and MEMO here as well. All methods have tuned settings.",
        "With one image in 200 an outlier counts ten points, so only the large distances say something. Defocus blur"
        " among zoom blur, two kinds alike, is far above Source at every share, whatever the method. Glass blur among"
        " gaussian noise falls below Source or to its level until half of the stream is of it; on these images no"
        " method is ahead of the others by more than a few images, where the paper has MITA ahead at every share. On"
        " the whole stream MITA leads in the first pair at every share but the last, where TEA draws level; in the"
        " second all that adapt are within about a point.",
        images=2000,
        brief=True,
    ),
    Section(
        "mita",
        "MITA, its parts and its rivals",
        "Default settings. `tea` takes one update a batch; `tea_equal_budget` takes two, as many as the two models"
        " of MITA together. All have one Langevin step an update. `mita_without_model` moves the images down the"
        " source's energy and lets the source answer; `mita_same` moves them down the predictor's own energy; `mita`"
        " down that of a second model which is adapted further.",
        "The order of the paper's ablation comes out on every stream as a whole: MITA above the same model above"
        " TEA, MITA above TEA with as many updates, and without model adaptation about Source. What does not come out"
        " is the paper's claim for outliers: every method that uses batch statistics falls below the unadapted Source"
        " on them, MITA no less than the others, where the paper has MITA far above Source; they are few, one in 200"
        " images. The sections on kindred statistics have part of the reason, and something that helps.",
        ranked=True,
    ),
    Section(
        "tuned_long",
        "Tuned settings on a long stream",
        "The settings that were found on streams of ten batches ([tuning.md](tuning.md)), here on fifty.",
        "TENT keeps what the search gained it. TEA and MITA do not: over the first batches the tuned settings are"
        " above the defaults, as in the search, then accuracy falls until the end, while with the defaults it ends"
        " higher than it began (`batch_accuracies` in the store). Steps that get far in ten batches go too far in"
        " fifty. So the cautious settings stay MITA's defaults, and the tuned ones are for streams as short as those"
        " they were found on.",
        beside="mita",
        rows=("source", *(f"{name}{ending}" for name in ("tent", "tea", "mita") for ending in ("", TUNED))),
        streams=("pure:gaussian_noise",),
        brief=True,
    ),
    Section(
        "ablation",
        "Ablation",
        "The pair of the paper's ablation, default settings. `mita_without_data` is TEA; `tea_equal_budget` takes as"
        " many updates as the two models of MITA together.",
        "MITA is above `mita_same`, and `mita_same` above `mita_without_data` as in the paper, but by little and on"
        " two of the four streams; data adaptation alone does next to nothing. Two updates a batch do not explain"
        " MITA's lead: TEA with as many is below it on all four.",
        images=2000,
        brief=True,
    ),
    Section(
        "mita_data_model",
        "How long MITA's data model should live",
        "On corruptions kept for tuning: `mita` carries its data model from batch to batch; `mita_fresh`"
        " starts it from the predictor in every batch and adapts it by one further step, `mita_fresh_4` by three.",
        "At the same cost (six forward and five backward passes a batch) the persistent data model is above the fresh"
        " one in all three scenarios; a fresh one with three further steps draws level, at ten and nine passes. So"
        " persistent is the default.",
        images=1000,
    ),
    Section(
        "kindred_tuning",
        "Kindred statistics: where they were found",
        "Part of what holds methods back on outliers and mixtures are the statistics of the batch: an image is"
        ' normalised by strangers. With `statistics="kindred"`, which the paper does not have, each image is normalised'
        " by those of its batch that are like it, and by the source where there are few ([methods.md](methods.md))."
        " These are the corruptions on which the constants were chosen, twenty outliers a stream; no weight moves.",
        "Where the two kinds are far apart (blur and noise), mixtures gain much, and the outliers rise from below"
        " the unadapted Source to far above it, for little of the rest. Where they are near, nothing changes.",
        images=4000,
        brief=True,
    ),
    Section(
        "kindred_pairs",
        "Kindred statistics: the paper's pairs",
        "The same on the pairs of the paper, whose corruptions the choice of constants never saw; 50 outliers a"
        " stream.",
        "In mixtures they gain, or change nothing. Of the three kinds of outliers that batch statistics drag below"
        " Source, two are brought about half of the way back and none above it: in these pairs an outlier is not"
        " always told apart. The rest of a stream is as it was.",
        brief=True,
    ),
    Section(
        "kindred",
        "Kindred statistics under other methods",
        "The methods of the section on MITA and its rivals, with and without them; MITA without them only, for its"
        " cost. Default settings.",
        "What BN gains by them, the methods that move weights gain as well: TEA with them is above MITA without them"
        " in the mixture. On the outliers all gain and none reaches Source. A pure stream is as it was.",
        beside="mita",
        rows=(
            "source",
            *(f"{name}{ending}" for name in ("bn", "tent", "tea_equal_budget") for ending in ("", "_kindred")),
            "mita",
        ),
        brief=True,
    ),
    Section(
        "cifar100",
        "CIFAR-100",
        "A ResNet-56 (0.9 million weights, 72.6 % on clean images) on corrupted CIFAR-100; the paper's"
        " network is another. Settings as in the first table.",
        "With default settings MITA and TEA are level, and ahead of those that minimise entropy by little: five"
        " batches are few. The settings tuned on CIFAR-10 carry over to this other network and its hundred classes:"
        " with them MITA has the highest mean, as in the paper, and TEA comes next. Under JPEG compression batch"
        " statistics alone cost more than they bring.",
        images=1000,
        brief=True,
        shares=FILTERS,
        ranked=True,
    ),
    Section(
        "imagenet",
        "ImageNet size",
        "EfficientNet-lite0 (4.7 million weights, 224 pixels) on ImageNet validation images, one a class, in batches"
        " of 50. The same code as for CIFAR, settings chosen by the number of classes and the size of the images. The"
        " paper has no such table. MEMO has one of its own, below.",
        "Two batches are so few that the columns of those that answer before they adapt are nearly BN's: TENT and"
        " SHOT have taken one small step when they answer the second, and the filters of PL, EATA and SAR let next to"
        " nothing pass but under fog: with statistics of so few images, at this severity, hardly an answer is"
        " certain. Batch statistics help against noise, blur and fog, and harm where JPEG compression had done"
        " little.",
        images=100,
        brief=True,
        shares=FILTERS,
    ),
    Section(
        "imagenet_memo",
        "ImageNet size: MEMO",
        "The same network and corruptions, 64 views of each image as published, on few images. Source on the same"
        " images.",
        "It runs as it is. So few images say no more: one of them is six points.",
        images=16,
        brief=True,
    ),
    Section(
        "pacs",
        "Domain shift: PACS",
        "EfficientNet-lite0, fine-tuned on photos (recipes/finetune_pacs.py) and tested on the other three domains, 60"
        " images a class at 128 pixels, in batches of 60.",
        "Batch statistics bring most of what there is to gain, and model adaptation, in TEA, a little more. MITA"
        " does not lead here: TEA is MITA without data adaptation and is above it in all three domains, most of all"
        " on sketches. A drawing is no photo with something on it that a small move of the image could take away. The"
        " settings tuned on CIFAR-10 help both, TEA more. With 420 images, four of them are a point.",
        images=420,
        brief=True,
        shares=FILTERS,
    ),
)


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
    names = [name for name in (section.beside, section.name) if name]
    records = [record for name in names for record in read_records(folder / name)]
    found = numbers_of(records, [Grid.from_dict(read_plan(folder / f"{name}.toml")) for name in names])
    shown = [number for number in found if number.method in (section.rows or (number.method,))]
    numbers = complete([number for number in shown if number.stream in (section.streams or (number.stream,))])
    data = paper.comparable(records[0].cell.data)
    table = comparison_table(section.title, numbers, data=data)
    seeds = sorted({number.seed for number in numbers})
    count = f"{section.images:,} images a stream"
    said = f"{count}, seeds {', '.join(map(str, seeds))}." if len(seeds) > 1 else f"{count}, one seed ({seeds[0]})."
    parts = [f"## {section.title}\n", f"    {section.command}\n", f"{section.about} {said}\n"]
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
    said += f"; the paper has it best in {len(there)}, of which here in {len(there) - len(missed)}"
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
