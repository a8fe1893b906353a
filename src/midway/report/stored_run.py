"""A run as it lies on the disk, for figures and pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from midway.bench import Cell, Comparison, Record, gather, read_records
from midway.bench.store import RESULTS
from midway.tune.findings import Findings

DEMO_RESULTS = "results.json"
STUDY = "study.json"
HELD_OUT = "held_out"
"""Within the folder of a search: the store of its gain on other streams."""


@dataclass(frozen=True)
class StoredRun:
    """What a folder of results holds.

    Attributes:
        name: Of the folder.
        folder: Where it is; None for results that were not read from one.
        comparisons: Results that stand in one table, network by network and data set by data set.
        records: The lines of the store, the last one about each cell; none of a demo, which keeps results alone.
        search: The search whose gain the results measure, if the folder is that of one.
    """

    name: str
    folder: Path | None
    comparisons: tuple[Comparison, ...]
    records: tuple[Record, ...] = ()
    search: Findings | None = None

    @property
    def commands(self) -> tuple[str, ...]:
        """Every distinct command that results are of, the newest last.

        Example:
            >>> from midway.bench import Comparison
            >>> from midway.report.stored_run import StoredRun
            >>> StoredRun("demo", None, (Comparison("Nothing", "midway demo", {}, ()),)).commands
            ('midway demo',)
        """
        used = [record.command for record in sorted(self.records, key=lambda record: record.finished)]
        used += [comparison.command for comparison in self.comparisons if comparison.command not in used]
        used += [self.search.command] if self.search is not None else []
        return tuple(command for command in reversed(dict.fromkeys(reversed(used))) if command)


def read_run(path: Path) -> StoredRun:
    """Read the folder of a run, of a demo or of a search.

    Args:
        path: The folder, or the file of results in it.

    Raises:
        FileNotFoundError: There are no results.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.bench import Comparison
        >>> from midway.report.stored_run import read_run
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Comparison("Nothing", "midway demo", {}, ()).save(Path(folder) / "results.json")
        ...     read_run(Path(folder)).comparisons[0].title
        'Nothing'
    """
    folder = path.parent if path.name in (RESULTS, DEMO_RESULTS) else path
    name = folder.resolve().name
    if (folder / RESULTS).is_file() and path.name != DEMO_RESULTS:
        return stored_run(name, read_records(folder), folder=folder)
    if (folder / DEMO_RESULTS).is_file():
        return StoredRun(name, folder, (Comparison.load(folder / DEMO_RESULTS),))
    if (folder / STUDY).is_file():
        return search_run(folder, Findings.load(folder / STUDY))
    raise FileNotFoundError(f"{path} holds no results: there is no {RESULTS}, {DEMO_RESULTS} or {STUDY} in it.")


def search_run(folder: Path, found: Findings) -> StoredRun:
    """Make a run of what a search found and of its gain on other streams, as far as that was measured.

    What was the best before the search went on is not shown: to choose by other streams is not to measure on them.
    """
    measured = folder / HELD_OUT
    records = read_records(measured) if (measured / RESULTS).is_file() else []
    records = [record for record in records if _is_of(record.cell, found)]
    return replace(stored_run(folder.resolve().name, records, folder=folder), search=found)


def _is_of(cell: Cell, found: Findings) -> bool:
    """Tell whether a cell measures the gain of a search as it is now: its defaults or its best, on its data."""
    shared = ("data", "images", "batch_size", "seed")
    if any(key in found.search and getattr(cell, key) != found.search[key] for key in shared):
        return False
    chosen = dict(found.search.get("held", {}))
    if cell.label != f"{found.method}, defaults":
        chosen |= found.best.settings if found.count("complete") else found.defaults
    plain = json.loads(json.dumps(dict(cell.settings)))
    return bool(plain == plain | json.loads(json.dumps(chosen)))


def stored_run(
    name: str, records: list[Record], *, folder: Path | None = None, command: str | None = None
) -> StoredRun:
    """Make a run of records at hand; the last one about a cell counts.

    Args:
        name: What to call it.
        records: Lines of a store.
        folder: Where they lie.
        command: What repeats the run; that of the last record if left out.
    """
    last = {record.cell.key: record for record in records}
    return StoredRun(name, folder, tuple(gather(records, command=command)), tuple(last.values()))


def tell_runs_apart(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Name runs of the same name by as much of their paths as tells them apart, or by their order.

    Example:
        >>> from pathlib import Path
        >>> from midway.report.stored_run import StoredRun, tell_runs_apart
        >>> runs = [StoredRun("run", Path(place, "run"), ()) for place in ("/tmp/monday", "/tmp/tuesday")]
        >>> [run.name for run in tell_runs_apart(runs)]
        ['monday/run', 'tuesday/run']
    """
    if len({run.name for run in runs}) == len(runs):
        return list(runs)
    paths = [run.folder.resolve().parts for run in runs if run.folder is not None]
    for length in range(2, max(map(len, paths), default=0) + 1):
        names = [str(Path(*parts[-length:])) for parts in paths]
        if len(set(names)) == len(runs):
            return [replace(run, name=name) for run, name in zip(runs, names, strict=True)]
    return [replace(run, name=f"{run.name} ({number})") for number, run in enumerate(runs, start=1)]
