"""Run every table of the paper at a small budget with the embedded network and write docs/bench.md from the results.

    python recipes/write_bench.py --budget 2m

The tables show that the bench works from end to end; docs/results.md has the results.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from midway.bench import read_records
from midway.bench.suites import suite

PAGE = Path("docs/bench.md")
SUITES = ("outlier", "mixture", "pure", "sweep", "ablation")

INTRODUCTION = """\
# The bench

`midway run` compares any methods on any streams; `midway paper` runs the tables of the MITA paper and shows its numbers
beside ours. Both continue a run that was stopped. `python recipes/write_bench.py` writes this page: every table with a
budget of a few minutes, on the embedded network and images, to show the bench at work. With so few images the numbers
are not meaningful; [results.md](results.md) has the results. A budget leaves out the slowest rows first, never Source
and MITA, so a table may take longer than its budget on a slow machine. The network of the complexity table has
untrained weights, whose predictions are not confident: EATA and SAR select no image and compute no backward pass.
"""


@dataclass(frozen=True)
class Timed:
    """A command that ran, and how long it took."""

    command: list[str]
    seconds: float
    before: int = 0  # cells that were finished before

    def __str__(self) -> str:
        resumed = f", with {self.before} cells finished before" if self.before else ""
        took = f"It took {self.seconds:.0f} s on this machine's two cores{resumed}."
        return f"    midway {' '.join(self.command)}\n\n{took}"


def midway(*arguments: str) -> Timed:
    """Run the command line in a process of its own."""
    started = time.perf_counter()
    program = "from midway.cli import main; main()"
    subprocess.run([sys.executable, "-c", program, *arguments], check=True)
    return Timed(list(arguments), time.perf_counter() - started)


def suite_section(name: str, budget: str) -> str:
    """Run one table of the paper and return it as a section."""
    folder = Path("runs/bench") / name
    known = {entry.label: entry.complete_settings(0) for entry in suite(name).entries}
    stored = read_records(folder) if folder.is_dir() else []
    before = sum(record.cell.settings == known.get(record.cell.label) for record in stored)
    ran = midway("paper", name, "--budget", budget, "--jobs", "2", "--out", str(folder))
    ran = Timed(ran.command, ran.seconds, before)
    table = (folder / "table.md").read_text().replace("\n## ", "\n### ").removeprefix("## ")
    return f"## {name.capitalize()}\n\n{ran}\n\n### {table}"


def complexity_section(network: str, images: int, methods: str) -> str:
    """Measure the cost of methods on a network and return it as a section."""
    folder = Path("runs/bench/complexity")
    options = ["--network", network, "--images", str(images), *(["--methods", methods] if methods else [])]
    ran = midway("paper", "complexity", *options, "--out", str(folder))
    table = (folder / "table.md").read_text().replace("\n## ", "\n### ").removeprefix("## ")
    return f"## Complexity\n\n{ran}\n\n### {table}"


def jobs_section(images: int) -> str:
    """Run one plan with one job and with two, and compare the numbers and the times."""
    plan = ("--methods", "bn,tent,eata", "--scenarios", "pure:fog,pure:snow,pure:frost", "--images", str(images))
    with tempfile.TemporaryDirectory() as parent:
        folders = [Path(parent) / f"jobs{jobs}" for jobs in (1, 2)]
        one, two = (
            midway("run", *plan, "--jobs", str(jobs), "--out", str(folder))
            for jobs, folder in zip((1, 2), folders, strict=True)
        )
        stored = [{r.cell.key: r.result.repeatable() for r in read_records(f) if r.result is not None} for f in folders]
    same = "the same numbers, bit for bit" if stored[0] == stored[1] else "DIFFERENT numbers"
    return (
        f"## One job and two\n\n    midway run {' '.join(plan)} --jobs 1\n\n{len(stored[0])} cells, starting"
        f" processes included: one job took {one.seconds:.0f} s, two jobs {two.seconds:.0f} s,"
        f" {one.seconds / two.seconds:.2f} times faster, with {same}.\n"
    )


def main() -> None:
    """Run everything and write the page, section by section."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="2m", help="for each table")
    parser.add_argument("--network", default="wrn28_10", help="of the complexity table")
    parser.add_argument("--images", type=int, default=10, help="of the complexity table; its counts are by the image")
    parser.add_argument("--methods", default="", help="of the complexity table [default: all]")
    parser.add_argument(
        "--suites", default=",".join(SUITES), help="tables to run; the others stay as they are on the page"
    )
    parser.add_argument("--images-a-job", type=int, default=1000, help="of each cell that compares one job and two")
    options = parser.parse_args()
    wanted = [name for name in options.suites.split(",") if name]
    known = sections_of(PAGE.read_text(encoding="utf-8")) if PAGE.is_file() and wanted != list(SUITES) else {}
    sections: dict[str, Callable[[], str]] = {
        "One job and two": partial(jobs_section, options.images_a_job),
        **{name.capitalize(): partial(suite_section, name, options.budget) for name in SUITES},
        "Complexity": partial(complexity_section, options.network, options.images, options.methods),
    }
    parts = [INTRODUCTION]
    for title, make in sections.items():
        parts.append(known[title] if title in known and title.lower() not in wanted else make())
        PAGE.with_suffix(".partial").write_text("\n".join(parts), encoding="utf-8")
    PAGE.with_suffix(".partial").replace(PAGE)


def sections_of(page: str) -> dict[str, str]:
    """Return the sections of a page by their titles."""
    sections = re.split(r"(?m)^(?=## )", page)[1:]
    return {text.partition("\n")[0].removeprefix("## "): text for text in sections}


if __name__ == "__main__":
    main()
