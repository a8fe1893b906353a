"""A campaign against the package: kills, full disks, damaged files, two runs at once, a clock that goes backwards.

    python tests/chaos/campaign.py --write docs/reliability.md

Every disturbed run is continued to its end and compared with an undisturbed one. The table lists what was tried and
what held; the status is 1 if anything did not hold.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.update(OMP_NUM_THREADS="1", COLUMNS="500", NO_COLOR="1")

from chaos.document import write_table
from chaos.killing import midway

PRELOADED = (
    "midway.cli",
    "midway.tune.study",
    "midway.report.figures",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "matplotlib.backends.backend_pdf",
)
"""Modules that every command needs: a forked process finds them imported."""

TINY = f"{Path(__file__).with_name('network.py')}:tiny"
RUN = [
    "run", "--methods", "source,bn,tent", "--scenarios", "pure:contrast,mixture:contrast/brightness@0.5",
    "--images", "40",
    "--batch-sizes", "20", "--keep-predictions", "--networks", TINY,
]  # fmt: skip
TUNE = [
    "tune", "tent", "--scenarios", "pure:spatter", "--images", "40", "--batch-size", "20", "--trials", "6", "--no-gain",
    "--network", TINY,
]  # fmt: skip
MAKE = ["data", "make", "cifar10-c", "--corruption", "contrast,brightness,gaussian_noise", "--severity", "1,5"]


@dataclass
class Row:
    """A line of the table: what was tried, how often, how often it held, and what held means."""

    what: str
    meaning: str
    tried: int = 0
    held: int = 0
    faults: list[str] = field(default_factory=list)

    def count(self, held: bool, fault: str = "") -> None:
        self.tried += 1
        self.held += held
        if not held:
            self.faults.append(f"{self.what}: {fault}".replace("\n", " ")[-600:])


class Subject:
    """A command that is disturbed, and how its result is read."""

    def __init__(self, name: str, command: list[str], jobs: str = "1") -> None:
        self.name, self.command = name, [*command, "--jobs", jobs]

    def arguments(self, out: Path) -> list[str]:
        return [*self.command, "--out", str(out)]

    def finished(self, out: Path) -> dict[str, Any]:
        """Return what is finished: nothing of it may change or vanish later."""
        if self.name == "run":
            from midway.bench import read_records

            records = read_records(out) if (out / "results.jsonl").is_file() else []
            return {record.cell.key: record.result.repeatable() for record in records if record.result is not None}
        if self.name == "data make":
            from midway.data.manifest import FileFacts, Manifest

            manifest = Manifest.read(out) if out.is_dir() else None
            return {} if manifest is None else {name: FileFacts.of(out / name).sha256 for name in manifest.files}
        return {}

    def result(self, out: Path) -> Any:
        """Return the whole result, to compare it with that of an undisturbed run."""
        if self.name != "tune":
            return self.finished(out)
        trials = json.loads((out / "study.json").read_text())["trials"]
        return [(trial["settings"], trial["state"], trial["accuracy"]) for trial in trials]


def subjects(folder: Path) -> list[Subject]:
    """Return the three commands; ``data make`` takes its images from a small folder of its own."""
    import numpy as np

    source = folder / "source" / "cifar10.npz"
    if not source.is_file():
        source.parent.mkdir(parents=True)
        images = np.random.default_rng(0).integers(0, 256, (40, 32, 32, 3), np.uint8)
        np.savez(source, images=images, labels=np.arange(40) % 10)
    os.environ["MIDWAY_DATA"] = str(folder / "data")
    (folder / "data").mkdir(exist_ok=True)
    if not (folder / "data" / "cifar10").exists():
        (folder / "data" / "cifar10").symlink_to(source.parent)
    return [Subject("run", RUN), Subject("tune", TUNE), Subject("data make", MAKE)]


def kill(subject: Subject, folder: Path, kills: int, chance: random.Random) -> tuple[Row, Row]:
    """Kill a command again and again, at random moments and inside writes, and compare what it leaves behind."""
    moments = Row(
        f"`midway {subject.name}` killed at random moments",
        "continued to the same result" + ("" if subject.name == "tune" else ", nothing finished lost"),
    )
    writes = Row(f"`midway {subject.name}` killed inside a write or a rename", moments.meaning)
    reference = midway(subject.arguments(folder / "undisturbed"))
    assert reference.status == 0, reference.output
    expected = subject.result(folder / "undisturbed")
    number, killed = 0, 0
    while killed < kills:
        number += 1
        out = folder / f"killed-{number}"
        kept: dict[str, Any] = {}
        used: list[Row] = []
        while True:
            row = chance.choice([moments, writes]) if killed < kills else None
            if row is None:
                ended = midway(subject.arguments(out))
            elif row is moments:
                ended = midway(subject.arguments(out), seconds=chance.uniform(0, 1.1 * reference.seconds))
            else:
                ended = midway(subject.arguments(out), write=chance.randint(1, 60))
            now = subject.finished(out)
            lost = [key for key, value in kept.items() if now.get(key) != value]
            kept = now
            if ended.killed and row is not None:
                killed += 1
                used.append(row)
                row.count(not lost, f"lost {lost}")
            elif ended.status != 0:
                (row or moments).count(False, f"status {ended.status}: {ended.output}")
                break
            else:
                same = subject.result(out) == expected
                left = [path.name for path in out.rglob(".*") if path.name.endswith((".partial", ".part"))]
                if used and not (same and not (subject.name == "data make" and left)):
                    used[-1].held -= 1
                    used[-1].faults.append(f"{subject.name}: the result differs, or {left} is left behind")
                break
    return moments, writes


@contextmanager
def small_disk(folder: Path, size: str = "3m") -> Iterator[Path | None]:
    """Mount a small disk; None without the permission to do so."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill_disk(subject: Subject, folder: Path, times: int, chance: random.Random) -> Row:
    """Run a command on a disk with little space left, free it, and continue."""
    row = Row(f"`midway {subject.name}` on a disk that is full", "one sentence with status 1, then the same result")
    expected = subject.result(folder / "undisturbed")
    for _ in range(times):
        with small_disk(folder / "disk") as disk:
            if disk is None:
                return row
            filler = disk / "filler"
            free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
            filler.write_bytes(bytes(free - chance.choice([0, 4096, 16384, 65536, 131072])))
            first = midway(subject.arguments(disk / "out"))
            filler.unlink()
            second = midway(subject.arguments(disk / "out"))
            same = second.status == 0 and subject.result(disk / "out") == expected
            left = [path.name for path in (disk / "out").rglob(".*") if path.name.endswith((".partial", ".part"))]
            row.count(
                same and not left and (first.status == 0 or first.in_one_sentence),
                f"{first.status} {first.output} / {second.status} {second.output} {left}",
            )
    return row


