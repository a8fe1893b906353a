"""Compare the result files of one plan from the local engine and from a Ray cluster of three nodes.

    python benchmarks/local_and_ray.py [--images 400] [--jobs 2]

The nodes are three Ray daemons on this machine, one processor each (needs the extra "cluster"). The two stores are
compared cell by cell, and the fields that differ are printed. Only times and memory may differ.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from midway.bench import Cell, Engine, Grid, LocalEngine, Store, run
from midway.bench.engines.ray import RayEngine
from midway.bench.store import RESULTS

OUT = Path("runs/benchmarks/local_and_ray.json")
PLAN = {
    "methods": "source,bn,tent,eata,tea(langevin_steps=1),mita",
    "scenarios": ["pure:gaussian_noise", "mixture:glass_blur/gaussian_noise", "outlier:glass_blur/gaussian_noise@0.01"],
    "batch_sizes": 100,
    "device": "cpu",
}


def lines_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the lines of a store, flattened, by the keys of their cells."""
    lines = [json.loads(line) for line in (folder / RESULTS).read_text().splitlines()]
    keys = [line["key"] for line in lines]
    assert len(set(keys)) == len(keys), "a cell was stored twice"
    return {line["key"]: _flat(line) for line in lines}


def _flat(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in content.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def differences(first: dict[str, dict[str, Any]], second: dict[str, dict[str, Any]]) -> list[str]:
    """Return the names of the fields in which any line differs.

    Example:
        >>> differences({"a": {"seconds": 1, "accuracy": 5}}, {"a": {"seconds": 2, "accuracy": 5}})
        ['seconds']
    """
    assert first.keys() == second.keys(), "the stores have different cells"
    different = {
        name
        for key, line in first.items()
        for name in line.keys() | second[key].keys()
        if line.get(name) != second[key].get(name)
    }
    return sorted(different)


@contextmanager
def three_nodes() -> Iterator[Any]:
    """Start a Ray cluster of three nodes on this machine, one processor each, and connect to it."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    memory = 100 * 2**20
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": memory})
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1, object_store_memory=memory)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def timed(cells: Sequence[Cell], engine: Engine, folder: Path) -> float:
    """Run all cells into a new store and return the seconds."""
    begun = time.perf_counter()
    with Store(folder) as store:
        tally = run(cells, store, engine)
    assert tally.finished == len(cells), tally
    return time.perf_counter() - begun


def main() -> None:
    """Run both and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    cells = Grid.from_dict({**PLAN, "images": options.images}).cells()
    with tempfile.TemporaryDirectory() as folder:
        local, cluster = Path(folder) / "local", Path(folder) / "ray"
        seconds = {"local": timed(cells, LocalEngine(jobs=options.jobs), local)}
        with three_nodes():
            seconds["ray, three nodes"] = timed(cells, RayEngine(), cluster)
        different = differences(lines_of(local), lines_of(cluster))
    console = Console()
    console.print(f"{len(cells)} cells, {options.images} images each")
    for name, taken in seconds.items():
        console.print(f"{name}: {taken:.1f} s")
    console.print(f"What differs between the two files: {', '.join(different)}")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"cells": len(cells), "seconds": seconds, "differs": different}, indent=1))


if __name__ == "__main__":
    main()
