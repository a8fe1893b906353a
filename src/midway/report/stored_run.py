"""A run as it lies on the disk, for figures and pages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from midway.bench import Comparison, Record, gather, read_records
from midway.bench.store import RESULTS

DEMO_RESULTS = "results.json"


@dataclass(frozen=True)
class StoredRun:
    """What a folder of results holds.

    Attributes:
        name: Of the folder.
        folder: Where it is; None for results that were not read from one.
        comparisons: Results that stand in one table, network by network and data set by data set.
        records: The lines of the store, the last one about each cell; none of a demo, which keeps results alone.
    """

    name: str
    folder: Path | None
    comparisons: tuple[Comparison, ...]
    records: tuple[Record, ...] = ()


def read_run(path: Path) -> StoredRun:
    """Read the folder of a run or of a demo.

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
    raise FileNotFoundError(f"{path} holds no results: there is no {RESULTS} and no {DEMO_RESULTS} in it.")


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
