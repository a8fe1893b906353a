"""What do the paper's full tables take on one core, on eight GPUs and on 100 nodes, and what stops it being faster?

    python benchmarks/simulate_cluster.py [--images 200] [--compare-images 400] [--repeats 1] [--costs FILE]

1. Costs. CPU seconds of one batch of 200 images for every method on the embedded network, on one thread, after a
   warm-up: CPU seconds, so that other work on the machine does not count. MEMO is timed on a tenth of the images.
   On WRN-28-10 the cost is that times the measured ratio of a forward pass of both networks.
   No GPU is measured. The GPU cost is passes counted here times the paper's seconds for a batch of 200 on one A800:
   0.03 for a forward pass (its Source), 0.04 for a backward pass (its TENT less its Source). That gives its TEA, 0.24,
   exactly. Its MEMO is slower than its passes, so twice its 12.8 for 16 views is taken for 32.
2. The model against reality. A small plan is run by one process, then by two; the simulation gets the times of the
   first run, and the start of a worker from a run of two tiny cells, and predicts the second.
3. The paper's tables. Workers take cells in the order of the plan, or the longest first; results pass through the
   driver one after the other, which stores them. A worker's start and the driver's work on a result are measured.
"""

from __future__ import annotations

import argparse
import heapq
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from midway.bench import Cell, Grid, LocalEngine, Record, ResourceCache, Store, run_cell
from midway.bench.engines.base import using_threads
from midway.bench.suites import SUITES, suite
from midway.cli.terminal import show_duration
from midway.cost.measured import count_passes
from midway.models import create, load

OUT = Path("runs/benchmarks/simulate_cluster.json")
BATCH, BATCHES = 200, 50  # 10,000 images
GPU_FORWARD, GPU_BACKWARD = 0.03, 0.07 - 0.03  # the paper's seconds for 200 images, WRN-28-10, one A800
GPU_MEMO = 2 * 12.80  # its 16 views
SETUPS = {"1 core": 1, "100 nodes, 1 cell each": 100, "100 nodes, 8 cells each": 800}


@dataclass(frozen=True)
class Prediction:
    """How a run of cells goes.

    Attributes:
        seconds: From the start until the last result is stored.
        busy: Share of the workers' time that they compute.
    """

    seconds: float
    busy: float


def simulate(
    cells: Sequence[float], workers: int, *, start: float = 0.0, store: float = 0.0, longest_first: bool = False
) -> Prediction:
    """Hand cells to workers as an engine does.

    Args:
        cells: Seconds each takes.
        workers: How many run at a time.
        start: Seconds until a worker takes its first cell.
        store: Seconds the driver is busy with each result.
        longest_first: Instead of in the order given.

    Example:
        >>> simulate([4.0, 4.0, 4.0, 12.0], 2), simulate([4.0, 4.0, 4.0, 12.0], 2, longest_first=True).seconds
        (Prediction(seconds=16.0, busy=0.75), 12.0)
    """
    free = [start] * min(workers, len(cells))  # when each worker is free again
    finished = []
    for seconds in sorted(cells, reverse=True) if longest_first else cells:
        finished.append(free[0] + seconds)
        heapq.heapreplace(free, free[0] + seconds)
    driver = 0.0
    for moment in sorted(finished):
        driver = max(driver, moment) + store
    return Prediction(driver, sum(cells) / (workers * driver))


@dataclass(frozen=True)
class BatchCost:
    """Cost of a batch of 200 images: CPU seconds on the embedded network, and passes per image."""

    cpu_seconds: float
    forward: float
    backward: float

    @property
    def gpu_seconds(self) -> float:
        """Seconds on one A800 with WRN-28-10, by the paper's own times of a pass."""
        return GPU_FORWARD * self.forward + GPU_BACKWARD * self.backward


def measure_cost(cell: Cell, resources: ResourceCache, images: int, repeats: int) -> BatchCost:
    """Time one batch of a cell, the fastest of a few, and count its passes on a few images."""
    batch = next(iter(resources.stream(cell))).images[:images]
    with using_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method = resources.method(cell)
        few = batch[: min(20, len(batch))]
        method(few)
        with count_passes(method) as passes:
            method(few)
        seconds = []
        for _ in range(repeats):
            method.reset()
            started = time.process_time()
            method(batch)
            seconds.append(time.process_time() - started)
    return BatchCost(min(seconds) * BATCH / len(batch), passes.forward / len(few), passes.backward / len(few))


def paper_cells(seconds: dict[str, float], *, without: Sequence[str] = ()) -> list[float]:
    """Return the seconds of every cell of the paper's tables, in the order of the plans; CIFAR-100 has the pure one."""
    names = [name for name in SUITES for _ in range(2 if name == "pure" else 1)]
    return [
        BATCHES * seconds[entry.label]
        for name in names
        for _ in suite(name).scenarios
        for entry in suite(name).entries
        if entry.label not in without
    ]


def entries() -> str:
    """Return every entry of the paper's tables once, as a plan has them."""
    found = {entry.label: entry for name in SUITES for entry in suite(name).entries}
    written = []
    for entry in found.values():
        settings = "".join(f"{key}={value!r}, " for key, value in entry.settings.items())
        written.append(f"{entry.name}({settings}label={entry.label!r})")
    return ",".join(written)


