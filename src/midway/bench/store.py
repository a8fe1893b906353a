"""The store, an append-only file with one JSON line per cell, and running a plan into it."""

from __future__ import annotations

import errno
import io
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from midway._arrays import ArrayFileError, read_npz
from midway._files import FolderLock, FolderTakenError, remove, write_atomically
from midway.bench.engines import Engine
from midway.bench.record import Cell, Record, StoreError

logger = logging.getLogger("midway")

RESULTS, LOCK, PREDICTIONS = "results.jsonl", "lock", "predictions"


def _is_record(line: bytes) -> bool:
    try:
        Record.from_line(line, "")
    except StoreError:
        return False
    return True


def read_records(folder: Path | str) -> list[Record]:
    """Read every complete line of a store, also while a run is writing to it; a ``StoreError`` has the damaged line.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.bench import Store, read_records
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Store(Path(folder)).close()
        ...     read_records(folder)
        []
    """
    path = Path(folder) / RESULTS
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} holds no results: there is no {RESULTS} in it: give the folder that `midway run` wrote (--out)."
        )
    *lines, tail = path.read_bytes().split(b"\n")
    lines += [tail] if _is_record(tail) else []
    return [Record.from_line(line, f"{path}:{number}") for number, line in enumerate(lines, start=1)]


