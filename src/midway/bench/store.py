"""The store: finished cells in a file that survives anything, one JSON line each."""

from __future__ import annotations

import errno
import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from midway.bench.cell import Cell
from midway.bench.evaluate import Result
from midway.bench.outcome import Failure, Outcome
from midway.files import FolderLock, FolderTakenError

FORMAT = 1
"""Version of a line; raised when its meaning changes."""

RESULTS, LOCK, PREDICTIONS = "results.jsonl", "lock", "predictions"


class StoreError(ValueError):
    """A store that cannot be read or written as it is; the message says where and what to do."""


@dataclass(frozen=True)
class Record:
    """One line of the store.

    Attributes:
        cell: What was run.
        result: What came out; None if the cell failed.
        failure: Why it failed; None if it did not.
        seconds: Time of the whole cell.
        environment: Versions, processor and threads it ran with.
        command: What started the run.
        finished: When, in UTC.
        predictions: The file with the answers in the store's folder; None if they were not kept.
    """

    cell: Cell
    result: Result | None
    failure: Failure | None
    seconds: float
    environment: dict[str, Any]
    command: str
    finished: str
    predictions: str | None = None

    def replaces(self, known: Record | None) -> bool:
        """Tell whether this is the last word on its cell after an earlier one: a failure never hides a result."""
        return self.result is not None or known is None or known.result is None

    def to_line(self) -> bytes:
        """Write as one line of JSON."""
        content = {
            "format": FORMAT,
            "key": self.cell.key,
            "cell": self.cell.to_dict(),
            "result": None if self.result is None else self.result.to_dict(),
            "failure": None if self.failure is None else asdict(self.failure),
            "seconds": self.seconds,
            "environment": self.environment,
            "command": self.command,
            "finished": self.finished,
            "predictions": self.predictions,
        }
        return json.dumps(content, default=repr).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes, where: str) -> Record:
        """Read one line.

        Args:
            line: The line.
            where: File and number of the line, for errors.

        Raises:
            StoreError: The line is damaged or of a format this version does not read.
        """
        try:
            content = json.loads(line)
            version = content["format"]
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError(
                f"{where}: this line is no result ({error}). Nothing was changed: mend or remove the line; "
                "its cell will be run again."
            ) from error
        if version != FORMAT:
            age = "a newer" if isinstance(version, int) and version > FORMAT else "another"
            raise StoreError(
                f"{where}: written by {age} version of midway (format {version}, this one reads {FORMAT}): "
                "use that version, or another folder."
            )
        try:
            return cls(
                cell=Cell.from_dict(content["cell"]),
                result=None if content["result"] is None else Result.from_dict(content["result"]),
                failure=None if content["failure"] is None else Failure(**content["failure"]),
                seconds=content["seconds"],
                environment=content["environment"],
                command=content["command"],
                finished=content["finished"],
                predictions=content["predictions"],
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise StoreError(f"{where}: this result is not complete ({error!r}): mend or remove the line.") from error


def _is_record(line: bytes) -> bool:
    try:
        Record.from_line(line, "")
    except StoreError:
        return False
    return True


def read_records(folder: Path | str) -> list[Record]:
    """Read every complete line of a store, also while a run is writing to it.

    Raises:
        FileNotFoundError: There is no store.
        StoreError: A line is damaged; the message has its number.
    """
    path = Path(folder) / RESULTS
    if not path.is_file():
        raise FileNotFoundError(f"{folder} holds no results: there is no {RESULTS} in it.")
    *lines, tail = path.read_bytes().split(b"\n")
    lines += [tail] if _is_record(tail) else []
    return [Record.from_line(line, f"{path}:{number}") for number, line in enumerate(lines, start=1)]


class Store:
    """A folder of results that one run at a time adds to.

    Every finished cell is one line, on the disk before the next one begins: killing a run at any moment loses at most
    the cells in flight. A line that a kill tore off is dropped when the store is opened again; damage anywhere else is
    an error with its line number.

    Args:
        folder: Where; made if it is not there.
        wait: Wait while another run has the folder, instead of raising.

    Attributes:
        records: Key -> the last line about a cell; a repetition that failed does not count against a result.
        torn: A line was torn off and dropped.

    Raises:
        StoreError: Another run has the folder, it cannot be written to, or its file is damaged.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.bench import Grid, Store, work
        >>> from midway.bench.material import Material
        >>> cell = Grid.from_dict({"methods": "source", "images": 100, "batch_sizes": 50}).cells()[0]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Store(Path(folder)) as store:
        ...         store.add(work(cell, Material()), command="midway run")
        ...     with Store(Path(folder)) as store:
        ...         store.has(cell), store.records[cell.key].result.images
        (True, 100)
    """

    def __init__(self, folder: Path, *, wait: bool = False) -> None:
        self.folder = folder
        self.path = folder / RESULTS
        self.records: dict[str, Record] = {}
        self.torn = False
        try:
            self._lock = FolderLock(folder, LOCK, wait=wait)
        except FolderTakenError as error:
            raise StoreError(
                f"another run (process {error.holder}) is writing to {folder}: wait for it (midway run --wait does), "
                "or choose another --out."
            ) from None
        except OSError as error:
            raise StoreError(f"{folder} cannot be written to ({error.strerror}): choose another --out.") from error
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except BaseException:
            self._lock.close()
            raise
        try:
            self._recover()
            for record in read_records(folder):
                self._note(record)
        except BaseException:
            self.close()
            raise

    def _recover(self) -> None:
        """Cut off a last line that has no end: the run that wrote it was killed within it.

        One that is whole but for its end was written by hand, and is ended.
        """
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        tail = content[whole:]
        if not tail:
            return
        read_records(self.folder)  # damage elsewhere is said before anything is changed
        if _is_record(tail):
            os.write(self._file, b"\n")
        elif not whole and not tail.startswith(b"{"):
            raise StoreError(f"{self.path} holds no results of midway: choose another --out. Nothing was changed.")
        else:
            os.ftruncate(self._file, whole)
            self.torn = True
        os.fsync(self._file)

    def has(self, cell: Cell, *, predictions: bool = False) -> bool:
        """Tell whether a cell is finished, with its predictions if they are wanted; failed cells are not."""
        record = self.records.get(cell.key)
        if record is None or record.result is None:
            return False
        return not predictions or (record.predictions is not None and (self.folder / record.predictions).is_file())

    def add(self, outcome: Outcome, *, command: str) -> None:
        """Add an outcome; when this returns it is on the disk.

        Raises:
            StoreError: The disk is full or fails; the file is then as before.
        """
        kept = self._keep(outcome.cell, outcome.predictions) if outcome.predictions else None
        record = Record(
            cell=outcome.cell,
            result=outcome.result,
            failure=outcome.failure,
            seconds=outcome.seconds,
            environment=outcome.environment,
            command=command,
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            predictions=kept,
        )
        line = record.to_line()
        size = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, line)
            if written < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, size)
            raise self._not_written(error) from error
        self._note(Record.from_line(line, str(self.path)))

    def _note(self, record: Record) -> None:
        if record.replaces(self.records.get(record.cell.key)):
            self.records[record.cell.key] = record

    def _keep(self, cell: Cell, arrays: Mapping[str, NDArray[Any]]) -> str:
        """Write answers to a file of their own, whole or not at all, and return its name within the folder."""
        name = f"{PREDICTIONS}/{cell.key}.npz"
        path = self.folder / name
        partial = path.with_suffix(".partial")
        packed = io.BytesIO()
        np.savez_compressed(packed, allow_pickle=False, **arrays)
        try:
            path.parent.mkdir(exist_ok=True)
            with partial.open("wb") as file:
                file.write(packed.getbuffer())
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise self._not_written(error) from error
        return name

    def _not_written(self, error: OSError) -> StoreError:
        return StoreError(
            f"{self.folder} cannot be written to ({error.strerror}): make room, then run the same command again. "
            f"The {len(self.records)} results so far are safe."
        )

    def labelled(self, cell: Cell) -> Record | None:
        """Return the record of a cell under the label the cell has now, or None."""
        record = self.records.get(cell.key)
        if record is None:
            return None
        result = None if record.result is None else replace(record.result, label=cell.label)
        return replace(record, cell=cell, result=result)

    def close(self) -> None:
        """Give the folder back."""
        os.close(self._file)
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def load_predictions(folder: Path, record: Record) -> dict[str, NDArray[Any]]:
    """Read the answers kept with a record: ``logits``, ``labels`` and ``group``.

    Raises:
        FileNotFoundError: They were not kept.
        StoreError: They are damaged.
    """
    if record.predictions is None or not (folder / record.predictions).is_file():
        raise FileNotFoundError(f"{folder} has no predictions of {record.cell}: run it with --keep-predictions.")
    try:
        with (folder / record.predictions).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            return dict(file)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise StoreError(
            f"{folder / record.predictions} is damaged ({error}): remove it, then run the plan again with "
            "--keep-predictions."
        ) from error
