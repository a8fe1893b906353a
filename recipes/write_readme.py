"""Write the table of README.md from the stored runs in docs/results.

python recipes/write_readme.py
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean

from write_results import complete_seeds

from midway.bench import read_records
from midway.report import Frame, frame
from midway.report.ranking import part_of
from midway.report.render import markdown_table, show_number

README = Path("README.md")
RESULTS = Path("docs/results")
BEGIN, END = "<!-- accuracies: recipes/write_readme.py -->\n", "<!-- end of accuracies -->"


LINES = {
    "source": "Source",
    "bn": "BN",
    "tent": "TENT",
    "tea": "TEA",
    "mita": "MITA",
    "bn_mirror": "BN, mirrored views",
    "tent_mirror": "TENT, mirrored views",
    "bn_clustered": "BN, clustered statistics",
    "tent_clustered": "TENT, clustered statistics",
    "mita_clustered": "MITA, clustered statistics",
    "bn_clustered_mirror": "BN, clustered and mirrored",
    "tent_clustered_mirror": "TENT, clustered and mirrored",
    "mita_without_data_clustered_mirror": "MITA, clustered and mirrored, images unmoved",
}
"""Label in stored runs -> heading of its line."""
CORRUPTIONS = ("never_harm", "clustered_pure", "clustered_pure_updates")
"""Runs of single corruptions; the first that has a label is shown."""


def table(folder: Path = RESULTS) -> str:
    """Return the accuracies as Markdown, methods down and streams across."""
    single = [_rows(folder, name) for name in CORRUPTIONS]
    outliers, mixtures = (complete_seeds(_rows(folder, name, f"{name}_clustered")) for name in ("outlier", "mixture"))
    lines = []
    for label, heading in LINES.items():
        corruptions = next((rows for rows in single if label in rows.unique("label")), Frame(()))
        cells = [
            _passes(mixtures, label),
            _mean(corruptions, label, "all", without="pure:clean"),
            _mean(mixtures, label, "all"),
            _mean(outliers, label, "all"),
            _mean(outliers, label, "A"),
        ]
        lines.append([heading, *cells])
    heads = ["", "passes", "one corruption", "mixtures", "outlier streams", "lone outliers"]
    return markdown_table(heads, _best_in_bold(lines))


def _rows(folder: Path, *names: str) -> Frame:
    """Return the rows of stored runs; of a label that two have, those of the first."""
    rows: list[Frame] = []
    seen: set[str] = set()
    for name in names:
        of_run = frame(read_records(folder / name))
        rows.append(of_run.where(label=[label for label in of_run.unique("label") if label not in seen]))
        seen |= set(of_run.unique("label"))
    return Frame(tuple(row for each in rows for row in each))


def _mean(rows: Frame, label: str, part: str, without: str = "") -> str:
    """Return the mean over streams and seeds of the accuracy on a part of the images; of seeds with all streams."""
    shown = complete_seeds(rows.where(label=label, metric="accuracy")) if label in rows.unique("label") else ()
    values = [row.value for row in shown if part_of(row) == part and str(row.scenario) != without]
    return f"{fmean(values):.1f}" if values else "-"


def _passes(rows: Frame, label: str) -> str:
    values = [
        fmean(row.value for row in rows.where(label=label, metric=metric, group="all"))
        for metric in ("forward_passes", "backward_passes")
    ]
    return show_number(sum(values))


def _best_in_bold(lines: Iterable[list[str]]) -> list[list[str]]:
    lines = list(lines)
    for column in range(2, len(lines[0])):
        best = max((line[column] for line in lines if line[column] != "-"), key=float)
        for line in lines:
            line[column] = f"**{best}**" if line[column] == best else line[column]
    return lines


def write(text: str, folder: Path = RESULTS) -> str:
    """Return the text of the README with the table between its two marks."""
    return re.sub(f"({re.escape(BEGIN)}).*?({re.escape(END)})", rf"\g<1>\n{table(folder)}\n\2", text, flags=re.DOTALL)


if __name__ == "__main__":
    README.write_text(write(README.read_text(encoding="utf-8")), encoding="utf-8")
