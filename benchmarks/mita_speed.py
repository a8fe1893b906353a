"""How fast is MITA here, against a plain implementation and against the passes it cannot do without?

One run on the embedded network with batches of 200 gives time ratios, the number of passes counted, time over the time
of just those passes (the overhead), and peak memory ratios from separate processes.

    python benchmarks/mita_speed.py [--batches 5] [--memory/--no-memory]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from plain_mita import PlainMITA
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import midway
from midway.functional import free_energy
from midway.methods.normalization import use_batch_statistics
from midway.methods.parameters import freeze_all_but, norm_affine

SETTINGS: dict[str, Any] = {"predictor_steps": 1, "data_model_steps": 4, "langevin_steps": 1, "data_steps": 1}
BATCH = 200
OUT = Path("runs/benchmarks/mita_speed.json")
Step = Callable[[Tensor], Tensor]


def contenders(model: nn.Module) -> dict[str, Callable[[], Step]]:
    """Name -> how to make it."""
    budget = SETTINGS["predictor_steps"] + SETTINGS["data_model_steps"]
    return {
        "plain float32": lambda: PlainMITA(model, **SETTINGS),
        "midway float32": lambda: midway.MITA(model, **SETTINGS),
        "midway bf16": lambda: midway.MITA(model, precision="bf16", **SETTINGS),
        "tea": lambda: midway.TEA(model, langevin_steps=SETTINGS["langevin_steps"]),
        "tea, mita's steps": lambda: midway.TEA(model, steps=budget, langevin_steps=SETTINGS["langevin_steps"]),
        "tent": lambda: midway.Tent(model),
    }


def images_for(batches: int) -> list[Tensor]:
    """Batches of corrupted images."""
    data = midway.data.load("cifar10-mini")
    return [batch.images for batch, _ in zip(midway.streams.pure(data, "gaussian_noise"), range(batches), strict=False)]


@dataclass
class Passes:
    """Forward and backward passes of networks, counted by hooks on their first convolution and their head."""

    forward: int = 0
    to_images: int = 0
    to_weights: int = 0


def count_passes(method: midway.Method, images: Tensor) -> Passes:
    """Run one batch and count the passes through the networks inside a method."""
    passes = Passes()
    networks = {id(n): n for n in (method.model, getattr(method, "data_model", method.model))}.values()

    def seen(network: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        passes.forward += 1
        if inputs[0].requires_grad:
            passes.to_images += 1
        elif output.requires_grad:
            passes.to_weights += 1

    handles = [network.register_forward_hook(seen) for network in networks]
    method(images)
    for handle in handles:
        handle.remove()
    return passes


def bare_passes(model: nn.Module, images: Tensor, repeats: int) -> dict[str, float]:
    """Seconds of a forward pass alone, with a backward pass to the images, and to scales and shifts."""
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

    return {run.__name__: median_seconds(run, repeats) for run in (forward, to_images, to_weights)}


def median_seconds(run: Callable[[], object], repeats: int) -> float:
    """Median time of a call, after one to warm up."""
    run()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def seconds_per_batch(makers: dict[str, Callable[[], Step]], stream: list[Tensor]) -> dict[str, float]:
    """Median seconds a batch, the contenders taking turns batch by batch so that noise meets all alike."""
    steps = {name: make() for name, make in makers.items()}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for images in stream:
        for name, step in steps.items():
            started = time.perf_counter()
            step(images)
            times[name].append(time.perf_counter() - started)
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
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step = contenders(model)[name]()
    for images in stream:
        step(images)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def main() -> None:
    """Measure, print and store."""
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
    makers = contenders(model)
    if not arguments.bf16:
        del makers["midway bf16"]
    seconds = seconds_per_batch(makers, stream)
    bare = bare_passes(model, stream[0], arguments.batches)
    memory = {name: peak_megabytes(name, arguments.batches) for name in makers} if arguments.memory else {}
    plain = "plain float32"
    table = Table("", "s/batch", "times faster", "F", "B to images", "B to weights", "overhead", "memory")
    rows = {}
    for name, make in makers.items():
        step = make()
        row: dict[str, Any] = {"seconds": seconds[name], "faster": seconds[plain] / seconds[name]}
        if isinstance(step, midway.Method):
            passes = count_passes(step, stream[0])
            plain_forward = passes.forward - passes.to_images - passes.to_weights
            needed = (
                plain_forward * bare["forward"]
                + passes.to_images * bare["to_images"]
                + passes.to_weights * bare["to_weights"]
            )
            row |= vars(passes) | {"overhead": seconds[name] / needed}
        if memory:
            row["memory"] = memory[name] / memory[plain]
        rows[name] = row
        shown = [f"{row['seconds']:.3f}", f"{row['faster']:.2f}"]
        shown += [str(row.get(key, "-")) for key in ("forward", "to_images", "to_weights")]
        shown += [f"{row['overhead']:.2f}" if "overhead" in row and "bf16" not in name else "-"]
        table.add_row(name, *shown, f"{row['memory']:.0%}" if memory else "-")
    Console().print(table)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"settings": SETTINGS, "bare passes": bare, "rows": rows}, indent=1) + "\n")
    print(f"written to {OUT}")


if __name__ == "__main__":
    main()
