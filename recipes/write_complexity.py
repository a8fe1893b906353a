"""Measure the complexity table of the paper and what two jobs save, and write docs/complexity.md.

python recipes/write_complexity.py
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from midway.bench import read_records

PAGE = Path("docs/complexity.md")

INTRODUCTION = """\
# Complexity

The complexity table of the MITA paper, with its network and its rows, and the defaults of this library.
`python recipes/write_complexity.py` writes this page. The network has untrained weights, whose predictions are not
confident: EATA and SAR select no image and compute no backward pass. A batch has ten images, to which MITA's default
adds as many samples (16 at most); with 200 images it takes 2.08 forward and 1.08 backward passes.
`midway paper outlier`, `mixture`, `pure`, `sweep` and `ablation` run the other tables of the paper, with its numbers
beside ours; `--budget 10m` chooses as many images as the time allows. [results.md](results.md) has their results, with
the passes of every method.
"""


@dataclass(frozen=True)
class Timed:
    """A command that ran, and how long it took."""

    command: list[str]
    seconds: float

    def __str__(self) -> str:
        return f"    midway {' '.join(self.command)}\n\nIt took {self.seconds:.0f} s on two cores."


def midway(*arguments: str) -> Timed:
    """Run the command line in a process of its own."""
    started = time.perf_counter()
    program = "from midway.cli import main; main()"
    subprocess.run([sys.executable, "-c", program, *arguments], check=True)
    return Timed(list(arguments), time.perf_counter() - started)


def complexity_section(network: str, images: int, methods: str) -> str:
    """Measure the cost of methods on a network and return it as a section."""
    folder = Path("runs/complexity")
    options = ["--network", network, "--images", str(images), *(["--methods", methods] if methods else [])]
    ran = midway("paper", "complexity", *options, "--out", str(folder))
    table = (folder / "table.md").read_text().replace("\n## ", "\n### ").removeprefix("## ")
    return f"## The table\n\n{ran}\n\n### {table}"


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
    """Run everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="wrn28_10", help="of the complexity table")
    parser.add_argument("--images", type=int, default=10, help="of the complexity table; its counts are by the image")
    parser.add_argument("--methods", default="", help="of the complexity table [default: all]")
    parser.add_argument("--images-a-job", type=int, default=1000, help="of each cell that compares one job and two")
    options = parser.parse_args()
    table = complexity_section(options.network, options.images, options.methods)
    page = "\n".join([INTRODUCTION, table, jobs_section(options.images_a_job)])
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
