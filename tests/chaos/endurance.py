"""A program that adapts for months: 100,000 batches for each method, with flat memory, speed and open files.

    python tests/chaos/endurance.py --write docs/reliability.md

runs every row, stores each in `runs/endurance.jsonl` as soon as it is measured, and writes the table.
`--rows "tent;bn"` runs some of them and keeps the other stored rows, so two commands can share the work; `--rows none`
only writes. The status is 1 if anything did not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from torch import Tensor, nn

import midway
from chaos.document import write_table
from midway.methods import AdaptiveClassifier, names
from midway.testing import batches
from sharp_networks import sharp_network

MEGABYTES, SLOWDOWN = 5.0, 1.6
"""What memory may grow (60 bytes a batch), and a batch slow down, from the second tenth of the stream to the last."""

PROBE = 64
"""Batches after the beginning of each tenth within which a method has to change what it adapts."""

COLLAPSES = 10
NOT_COMPARED = ("records", "resolved", "randomness")

CHEAP: dict[str, dict[str, Any]] = {
    "memo": {"views": 2},
    "cotta": {"views": 1, "lr": 1e-4},
    "tea": {"langevin_steps": 1, "buffer_size": 100, "lr": 1e-4},
    "dua": {"copies": 2, "images": None},
    "lame": {"iterations": 10},
    "note": {"memory": 8},
    "rotta": {"memory": 8, "interval": 8, "lr": 1e-4},
    "ttt": {"images_per_step": 4, "lr": 1e-4},
    "dda": {"respacing": 10, "steps": 2, "scale": 0.5, "schedule": "linear"},
    "source": {},
    "bn": {},
    "t3a": {},
}
"""Settings that cost little; the methods that are not listed take small steps, so a long stream does not saturate."""


class Denoiser(nn.Module):
    """A network that takes a fixed share of each image for noise."""

    def __init__(self) -> None:
        super().__init__()
        self.share = nn.Parameter(torch.tensor(0.1))

    def forward(self, noisy: Tensor, t: Tensor) -> Tensor:
        return self.share * noisy


def small_batches(count: int, size: int = 4, side: int = 8) -> Iterator[Tensor]:
    """Yield batches of a shift that drifts; the images repeat after 64 batches."""
    images = batches(64, size=size, side=side)
    for number in range(count):
        yield images[number % 64] * (0.6 + 0.4 * ((number // 64) % 5) / 4)


def collapse(method: AdaptiveClassifier) -> None:
    """Let the adapted network name one class, with certainty, whatever it sees."""
    with torch.no_grad():
        for parameter in method.model.parameters():
            if parameter.requires_grad:
                parameter.fill_(1e4)


@dataclass(frozen=True)
class Subject:
    """A method with its settings, and what shows that it adapts.

    Evidence is ``"weights"`` or ``"state"`` that changes, ``"answers"`` that differ from those of ``reference`` if
    nothing is kept from batch to batch, or ``"nothing"``.
    """

    name: str
    build: Callable[[], AdaptiveClassifier]
    evidence: str = "weights"
    reference: Callable[[], AdaptiveClassifier] = lambda: midway.Source(sharp_network())
    stream: Callable[[int], Iterator[Tensor]] = small_batches
    collapses: bool = False


def subjects() -> list[Subject]:
    """Return every method, clustered statistics, and the wrappers that keep state."""
    evidence = {"source": "nothing", "t3a": "state", "dua": "state"} | dict.fromkeys(
        ("bn", "lame", "dda", "memo"), "answers"
    )

    def method(name: str, **settings: Any) -> Callable[[], AdaptiveClassifier]:
        given = CHEAP.get(name, {"lr": 1e-4}) | settings
        if name == "dda":
            given["denoiser"] = Denoiser()
        return lambda: midway.adapt(sharp_network(), name, **given)

    without_step = {"memo": method("memo", lr=0.0)}
    chains = {"langevin_steps": 1, "buffer_size": 100}
    return [
        *(
            Subject(name, method(name), evidence.get(name, "weights"), without_step.get(name, method("source")))
            for name in names()
        ),
        Subject("mita, published", method("mita", preset="published", **chains)),
        Subject("bn, clustered statistics", method("bn", statistics="clustered"), "state"),
        Subject("tent, clustered statistics", method("tent", statistics="clustered")),
        Subject("tent, periodic", method("tent", wrap="periodic")),
        Subject("tent, window", lambda: midway.Window(method("tent")(), size=8)),
        Subject(
            "tent, guarded, ten collapses",
            lambda: midway.Guarded(midway.Tent(sharp_network(), lr=1e-4)),
            stream=lambda count: small_batches(count, size=32, side=16),
            collapses=True,
        ),
    ]


@dataclass
class Row:
    """What was measured: the first tenth and the last are compared by the second, when everything is allocated."""

    name: str
    batches: int
    milliseconds: float
    megabytes: float
    slowdown: float
    files: int
    adapted: str
    faults: list[str] = field(default_factory=list)


def endure(subject: Subject, count: int) -> Row:
    """Give a method a long stream and watch it."""
    method, reference = subject.build(), subject.reference()
    tenth = count // 10
    probe = min(PROBE, tenth // 2)
    memory, files, seconds = list[float](), list[int](), list[float]()
    duration, adapted, before = 0.0, 0, fingerprint(method, subject.evidence)
    faults: list[str] = []
    started = time.process_time()
    for number, images in enumerate(subject.stream(10 * tenth), start=1):
        logits = method(images)
        duration += time.process_time() - started
        if number % tenth == probe:
            if subject.evidence == "answers":
                adapted += not torch.allclose(logits.log_softmax(dim=1), reference(images).log_softmax(dim=1))
            elif subject.evidence != "nothing":
                adapted += differ(before, fingerprint(method, subject.evidence))
            if subject.collapses:
                collapse(method)
        if number % tenth == 0:
            if not logits.isfinite().all():
                faults.append(f"batch {number} is answered with {logits}")
            before = fingerprint(method, subject.evidence)
            seconds.append(duration / tenth)
            duration = 0.0
            memory.append(resident_megabytes())
            files.append(open_files())
        started = time.process_time()
    row = Row(
        subject.name,
        10 * tenth,
        1e3 * sum(seconds) / 10,
        memory[-1] - memory[1],
        seconds[-1] / seconds[1],
        files[-1] - files[1],
        "-" if subject.evidence == "nothing" else f"{adapted} of 10",
        faults,
    )
    faults += faults_of(row, method, subject)
    return row


def faults_of(row: Row, method: AdaptiveClassifier, subject: Subject) -> Iterator[str]:
    """Yield what is wrong after a long stream."""
    if not all(tensor.isfinite().all() for tensor in tensors_in(method.snapshot())):
        yield "the state is not finite"
    if row.adapted.startswith("0 "):
        yield "the method never adapted"
    if row.files:
        yield f"{row.files} more files are open"
    if row.megabytes > MEGABYTES:
        yield f"memory grew by {row.megabytes:.0f} MB"
    if row.batches >= 1000 and row.slowdown > SLOWDOWN:  # a tenth of a shorter stream is too short to time
        yield f"a batch takes {row.slowdown:.1f} times as long"
    if subject.collapses and method.diagnostics.get("rollbacks") != COLLAPSES:
        yield f"{method.diagnostics.get('rollbacks', 0)} of {COLLAPSES} collapses were repaired"
    first = next(subject.stream(1))
    method.reset()
    if not method(first).equal(subject.build()(first)):
        yield "a reset does not return to the source"


def fingerprint(method: AdaptiveClassifier, evidence: str) -> list[Tensor]:
    """Return copies of what shows that a method adapts."""
    if evidence == "weights":
        return [parameter.detach().clone() for parameter in method.parameters() if parameter.requires_grad]
    if evidence == "state":
        state = method.snapshot()
        values = {name: value for name, value in state["values"].items() if name not in NOT_COMPARED}
        return list(tensors_in([state["tensors"], values]))
    return []


def differ(before: list[Tensor], after: list[Tensor]) -> bool:
    return len(before) != len(after) or not all(map(torch.equal, before, after))


def tensors_in(state: Any) -> Iterator[Tensor]:
    """Yield every tensor of a piece of state."""
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, dict | list | tuple):
        for item in state.values() if isinstance(state, dict) else state:
            yield from tensors_in(item)


def resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def table(rows: list[Row]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "| method | batches | ms a batch | memory | last tenth against second | open files | adapting in | held |",
        "| --- | --: | --: | --: | --: | --: | --: | --- |",
    ]
    lines += [
        f"| {row.name} | {row.batches:,} | {row.milliseconds:.2f} | {row.megabytes:+.1f} MB | "
        f"{row.slowdown:.2f} times | {row.files:+d} | {row.adapted} | {'; '.join(row.faults) or 'yes'} |"
        for row in rows
    ]
    return "\n".join(lines)


def stored(path: Path) -> dict[str, Row]:
    """Return the stored rows, the later ones of a name."""
    lines = path.read_text().splitlines() if path.is_file() else []
    return {row.name: row for row in (Row(**json.loads(line)) for line in lines)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="the document with the table")
    parser.add_argument("--rows", help="some rows, with semicolons between them; those of others that are stored stay")
    parser.add_argument("--batches", type=int, default=int(os.environ.get("MIDWAY_BATCHES", "100000")))
    parser.add_argument("--store", type=Path, default=Path("runs/endurance.jsonl"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    known = {subject.name: subject for subject in subjects()}
    chosen = list(known) if given.rows is None else [name for name in given.rows.split(";") if name != "none"]
    given.store.parent.mkdir(parents=True, exist_ok=True)
    if given.rows is None:
        given.store.unlink(missing_ok=True)
    for name in chosen:
        row = endure(known[name], given.batches)
        with given.store.open("a") as file:
            file.write(json.dumps(asdict(row)) + "\n")
        print(table([row]).splitlines()[-1], flush=True)
    rows = stored(given.store)
    if given.write is not None:
        write_table(given.write, "the table of long streams", table([rows[name] for name in known if name in rows]))
    sys.exit(any(row.faults for row in rows.values()))


if __name__ == "__main__":
    main()