class Store:
    """A folder of results that one run at a time adds to.

    Every record is one line, on the disk before the next cell begins: killing a run at any moment loses at most the
    cells that are running. A last line that a kill truncated is dropped when the store is opened again; damage
    anywhere else is a ``StoreError`` with its line number. ``truncated`` tells whether a line was dropped.

    Args:
        folder: The folder; created if it does not exist.
        wait: Wait while another run writes to the folder, instead of raising.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.bench import Grid, ResourceCache, Store, run_cell
        >>> cell = Grid.from_dict({"methods": "source", "images": 100, "batch_sizes": 50}).cells()[0]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Store(Path(folder)) as store:
        ...         store.add(run_cell(cell, ResourceCache()), command="midway run")
        ...     with Store(Path(folder)) as store:
        ...         store.has(cell), store.find(cell).result.images
        (True, 100)
    """

    def __init__(self, folder: Path, *, wait: bool = False) -> None:
        self.folder = folder
        self.path = folder / RESULTS
        self._latest: dict[str, Record] = {}
        self._by_code: dict[tuple[str, str], Record] = {}
        self.truncated = False
        try:
            lock = FolderLock(folder, LOCK, wait=wait)
        except FolderTakenError as error:
            raise StoreError(
                f"another run (process {error.holder}) is writing to {folder}: wait for it (midway run --wait does), "
                "or choose another --out."
            ) from None
        except OSError as error:
            raise StoreError(f"{folder} cannot be written to ({error.strerror}): choose another --out.") from error
        with ExitStack() as opened:
            opened.callback(lock.close)
            for left_over in (folder / PREDICTIONS).glob(".*.partial"):
                remove(left_over)  # of a run that was killed
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            opened.callback(os.close, self._file)
            self._recover()
            for record in read_records(folder):
                self._index(record)
            self._opened = opened.pop_all()

    def _recover(self) -> None:
        """Drop a last line without an end: the run that wrote it was killed.

        A complete record that only lacks the newline was edited by hand; the newline is added.
        """
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        tail = content[whole:]
        if not tail:
            return
        read_records(self.folder)  # raises on damage elsewhere before anything is changed
        if _is_record(tail):
            os.write(self._file, b"\n")
        elif not whole and not tail.startswith(b"{"):
            raise StoreError(f"{self.path} is not a results file of midway: choose another --out. Nothing was changed.")
        else:
            os.ftruncate(self._file, whole)
            self.truncated = True
        os.fsync(self._file)

    def __len__(self) -> int:
        return len(self._latest)

    @property
    def records(self) -> list[Record]:
        """The record of every cell in the store; the latest result if there are several."""
        return list(self._latest.values())

    def find(self, cell: Cell, *, keep_old: bool = False) -> Record | None:
        """Return the record of a cell under the label of the cell, or None."""
        record = self._by_code.get((cell.key, cell.code))
        if keep_old and (record is None or record.result is None):
            record = self._latest.get(cell.key, record)
        if record is None:
            return None
        return replace(record, cell=cell if cell.code == record.cell.code else replace(cell, code=record.cell.code))

    def has(self, cell: Cell, *, predictions: bool = False, keep_old: bool = False) -> bool:
        """Return whether a cell has a result, and its predictions if they are wanted."""
        record = self.find(cell, keep_old=keep_old)
        if record is None or record.result is None:
            return False
        return not predictions or (record.predictions is not None and (self.folder / record.predictions).is_file())

    def out_of_date(self, cells: Iterable[Cell]) -> list[Cell]:
        """Return the cells whose only results were computed by other code."""
        return [cell for cell in cells if self.has(cell, keep_old=True) and not self.has(cell)]

    def add(self, record: Record, *, command: str) -> None:
        """Add a record; when this returns it is on the disk."""
        stored = self._store_predictions(record.cell, record.arrays) if record.arrays else None
        line = replace(record, command=command, predictions=stored).to_line()
        size = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, line)
            if written < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, size)
            raise self._not_written(error) from error
        self._index(replace(Record.from_line(line, str(self.path)), cell=record.cell))

    def _index(self, record: Record) -> None:
        key = record.cell.key
        if record.replaces(self._latest.get(key)):
            self._latest[key] = record
        if record.replaces(self._by_code.get((key, record.cell.code))):
            self._by_code[key, record.cell.code] = record

    def _store_predictions(self, cell: Cell, arrays: Mapping[str, NDArray[Any]]) -> str:
        """Write predictions to a file of their own and return its name within the folder."""
        name = f"{PREDICTIONS}/{cell.key}.npz"
        packed = io.BytesIO()
        np.savez_compressed(packed, allow_pickle=False, **arrays)
        try:
            write_atomically(self.folder / name, packed.getvalue())
        except OSError as error:
            raise self._not_written(error) from error
        return name

    def _not_written(self, error: OSError) -> StoreError:
        return StoreError(
            f"{self.folder} cannot be written to ({error.strerror}): free some space, then run the same command again. "
            f"The {len(self)} results so far are safe."
        )

    def close(self) -> None:
        """Release the folder."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def load_predictions(folder: Path, record: Record) -> dict[str, NDArray[Any]]:
    """Read the predictions stored with a record: ``logits``, ``labels`` and ``group``.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.bench import Grid, LocalEngine, Store, load_predictions, read_records, run
        >>> cells = Grid.from_dict({"methods": "source", "images": 100, "batch_sizes": 50}).cells()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Store(Path(folder)) as store:
        ...         _ = run(cells, store, LocalEngine(), keep_predictions=True)
        ...     load_predictions(Path(folder), read_records(folder)[0])["logits"].shape
        (100, 10)
    """
    if record.predictions is None or not (folder / record.predictions).is_file():
        raise FileNotFoundError(f"{folder} has no predictions of {record.cell}: run it with --keep-predictions.")
    try:
        return read_npz(folder / record.predictions)
    except ArrayFileError as error:
        raise StoreError(
            f"{folder / record.predictions} is damaged ({error}): remove it, then run the plan again with "
            "--keep-predictions."
        ) from error


class Watcher:
    """Receives the progress of a run, for progress bars; this one ignores it.

    Example:
        >>> from midway.bench import Grid, LocalEngine, Watcher
        >>> class Printer(Watcher):
        ...     def batch(self, cell, done, total, running):
        ...         print(f"{cell}: {done}/{total}")
        >>> cell = Grid.from_dict({"methods": "source", "images": 100, "batch_sizes": 100}).cells()[0]
        >>> _ = list(LocalEngine().run([cell], on_batch=Printer().batch))
        source on pure:gaussian_noise, seed 0: 1/1
    """

    def begin(self, cells: Sequence[Cell], finished: int) -> None:
        """Cells are about to run; ``finished`` cells have results already."""

    def batch(self, cell: Cell, done: int, total: int, running: float) -> None:
        """A batch of a cell is done; ``running`` is the accuracy so far, in percent."""

    def end(self, record: Record) -> None:
        """The record of a cell is in the store."""


@dataclass(frozen=True)
class Tally:
    """How a run ended.

    Attributes:
        before: Cells that had results already.
        finished: Cells that finished now.
        failed: Cells that failed now.
        out_of_date: Cells whose stored results were computed by other code; run again unless ``keep_old``.
    """

    before: int
    finished: int
    failed: int
    out_of_date: int = 0


def run(
    cells: Sequence[Cell],
    store: Store,
    engine: Engine,
    *,
    command: str = "",
    keep_predictions: bool = False,
    keep_old: bool = False,
    watcher: Watcher | None = None,
) -> Tally:
    """Run the cells without a valid result in the store, and add each record to it as the cell finishes.

    A cell that fails is stored as failed and run again the next time. An interrupt (Ctrl-C) passes through: finished
    cells are in the store.

    Args:
        cells: The plan.
        store: Receives the records.
        engine: Runs the cells.
        command: The command that started the run, stored with every record.
        keep_predictions: Also store every prediction.
        keep_old: Accept stored results that other code computed.
        watcher: Receives the progress.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.bench import Grid, LocalEngine, Store, run
        >>> cells = Grid.from_dict({"methods": "source,bn", "images": 100, "batch_sizes": 50}).cells()
        >>> with tempfile.TemporaryDirectory() as folder, Store(Path(folder)) as store:
        ...     run(cells, store, LocalEngine())
        ...     run(cells, store, LocalEngine())
        Tally(before=0, finished=2, failed=0, out_of_date=0)
        Tally(before=2, finished=0, failed=0, out_of_date=0)
    """
    watcher = watcher or Watcher()
    left = [cell for cell in cells if not store.has(cell, predictions=keep_predictions, keep_old=keep_old)]
    before, out_of_date = len(cells) - len(left), len(store.out_of_date(cells))
    watcher.begin(left, before)
    failed = 0
    with closing(engine.run(left, keep_predictions=keep_predictions, on_batch=watcher.batch)) as records:  # type: ignore[type-var]
        for record in records:
            store.add(record, command=command)
            failed += record.failure is not None
            logger.info("%s: %s", record.cell, "finished" if record.failure is None else record.failure.error)
            watcher.end(record)
    return Tally(before, len(left) - failed, failed, out_of_date)
