"""What do mixtures lose? A method that gets each true kind of a batch by itself, the oracle.

    python benchmarks/mixture_oracle.py [--method bn] [--images 10000] [--seeds 0 1 2] [--pairs glass_blur/fog ...]
        [--precision bf16]

The images of a batch with one corruption are a batch of their own, with the seeds and positions of the streams of
``midway run``. Each kind has a method of its own: BN is the oracle of clustered statistics, and a method that updates
scales and shifts shows what those of their own for each kind could gain at most.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

import midway
from midway.bench.entries import parse_entries
from midway.bench.paper import PAIRS
from midway.bench.resources import InBf16


def oracle(network: nn.Module, method: str, pair: str, data: midway.data.ImageSet, seed: int) -> dict[str, float]:
    """Return the accuracy of all images and of each kind in percent."""
    (entry,) = parse_entries(method)
    stream = midway.streams.build(f"mixture:{pair}", data, seed=seed)
    adapted = [midway.adapt(network, entry.name, **entry.settings) for _ in stream.groups]
    correct: dict[str, list[bool]] = {name: [] for name in stream.groups}
    for batch in stream:
        for group, name in enumerate(stream.groups):
            own = batch.group == group
            correct[name] += (adapted[group](batch.images[own]).argmax(dim=1) == batch.labels[own]).tolist()
    every = [each for some in correct.values() for each in some]
    return {name: 100 * sum(some) / len(some) for name, some in {"all": every, **correct}.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="bn", help='as in a plan, such as "tent(lr=0.003)"')
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--pairs", nargs="+", default=["/".join(pair) for pair in PAIRS])
    parser.add_argument("--precision", choices=["float32", "bf16"], default="float32")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data = midway.data.load("cifar10").first(arguments.images)
    network: nn.Module = midway.models.load("wrn16_2.cifar10")
    network = InBf16(network) if arguments.precision == "bf16" else network
    for pair in arguments.pairs:
        for seed in arguments.seeds:
            accuracies = oracle(network, arguments.method, pair, data, seed)
            shown = ", ".join(f"{name} {value:.2f}" for name, value in accuracies.items())
            print(f"{pair}, seed {seed}: {shown}", flush=True)


if __name__ == "__main__":
    main()
