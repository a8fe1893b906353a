"""How fast is MITA here, against a plain implementation and against the passes it cannot do without?

One run on the embedded network with batches of 200. The plain implementation and Midway's first rows have the same
hyper-parameters, the algorithm as published; the last rows are what measurement let us leave out (the chains'
last step shares the pass of the update; one larger step of the data model instead of four). Printed are time ratios,
the passes counted, the time over that of just those passes (the overhead), and peak memory ratios from processes of
their own.

    python benchmarks/mita_speed.py [--batches 5] [--no-memory] [--no-bf16]
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
from midway.adaptation.normalization import use_batch_statistics
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.cost import measure_cost, watch_memory
from midway.functional import free_energy

PAPER: dict[str, Any] = {
    "predictor_steps": 1,
    "data_model_steps": 4,
    "langevin_steps": 1,
    "data_steps": 1,
    "gradient_filter": None,
    "data_model_lr": None,
    "shared_pass": False,
}
PLAIN = "plain float32"
OUT = Path("runs/benchmarks/mita_speed.json")
Step = Callable[[Tensor], Tensor]


def contenders(model: nn.Module) -> dict[str, Callable[[], Step]]:
    """Name -> how to make it."""
    return {
        PLAIN: lambda: PlainMITA(model, **PAPER),
        "midway float32": lambda: midway.MITA(model, **PAPER),
        "midway bf16": lambda: midway.MITA(model, precision="bf16", **PAPER),
        "midway, shared pass": lambda: midway.MITA(model, **(PAPER | {"shared_pass": True})),
        "midway, defaults": lambda: midway.MITA(model),
        "TEA, 1 step": lambda: midway.TEA(model, langevin_steps=1),
        "TENT": lambda: midway.Tent(model),
    }


def images_for(batches: int) -> list[Tensor]:
    """Batches of 200 corrupted images."""
    stream = midway.streams.pure(midway.data.load("cifar10-mini"), "gaussian_noise")
    return [batch.images for batch in islice(stream, batches)]


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
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def seconds_per_batch(makers: dict[str, Callable[[], Step]], stream: list[Tensor]) -> dict[str, float]:
    """Median seconds per batch, the contenders taking turns batch by batch so that noise meets all alike."""
    steps = {name: make() for name, make in makers.items()}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for images in stream:
        for name, step in steps.items():
            times[name].append(seconds_of(lambda step=step, images=images: step(images)))  # type: ignore[misc]
    return {name: statistics.median(values[1:] or values) for name, values in times.items()}


def peak_megabytes(name: str, batches: int) -> float:
    """Peak memory of a contender beyond the loaded network and images, in a process of its own."""
    command = [sys.executable, __file__, "--measure-memory", name, "--batches", str(batches)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure_memory(name: str, batches: int) -> None:
    """Print the growth of this process's peak memory over some batches, in MB."""
    model, stream = midway.models.load("wrn16_2.cifar10"), images_for(batches)
    with torch.no_grad():
        model(stream[0][:2])
    with watch_memory(stream[0].device) as memory:
        step = contenders(model)[name]()
        for images in stream:
            step(images)
    print(memory.peak_mb)


def main() -> None:
    """Measure, print a Markdown table and store it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--memory", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True, help="slow where it is emulated")
    parser.add_argument("--measure-memory", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure_memory:
        measure_memory(arguments.measure_memory, arguments.batches)
        return
    model, stream = midway.models.load("wrn16_2.cifar10"), images_for(arguments.batches)
    makers = {name: make for name, make in contenders(model).items() if arguments.bf16 or "bf16" not in name}
    seconds = seconds_per_batch(makers, stream)
    bare = BarePasses.measured(model, stream[0], arguments.batches)
    memory = {name: peak_megabytes(name, arguments.batches) for name in makers} if arguments.memory else {}
    rows: dict[str, dict[str, Any]] = {}
    for name, make in makers.items():
        row = rows[name] = {"seconds": seconds[name], "times faster": seconds[PLAIN] / seconds[name]}
        step = make()
        if isinstance(step, midway.Method):
            cost = measure_cost(step, stream[0][:20], repeats=0)
            row |= {"forward": cost.forward_passes, "backward": cost.backward_passes}
            if "bf16" not in name:  # the bare passes are in float32
                row["overhead"] = seconds[name] / bare.seconds(cost.forward_passes, cost.backward_passes)
        if memory:
            row["memory"] = memory[name] / memory[PLAIN]
    Console().print(as_markdown(rows), highlight=False, soft_wrap=True)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"paper settings": PAPER, "bare passes": vars(bare), "rows": rows}, indent=1) + "\n")
    print(f"written to {OUT}")


def as_markdown(rows: dict[str, dict[str, Any]]) -> str:
    """Lay the rows out as a Markdown table."""
    formats = {
        "seconds": "{:.2f}",
        "times faster": "{:.2f}",
        "forward": "{:.0f}",
        "backward": "{:.0f}",
        "overhead": "{:.2f}",
        "memory": "{:.0%}",
    }
    lines = [f"| | {' | '.join(formats)} |", "| --- |" + " ---: |" * len(formats)]
    for name, row in rows.items():
        lines.append(f"| {name} | {' | '.join(f.format(row[k]) if k in row else '-' for k, f in formats.items())} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
