"""A program that adapts for months: 100,000 batches for each method, with flat memory, speed and open files.

Run by `make endurance`; `MIDWAY_BATCHES=5000 make endurance` is a shorter one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.methods import Method, names
from midway.testing import tiny_network

BATCHES = int(os.environ.get("MIDWAY_BATCHES", "100000"))
MEGABYTES, SLOWDOWN = 24.0, 1.6
"""What memory may grow, and what a batch may slow down, from the second tenth of the stream to the last."""

CHEAP: dict[str, dict[str, Any]] = {
    "memo": {"views": 2},
    "tea": {"langevin_steps": 1, "buffer_size": 100},
    "mita": {"langevin_steps": 1, "buffer_size": 100},
    "dua": {"copies": 2},
}

pytestmark = pytest.mark.endurance


def stream(count: int) -> Iterator[Tensor]:
    """Yield small batches of a shift that drifts; the images repeat after 64 batches."""
    generator = torch.Generator().manual_seed(0)
    images = [torch.rand(4, 3, 8, 8, generator=generator) for _ in range(64)]
    for number in range(count):
        yield images[number % 64] * (0.6 + 0.4 * ((number // 64) % 5) / 4)


def resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory and open files are read from /proc")
@pytest.mark.parametrize("name", names())
def test_a_long_stream_changes_neither_memory_nor_speed(name: str) -> None:
    method = midway.adapt(tiny_network(), name, **CHEAP.get(name, {}))
    tenth = BATCHES // 10
    memory, files, seconds = list[float](), list[int](), list[float]()
    durations: list[float] = []
    started = time.process_time()
    for number, images in enumerate(stream(BATCHES), start=1):
        logits = method(images)
        durations.append(time.process_time() - started)
        if number % tenth == 0:
            assert logits.isfinite().all()
            seconds.append(median(durations))  # other programs disturb single batches
            durations.clear()
            memory.append(resident_megabytes())
            files.append(open_files())
        started = time.process_time()
    print(f"{name}: {1e3 * median(seconds):.2f} ms a batch, {memory[-1] - memory[1]:+.1f} MB")
    assert all(tensor.isfinite().all() for tensor in _tensors(method.snapshot()))
    assert memory[-1] - memory[1] < MEGABYTES
    assert seconds[-1] < SLOWDOWN * seconds[1]
    assert files[-1] == files[1]
    method.reset()
    fresh = midway.adapt(tiny_network(), name, **CHEAP.get(name, {}))
    first = next(stream(1))
    assert method(first).equal(fresh(first))


def _tensors(state: Any) -> Iterator[Tensor]:
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, dict | list | tuple):
        for item in state.values() if isinstance(state, dict) else state:
            yield from _tensors(item)


def collapse(method: Method) -> None:
    """Let the adapted network name one class, with certainty, whatever it sees."""
    with torch.no_grad():
        for parameter in method.model.parameters():
            if parameter.requires_grad:
                parameter.fill_(1e4)


def test_a_guarded_method_recovers_from_ten_collapses(sharp_network: Callable[..., nn.Module]) -> None:
    method = midway.Guarded(midway.Tent(sharp_network(), lr=1e-4))
    every = max(10, BATCHES // 100)
    generator = torch.Generator().manual_seed(0)
    images = [torch.rand(32, 3, 16, 16, generator=generator) for _ in range(16)]
    calm = [method(batch) for batch in images]
    largest = max(logits.abs().max().item() for logits in calm)
    assert method.diagnostics.get("rollbacks", 0) == 0
    for number in range(1, 10 * every + 1):
        if number % every == 0:
            collapse(method)
        logits = method(images[number % 16])
        assert logits.isfinite().all()
        assert logits.abs().max() < 10 * largest  # those of a collapsed network are a thousand times larger
    assert method.diagnostics["rollbacks"] == 10
