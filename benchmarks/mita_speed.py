"""How fast is MITA here, against a plain implementation and against the passes it cannot do without?

One run on the embedded network with batches of 200. The plain implementation has the settings of the preset "printed",
the paper's algorithms as printed, and the first rows of Midway compute the same; the next have the other preset and the
defaults. Printed are time ratios, the passes counted, the time over that of just those passes (the overhead), peak
memory ratios from processes of their own, and the accuracy on the images of the run.

    python benchmarks/mita_speed.py [--batches 5] [--no-memory] [--no-bf16] [--cpu-time] [--only ROWS]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from plain_mita import PlainMITA
from rich.console import Console
from torch import Tensor, nn

import midway
from midway.adaptation.batch_norm.statistics import use_batch_statistics
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.cost.measured import measure_cost, watch_memory
from midway.functional import free_energy
from midway.streams import Batch

PLAIN, DEFAULT = "plain printed", "midway default"
OUT = Path("runs/benchmarks/mita_speed.json")
Step = Callable[[Tensor], Tensor]


def contenders(model: nn.Module) -> dict[str, Callable[[], Step]]:
    """Name -> how to make it."""
    return {
        PLAIN: lambda: PlainMITA(model),  # its defaults are those of the preset, which a test checks
        "midway printed": lambda: midway.adapt(model, "mita", preset="printed"),
        "midway printed, bf16": lambda: midway.adapt(model, "mita", preset="printed", precision="bf16"),
        "midway published": lambda: midway.adapt(model, "mita", preset="published"),
        DEFAULT: lambda: midway.MITA(model),
        "TEA, 1 step": lambda: midway.TEA(model, langevin_steps=1),
        "TENT": lambda: midway.Tent(model),
    }


def batches_for(count: int) -> list[Batch]:
    """Batches of 200 corrupted images with their labels."""
    return list(islice(midway.streams.pure(midway.data.load("cifar10-mini"), "gaussian_noise"), count))


@dataclass(frozen=True)
class BarePasses:
    """Seconds of a forward pass alone, and of one with its backward pass."""

    forward: float
    with_backward: float

    @classmethod
    def measured(cls, model: nn.Module, images: Tensor, repeats: int) -> BarePasses:
        """Time both, the backward pass to the images and to the scales and shifts in turn."""
        network = midway.Source(model).model
        use_batch_statistics(network)
        images = images.contiguous(memory_format=torch.channels_last)
        moving = freeze_all_but(network, norm_affine(network))

        def forward() -> None:
            with torch.no_grad():
                network(images)

        def to_images() -> None:
            x = images.detach().requires_grad_()
            torch.autograd.grad(free_energy(network(x)).sum(), x)

        def to_weights() -> None:
            torch.autograd.grad(free_energy(network(images)).mean(), moving)

        seconds = [median_seconds(run, repeats) for run in (forward, to_images, to_weights)]
        return cls(seconds[0], statistics.fmean(seconds[1:]))

    def seconds(self, forward_passes: float, backward_passes: float) -> float:
        """Return the time of so many passes, each backward one belonging to a forward one."""
        return (forward_passes - backward_passes) * self.forward + backward_passes * self.with_backward


def median_seconds(run: Callable[[], object], repeats: int) -> float:
    """Median time of a call, after one to warm up."""
    run()
    return statistics.median(seconds_of(run) for _ in range(repeats))


def seconds_of(run: Callable[[], object]) -> float:
    """Time of one call."""
    started = clock()
    run()
    return clock() - started


def clock() -> float:
    """Wall-clock time, or the processor time of this process where others use the machine too."""
    return time.process_time() if "--cpu-time" in sys.argv else time.perf_counter()


def run_in_turns(makers: dict[str, Callable[[], Step]], stream: list[Batch]) -> dict[str, dict[str, Any]]:
    """Median seconds per batch and accuracy; contenders take turns batch by batch, so that noise meets all alike."""
    steps = {name: make() for name, make in makers.items()}
    times: dict[str, list[float]] = {name: [] for name in steps}
    correct = dict.fromkeys(steps, 0)
    for batch in stream:
        for name, step in steps.items():
            started = clock()
            logits = step(batch.images)
            times[name].append(clock() - started)
            correct[name] += int((logits.argmax(dim=1) == batch.labels).sum())
    images = sum(len(batch.images) for batch in stream)
    return {
        name: {"seconds": statistics.median(values[1:] or values), "accuracy": 100 * correct[name] / images}
        for name, values in times.items()
    }


def peak_megabytes(name: str, batches: int) -> float:
    """Peak memory of a contender beyond the loaded network and images, in a process of its own."""
    command = [sys.executable, __file__, "--measure-memory", name, "--batches", str(batches)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure_memory(name: str, batches: int) -> None:
    """Print the growth of this process's peak memory over some batches, in MB."""
    model, stream = midway.models.load("wrn16_2.cifar10"), batches_for(batches)
    with torch.no_grad():
        model(stream[0].images[:2])
    with watch_memory(stream[0].images.device) as memory:
        step = contenders(model)[name]()
        for batch in stream:
            step(batch.images)
    print(memory.peak_mb)


def main() -> None:
    """Measure, print a Markdown table and store it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--memory", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True, help="slow where it is emulated")
    parser.add_argument("--cpu-time", action="store_true", help="processor time, where others use the machine too")
    parser.add_argument("--only", help="rows besides the plain implementation, separated by semicolons; all by default")
    parser.add_argument("--measure-memory", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure_memory:
        measure_memory(arguments.measure_memory, arguments.batches)
        return
    model, stream = midway.models.load("wrn16_2.cifar10"), batches_for(arguments.batches)
    makers = {name: make for name, make in contenders(model).items() if arguments.bf16 or "bf16" not in name}
    if arguments.only:
        makers = {name: makers[name] for name in (PLAIN, *arguments.only.split(";"))}
    rows = run_in_turns(makers, stream)
    bare = BarePasses.measured(model, stream[0].images, arguments.batches)
    memory = {name: peak_megabytes(name, arguments.batches) for name in makers} if arguments.memory else {}
    for name, make in makers.items():
        row = rows[name]
        row["times faster"] = rows[PLAIN]["seconds"] / row["seconds"]
        step = make()
        if isinstance(step, midway.AdaptiveClassifier):
            cost = measure_cost(step, stream[0].images, repeats=0)
            row |= {"forward": cost.forward_passes, "backward": cost.backward_passes}
            if "bf16" not in name:  # the bare passes are in float32
                row["overhead"] = row["seconds"] / bare.seconds(cost.forward_passes, cost.backward_passes)
        if memory:
            row["memory"] = memory[name] / memory[PLAIN]
    Console().print(as_markdown(rows), highlight=False, soft_wrap=True)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"bare passes": vars(bare), "rows": rows}, indent=1) + "\n")
    print(f"written to {OUT}")


def as_markdown(rows: dict[str, dict[str, Any]]) -> str:
    """Lay the rows out as a Markdown table."""
    formats = {
        "seconds": "{:.2f}",
        "times faster": "{:.2f}",
        "forward": "{:.4g}",
        "backward": "{:.4g}",
        "overhead": "{:.2f}",
        "memory": "{:.0%}",
        "accuracy": "{:.1f}",
    }
    lines = [f"| | {' | '.join(formats)} |", "| --- |" + " ---: |" * len(formats)]
    for name, row in rows.items():
        lines.append(f"| {name} | {' | '.join(f.format(row[k]) if k in row else '-' for k, f in formats.items())} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
