"""What does it save to keep freed memory in the process?

The command line and its workers tell the C library to reuse large blocks (``midway._allocator``), in place of returning
them to the kernel, which clears the pages of new ones. Processor time per batch of 200 on the embedded network, without
it over with it, in processes that take turns:

    python benchmarks/freed_memory.py [--rounds 3] [--batches 5]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

import torch
from rich.console import Console
from rich.table import Table

import midway
from midway._allocator import keep_freed_memory
from midway.adaptation.precision import without_autocast_cache

METHODS = ("bn", "tent", "tea", "mita")
PRECISIONS = {"float32": torch.float32, "bf16": torch.bfloat16}


def seconds_per_batch(method: str, precision: str, batches: int) -> float:
    """Return the median processor time of a batch in this process, after two to warm up."""
    torch.set_num_threads(1)
    settings = {"langevin_steps": 1, "shared_pass": True} if method == "tea" else {}
    adapted = midway.adapt(midway.models.load("wrn16_2.cifar10"), method, **settings)
    images = torch.rand(200, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    seconds = []
    reduced = torch.autocast("cpu", PRECISIONS[precision], enabled=precision != "float32")
    with reduced, without_autocast_cache():
        for _ in range(2 + batches):
            started = time.process_time()
            adapted(images)
            seconds.append(time.process_time() - started)
    return statistics.median(seconds[2:])


def in_a_process(method: str, precision: str, batches: int, *, keep: bool) -> float:
    """Return ``seconds_per_batch`` in a process of its own."""
    command = [sys.executable, __file__, "--measure", f"{method},{precision},{int(keep)}", "--batches", str(batches)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        method, precision, keep = options.measure.split(",")
        if keep == "1":
            keep_freed_memory()
        print(seconds_per_batch(method, precision, options.batches))
        return
    if not keep_freed_memory():  # the processes that measure inherit nothing of it
        sys.exit("malloc cannot be configured here: it needs glibc, and no MALLOC_ variable in the environment.")
    table = Table("method", "precision", "returned, s", "kept, s", "ratio")
    for precision in PRECISIONS if torch.cpu._is_avx512_bf16_supported() else ["float32"]:
        for method in METHODS:
            times: dict[bool, list[float]] = {False: [], True: []}
            for _ in range(options.rounds):
                for keep in times:
                    times[keep].append(in_a_process(method, precision, options.batches, keep=keep))
            returned, kept = (statistics.median(times[keep]) for keep in (False, True))
            table.add_row(method, precision, f"{returned:.3f}", f"{kept:.3f}", f"{returned / kept:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
