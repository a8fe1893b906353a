"""What do clustered statistics cost? Time of BN and TENT with them over that without, in one run, batch by batch.

    python benchmarks/clustered_cost.py [--batches 10] [--threads 1]

Every batch is given to all methods in turn, so a busy machine slows all alike; the medians are compared. Streams: one
kind (gaussian blur) and two (speckle noise and gaussian blur).
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import islice

import torch

import midway

SETTINGS = {"batch": {}, "clustered": {"statistics": "clustered"}, "clustered-batch": {"statistics": "clustered-batch"}}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    network, data = midway.models.load("wrn16_2.cifar10"), midway.data.load("cifar10-mini")
    streams = {
        "one kind": midway.streams.pure(data, "gaussian_blur"),
        "two kinds": midway.streams.mixture(data, "speckle_noise", "gaussian_blur"),
    }
    for title, stream in streams.items():
        for name in ("bn", "tent"):
            methods = {label: midway.adapt(network, name, **settings) for label, settings in SETTINGS.items()}
            seconds: dict[str, list[float]] = {label: [] for label in methods}
            for batch in islice(stream, arguments.batches):
                for label, method in methods.items():
                    started = time.perf_counter()
                    method(batch.images)
                    seconds[label].append(time.perf_counter() - started)
            medians = {label: statistics.median(values[1:]) for label, values in seconds.items()}
            ratios = ", ".join(f"{label} {medians[label] / medians['batch']:.3f}" for label in methods)
            print(f"{title}, {name}: {ratios} (batch statistics {1000 * medians['batch']:.0f} ms a batch)", flush=True)


if __name__ == "__main__":
    main()