def fill_shared_memory(folder: Path) -> Row:
    """Run with worker processes while ``/dev/shm`` is full, in a mount namespace of its own."""
    row = Row("`midway run --jobs 2` with a full `/dev/shm`", "the same result")
    out = folder / "shm"
    script = 'mount -t tmpfs -o size=4k tmpfs /dev/shm && (cat /dev/zero > /dev/shm/full || true) && exec "$@"'
    command = [sys.executable, "-m", "midway", *RUN, "--jobs", "2", "--out", str(out)]
    prefix = ["unshare", "--mount", "sh", "-c", script, "sh"]
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0:
        done = subprocess.run([*prefix, *command], capture_output=True, text=True, check=False)
        subject = Subject("run", RUN)
        same = done.returncode == 0 and subject.result(out) == subject.result(folder / "run" / "undisturbed")
        row.count(same, done.stderr)
    return row


def read_only(all_subjects: list[Subject], folder: Path) -> Row:
    """Write to a folder that is read-only."""
    row = Row("every command into a read-only folder", "one sentence with status 1")
    with small_disk(folder / "read-only") as disk:
        if disk is not None:
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            for subject in all_subjects:
                ended = midway(subject.arguments(disk / "out"))
                row.count(ended.in_one_sentence, f"{subject.name}: {ended.status} {ended.output}")
    return row


def two_at_once(folder: Path, times: int) -> Row:
    """Start two runs on one folder."""
    row = Row("two runs into one folder at once", "the second is refused, or waits with `--wait`; the same result")
    subject, out = Subject("run", RUN), folder / "two"
    expected = subject.result(folder / "run" / "undisturbed")
    for number in range(times):
        out = folder / f"two-{number}"
        child = os.fork()
        if child == 0:
            first = midway(subject.arguments(out))
            os._exit(first.status)
        while not (out / "lock").exists():
            time.sleep(0.01)
        refused = midway(subject.arguments(out))
        waited = midway([*subject.arguments(out), "--wait"])
        _, code = os.waitpid(child, 0)
        in_order = (refused.in_one_sentence and "another run" in refused.output) or refused.status == 0
        row.count(
            in_order and waited.status == 0 == code and subject.result(out) == expected, refused.output + waited.output
        )
    return row