def measure_costs(images: int, repeats: int) -> dict[str, BatchCost]:
    """Measure every entry of the paper's tables on the embedded network."""
    resources = ResourceCache()
    plan = {"methods": entries(), "scenarios": "pure:gaussian_noise", "images": BATCH, "device": "cpu"}
    return {
        cell.label: measure_cost(cell, resources, max(4, images // 10) if cell.method == "memo" else images, repeats)
        for cell in Grid.from_dict(plan).cells()
    }


def network_ratio(images: int = 10) -> float:
    """Return how much longer a forward pass takes on WRN-28-10 than on the embedded network."""
    batch = torch.rand(images, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    seconds = []
    with using_threads(1), torch.inference_mode():
        for network in (load("wrn16_2.cifar10"), create("wide_resnet", depth=28, width=10)):
            network.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            network(batch)
            started = time.process_time()
            network(batch)
            seconds.append(time.process_time() - started)
    return seconds[1] / seconds[0]


def start_seconds() -> float:
    """Return the CPU seconds a worker needs before its first cell: Python, torch, midway, network and data."""
    code = (
        "import time, midway; midway.models.load('wrn16_2.cifar10'); midway.data.load('cifar10-mini');"
        "print(time.process_time())"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(answer.stdout)


def store_seconds(record: Record, count: int = 50) -> float:
    """Return the seconds that the driver needs to put a result on the disk."""
    with tempfile.TemporaryDirectory(dir=".") as folder, Store(Path(folder)) as store:
        started = time.perf_counter()
        for _ in range(count):
            store.add(record, command="")
        return (time.perf_counter() - started) / count


def compare(images: int) -> dict[str, float]:
    """Run a small plan with one process and with two, and predict the second from the first."""
    plan = {"methods": "source,bn,tent,mita", "scenarios": ["pure:fog", "pure:contrast"], "images": images}
    cells = Grid.from_dict({**plan, "device": "cpu"}).cells()
    started = time.perf_counter()
    alone = list(LocalEngine().run(cells))
    one = time.perf_counter() - started
    tiny = Grid.from_dict({**plan, "methods": "source", "images": 4, "device": "cpu"}).cells()
    started = time.perf_counter()
    working = [record.seconds for record in LocalEngine(jobs=2).run(tiny)]
    begin = time.perf_counter() - started - max(working)
    started = time.perf_counter()
    list(LocalEngine(jobs=2).run(cells))
    two = time.perf_counter() - started
    predicted = simulate([record.seconds for record in alone], 2, start=begin).seconds
    return {"one process": one, "two processes": two, "start of a worker": begin, "predicted": predicted}


def main() -> None:
    """Measure, simulate, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=BATCH, help="images to time a batch on")
    parser.add_argument("--compare-images", type=int, default=400, help="images of the cells of step 2")
    parser.add_argument("--repeats", type=int, default=1, help="the fastest of this many counts")
    parser.add_argument("--costs", type=Path, help="read the costs of an earlier run from its file")
    arguments = parser.parse_args()
    console = Console()

    stored = json.loads(arguments.costs.read_text()) if arguments.costs else None
    if stored is not None:
        costs = {label: BatchCost(**found) for label, found in stored["costs"].items()}
        ratio, start, store = (
            stored[key] for key in ("WRN-28-10 over embedded", "start of a worker", "storing a result")
        )
    else:
        costs = measure_costs(arguments.images, arguments.repeats)
        ratio, start = network_ratio(), start_seconds()
        (cell,) = Grid.from_dict({"methods": "source", "images": BATCH, "device": "cpu"}).cells()
        store = store_seconds(run_cell(cell, ResourceCache()))
    on_gpu = {label: cost.gpu_seconds for label, cost in costs.items()} | {"memo": GPU_MEMO}
    shown = Table("entry", "CPU s per batch", "forward", "backward", "A800 s per batch, estimated")
    for label, found in costs.items():
        passes = (f"{found.forward:.1f}", f"{found.backward:.1f}")
        shown.add_row(label, f"{found.cpu_seconds:.2f}", *passes, f"{on_gpu[label]:.2f}")
    console.print(shown)
    console.print(
        f"WRN-28-10 takes {ratio:.1f} times as long. A worker starts in {start:.1f} CPU s; storing a result takes "
        f"{1000 * store:.1f} ms."
    )

    reality = compare(arguments.compare_images)
    error = 100 * (reality["predicted"] / reality["two processes"] - 1)
    console.print({name: round(value, 1) for name, value in reality.items()}, f"prediction off by {error:+.0f} %")

    embedded = {label: found.cpu_seconds for label, found in costs.items()}
    on_cpu = {label: ratio * seconds for label, seconds in embedded.items()}
    tables = [
        ("embedded network", embedded, SETUPS),
        ("WRN-28-10", on_cpu, SETUPS),
        ("WRN-28-10", on_gpu, {"1 A800, estimated": 1, "8 A800, estimated": 8}),
    ]
    predictions = []
    shown = Table("network", "setup", "rows", "cells", "time", "busy", "longest first", "longest cell")
    for network, seconds, setups in tables:
        for without in ((), ("memo",)):
            cells = paper_cells(seconds, without=without)
            rows = "without MEMO" if without else "all"
            for setup, workers in setups.items():
                plain = simulate(cells, workers, start=start, store=store)
                longest = simulate(cells, workers, start=start, store=store, longest_first=True)
                times = (show_duration(plain.seconds), f"{100 * plain.busy:.0f} %", show_duration(longest.seconds))
                shown.add_row(network, setup, rows, str(len(cells)), *times, show_duration(max(cells)))
                predictions.append(
                    {"network": network, "setup": setup, "rows": rows, "cells": len(cells), "longest cell": max(cells)}
                    | {"plan order": asdict(plain), "longest first": asdict(longest)}
                )
    console.print(shown)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "costs": {label: asdict(found) for label, found in costs.items()},
        "WRN-28-10 over embedded": ratio,
        "start of a worker": start,
        "storing a result": store,
        "two processes": reality,
        "predictions": predictions,
    }
    OUT.write_text(json.dumps(content, indent=1) + "\n")
    console.print(f"Stored in {OUT}")


if __name__ == "__main__":
    main()
