"""What does it cost to be able to undo a batch?

Before each batch a method records its state, so an error leaves it as it was. The published settings of TEA and MITA
have replay buffers of 10,000 images, 120 MB each, of which only the images that are overwritten are copied. The share
of all copies in the processor time of a call, on the embedded network with full buffers, and what complete snapshots
would take, in one run:

    python benchmarks/state_copy.py [--images 200] [--batches 2]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import wraps
from typing import Any
from unittest.mock import patch

import torch
from rich.console import Console
from rich.table import Table

import midway
from midway.methods import AdaptiveClassifier
from midway.sampling import ReplayBuffer
from midway.sampling.replay import _Overwritten

SUBJECTS = (("tea", "published"), ("mita", "published"), ("mita", "printed"), ("mita", "default"))


def fill(method: AdaptiveClassifier) -> int:
    """Fill the replay buffers of a method with noise, and return their number."""
    buffers = {id(each.buffer): each.buffer for each in vars(method).values() if hasattr(each, "buffer")}
    full = [buffer for buffer in buffers.values() if isinstance(buffer, ReplayBuffer)]
    for buffer in full:
        buffer.put(torch.arange(buffer.capacity), torch.rand(buffer.capacity, 3, 32, 32))
    return len(full)


class Stopwatch:
    """Adds up the processor time of functions."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose time is added."""

        @wraps(function)
        def timed(*arguments: Any) -> Any:
            started = time.process_time()
            try:
                return function(*arguments)
            finally:
                self.seconds += time.process_time() - started

        return timed


def measure(name: str, preset: str, images: int, batches: int) -> tuple[int, float, float, float]:
    """Return the number of buffers, and the seconds per batch of a call, of its copies, and of a snapshot."""
    settings = {} if preset == "default" else {"preset": preset}
    method = midway.adapt(midway.models.load("wrn16_2.cifar10"), name, **settings)
    stream = torch.rand(batches + 1, images, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    method(stream[0])
    buffers = fill(method)
    call, copies, snapshot = Stopwatch(), Stopwatch(), Stopwatch()
    recorded = patch.object(_Overwritten, "record", copies.around(_Overwritten.record))
    with recorded, patch.object(method, "begin_undo", copies.around(method.begin_undo)):
        for batch in stream[1:]:
            call.around(method)(batch)
    for _ in range(batches):
        snapshot.around(method.snapshot)()
    return buffers, call.seconds / batches, copies.seconds / batches, snapshot.seconds / batches


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--batches", type=int, default=2)
    options = parser.parse_args()
    table = Table("method", "buffers", "call", "copies", "share", "complete snapshot", "share")
    for name, preset in SUBJECTS:
        buffers, call, copies, snapshot = measure(name, preset, options.images, options.batches)
        shares = [f"{100 * part / (call - copies + part):.1f} %" for part in (copies, snapshot)]
        label = f"{name}, {preset}"
        table.add_row(
            label, str(buffers), f"{call:.2f} s", f"{copies:.3f} s", shares[0], f"{snapshot:.3f} s", shares[1]
        )
    Console().print(table)


if __name__ == "__main__":
    main()