def backwards() -> None:
    """Let every clock of this process go backwards."""
    import datetime as real

    import midway.bench.engines.base as engines
    import midway.tune.study as studies

    start, calls = time.time(), 0

    def earlier() -> float:
        nonlocal calls
        calls += 1
        return start - 60 * calls

    class Backwards(real.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> real.datetime:  # type: ignore[override]
            return real.datetime.fromtimestamp(earlier(), tz)

    time.time = earlier
    engines.datetime = studies.datetime = Backwards  # type: ignore[misc, assignment]


def clock(all_subjects: list[Subject], folder: Path) -> Row:
    """Run every command while the clock goes backwards."""
    row = Row("every command while the clock goes backwards", "the same result")
    for subject in all_subjects:
        out = folder / subject.name / "backwards"
        ended = midway(subject.arguments(out), before=backwards)
        same = ended.status == 0 and subject.result(out) == subject.result(folder / subject.name / "undisturbed")
        row.count(same, ended.output)
    return row


def secrets(folder: Path) -> Row:
    """Look for passwords of the environment and of addresses in everything that a command writes."""
    row = Row("passwords in the environment and in addresses", "in no file, page or message")
    word = "hunter2secret"
    os.environ["MIDWAY_PASSWORD"] = word
    for number, (arguments, needs) in enumerate(
        [
            ([*RUN, "--engine-option", f"x=redis://me:{word}@host/"], 1),
            ([*TUNE, "--storage", f"postgresql://me:{word}@127.0.0.1:9/x?connect_timeout=1"], 1),
            (RUN, 0),
        ]
    ):
        out = folder / f"secrets-{number}"
        ended = midway([*arguments, "--out", out])
        files = [path for path in out.rglob("*") if path.is_file()] if out.exists() else []
        found = [path.name for path in files if word.encode() in path.read_bytes()]
        row.count(not found and word not in ended.output and ended.status == needs, f"{found} {ended.output}")
    return row


def campaign(folder: Path, *, kills: int, disks: int, ways: int, seed: int, short: bool = False) -> list[Row]:
    """Run every part, or the quick ones, and return the rows of the table."""
    from chaos.reading import damage_files

    for module in PRELOADED:
        importlib.import_module(module)
    chance = random.Random(seed)
    chosen = subjects(folder)
    parts: list[Callable[[], list[Row]]] = []
    for subject in chosen:
        inner = folder / subject.name
        count = 1 if short and subject.name == "tune" else kills
        parts.append(lambda s=subject, f=inner, n=count: list(kill(s, f, n, chance)))  # type: ignore[misc]
        if not short or subject.name != "tune":
            parts.append(lambda s=subject, f=inner: [fill_disk(s, f, disks, chance)])  # type: ignore[misc]
    parts += [lambda: damage_files(folder, ways, chance), lambda: [read_only(chosen, folder)]]
    if not short:
        parts += [
            lambda: [two_at_once(folder, max(1, disks // 3))],
            lambda: [clock(chosen, folder)],
            lambda: [secrets(folder)],
            lambda: [fill_shared_memory(folder)],
        ]
    rows: list[Row] = []
    for part in parts:
        started = time.monotonic()
        new = part()
        rows += new
        for row in new:
            seconds = time.monotonic() - started
            print(f"{row.held:5} of {row.tried:5} held: {row.what} ({seconds:.0f} s)", file=sys.stderr, flush=True)
            for fault in row.faults[:3]:
                print(f"      {fault}", file=sys.stderr, flush=True)
    return rows


def table(rows: list[Row], seconds: float) -> str:
    """Return the rows as Markdown."""
    lines = ["| tried | times | held | what held means |", "| --- | --: | --: | --- |"]
    lines += [
        f"| {row.what} | {row.tried} | {row.held} | {row.meaning} |"
        if row.tried
        else f"| {row.what} | 0 | - | not possible on this machine |"
        for row in rows
    ]
    single = [row for row in rows if not row.what.startswith("all of these")]  # that one is a sum already
    total, held = (sum(getattr(row, name) for row in single) for name in ("tried", "held"))
    return "\n".join([*lines, f"| all, in {seconds / 60:.0f} minutes | {total:,} | {held:,} | |"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="the document with the table")
    parser.add_argument("--short", action="store_true", help="a few of each, without the table")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    started = time.monotonic()
    amounts = {"kills": 2, "disks": 1, "ways": 4} if given.short else {"kills": 52, "disks": 6, "ways": 20}
    with tempfile.TemporaryDirectory(prefix="midway-chaos-") as folder:
        rows = campaign(Path(folder), seed=given.seed, short=given.short, **amounts)
    if given.json:
        print(json.dumps([asdict(row) for row in rows]))
    if given.write is not None:
        write_table(given.write, "the table", table(rows, time.monotonic() - started))
    sys.exit(any(row.faults for row in rows))


if __name__ == "__main__":
    main()
