"""How long ``import midway`` takes beyond ``import torch``, each in fresh processes: the median of several runs.

    python benchmarks/import_time.py --repeats 7

The goal is at most 0.4 s of the processor (other programs do not slow that down), without scipy, matplotlib, rich,
typer or jinja2 among the imported modules.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from statistics import median

LAZY = ("scipy", "matplotlib", "rich", "typer", "jinja2", "pandas", "optuna", "ray")
"""Packages that are imported where they are used."""

GOAL_SECONDS = 0.4

TIMED = """
import sys, time
import torch
started, used = time.perf_counter(), time.process_time()
import {module}
loaded = {{name.partition(".")[0] for name in sys.modules}}
print(time.perf_counter() - started, time.process_time() - used, *sorted(loaded))
"""


def seconds(module: str) -> tuple[float, float, set[str]]:
    """Import a module in a fresh process after torch; return seconds, processor seconds and the packages loaded."""
    command = [sys.executable, "-c", TIMED.format(module=module)]
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # as installed
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=compiled).stdout.split()
    return float(output[0]), float(output[1]), set(output[2:])


def main() -> None:
    """Measure, print and end with status 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    seconds("midway")  # compiles the modules and reads the files once
    runs = [seconds("midway") for _ in range(repeats)]
    taken, used = median(each[0] for each in runs), median(each[1] for each in runs)
    loaded = sorted(runs[0][2].intersection(LAZY))
    print(f"import midway: {taken:.3f} s beyond torch ({used:.3f} s of the processor), median of {repeats}")
    print(f"goal: {GOAL_SECONDS} s of the processor")
    print(f"imported although not used yet: {', '.join(loaded) or 'nothing'}")
    sys.exit(1 if used > GOAL_SECONDS or loaded else 0)


if __name__ == "__main__":
    main()
