"""The terminal: the console of all commands, and progress as a bar with the remaining time or as plain lines."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import IO, Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, ProgressColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Table

from midway._files import without_nan
from midway.bench import Cell, Record, Watcher

SECONDS_BETWEEN_LINES = 10.0

PLAN_COLUMNS = ("method", "network", "data", "scenario", "seed", "batch", "key", "estimate")
WIDE = 110
"""Columns of a terminal from which on the cells of a plan have all columns."""


def terminal(file: IO[str] | None = None, *, stderr: bool = False) -> Console:
    """Return a console without emoji codes: rich would print ``pure:fog:`` with a picture of fog."""
    return Console(file=file, stderr=stderr, emoji=False)


def print_json(value: Any) -> None:
    """Print a value as JSON for scripts; NaN, which JSON does not have, becomes null."""
    print(json.dumps(without_nan(value), indent=2, default=str))


def print_plan(console: Console, lines: Sequence[Mapping[str, str]]) -> None:
    """Print the cells of a plan; on a narrow terminal what all cells have in common is one line above the table."""
    same = [name for name in PLAN_COLUMNS if len({line[name] for line in lines}) == 1] if console.width < WIDE else []
    same = [name for name in same if name not in ("method", "estimate")]
    if same:
        facts = ", ".join(f"{name} {lines[0][name]}" for name in same)
        console.print(f"all cells: {facts}", highlight=False, markup=False)
    table = Table(box=None)
    for name in PLAN_COLUMNS:
        if name not in same:
            table.add_column(name, overflow="fold")
    for line in lines:
        table.add_row(*(escape(value) for name, value in line.items() if name not in same))
    console.print(table)


class _Bar:
    """A context with a progress bar on a terminal; elsewhere the bar is not shown."""

    def __init__(self, console: Console, *columns: ProgressColumn) -> None:
        self.console = console
        self.bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            *columns,
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task("starting", total=None, count="")

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()


class ProgressLine(_Bar):
    """Shows a description and the completed share of some work."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, TaskProgressColumn(), TimeRemainingColumn(compact=True))
        self.last_line = float("-inf")

    def __call__(self, doing: str, done: float, total: float) -> None:
        """Show the progress."""
        self.bar.update(self.task, description=doing, completed=done, total=total)
        now = time.monotonic()
        if not self.console.is_terminal and now - self.last_line >= SECONDS_BETWEEN_LINES:
            self.last_line = now
            self.console.print(f"{100 * done / total:.0f} %  {doing}", highlight=False)


def show_duration(seconds: float) -> str:
    """Return a duration in words, such as 3.2 s, 1 min 15 s or 2 h 2 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


class RunProgress(_Bar, Watcher):
    """Shows the progress of a run: a bar over cells, the remaining time and the mean accuracy of each method so far.

    On a terminal the bar moves with every batch. Elsewhere every finished cell is a line, and long cells print a line
    every few seconds. The remaining time is estimated from the finished cells of the same method.
    """

    def __init__(self, console: Console, jobs: int = 1) -> None:
        super().__init__(console, TextColumn("{task.fields[count]}"))
        self.jobs = jobs
        self.waiting: list[Cell] = []
        self.shares: dict[str, float] = {}  # key of a running cell -> share done
        self.seconds: dict[str, list[float]] = {}  # label -> seconds of finished cells
        self.accuracies: dict[str, list[float]] = {}
        self.total = self.done = 0
        self.last_line = time.monotonic()

    def begin(self, cells: Sequence[Cell], finished: int) -> None:
        """Begin a run."""
        self.waiting, self.total = list(cells), len(cells)
        if finished:
            self.console.print(f"{finished} cells are already finished, {len(cells)} to go.", highlight=False)
        self.bar.update(self.task, total=max(len(cells), 1), count=f"0/{len(cells)}")

    def batch(self, cell: Cell, done: int, total: int, running: float) -> None:
        """Show a batch."""
        self.shares[cell.key] = done / total
        doing = f"{cell}: batch {done}/{total}, {running:.1f} % so far"
        self._show(doing)
        now = time.monotonic()
        if not self.console.is_terminal and now - self.last_line >= SECONDS_BETWEEN_LINES:
            self.last_line = now
            self.console.print(f"[{self.done}/{self.total}] {doing}", highlight=False, markup=False, soft_wrap=True)

    def end(self, record: Record) -> None:
        """Show a finished cell."""
        cell = record.cell
        self.waiting.remove(cell)
        self.shares.pop(cell.key, None)
        self.done += 1
        if record.result is not None:
            self.seconds.setdefault(cell.label, []).append(record.seconds)
            self.accuracies.setdefault(cell.label, []).append(record.result.accuracy)
            outcome = f"{record.result.accuracy:.2f} %"
        else:
            outcome = f"failed, {record.failure.error}" if record.failure else "failed"
        self._show(f"{cell}: {outcome}")
        if not self.console.is_terminal:
            self.last_line = time.monotonic()
            line = f"[{self.done}/{self.total}] {cell}: {outcome} ({show_duration(record.seconds)}{self._left()})"
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _show(self, doing: str) -> None:
        means = "  ".join(f"{label} {fmean(values):.1f}" for label, values in self.accuracies.items())
        described = escape(f"{doing}\n{means}" if means else doing)
        completed = self.done + sum(self.shares.values())
        count = f"{self.done}/{self.total}{self._left()}"
        self.bar.update(self.task, description=described, completed=completed, count=count)

    def _left(self) -> str:
        """Return the estimated remaining time; empty until a cell is finished."""
        if not self.seconds or not self.waiting:
            return ""
        overall = fmean(value for values in self.seconds.values() for value in values)
        left = sum(
            (fmean(self.seconds[cell.label]) if cell.label in self.seconds else overall)
            * (1 - self.shares.get(cell.key, 0))
            for cell in self.waiting
        )
        return f", {show_duration(left / min(self.jobs, len(self.waiting)))} left"
