"""Which statistics suit small batches? Accuracy by batch size, forward passes only.

python benchmarks/batch_sizes.py [--images 2000] [--sizes 1 2 4 ...] [--corruptions fog ...] [--precision bf16]
"""

from __future__ import annotations

import argparse
import json
import warnings

import torch
from torch import nn

import midway
from midway.bench.resources import InBf16

ROWS = ("source", "bn", "alpha", "clustered")
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 200, 500)


def accuracy(network: nn.Module, row: str, corruption: str, data: midway.data.ImageSet, size: int) -> float:
    """Return the accuracy of a stream of one corruption in percent."""
    plain = row in ("source", "bn")
    adapted = midway.adapt(network, row) if plain else midway.adapt(network, "bn", statistics=row)
    stream = midway.streams.pure(data, corruption, batch_size=size)
    correct = [int((adapted(batch.images).argmax(dim=1) == batch.labels).sum()) for batch in stream]
    return 100 * sum(correct) / len(data)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--rows", nargs="+", default=ROWS)
    parser.add_argument("--precision", choices=["float32", "bf16"], default="float32")
    parser.add_argument(
        "--corruptions", nargs="+", default=["gaussian_noise", "glass_blur", "fog", "brightness", "jpeg_compression"]
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # BN warns of single images
    data = midway.data.load("cifar10").first(arguments.images)
    network: nn.Module = midway.models.load("wrn16_2.cifar10")
    network = InBf16(network) if arguments.precision == "bf16" else network
    for row in arguments.rows:
        for size in arguments.sizes[:1] if row == "source" else arguments.sizes:  # Source does not depend on it
            found = {name: accuracy(network, row, name, data, size) for name in arguments.corruptions}
            mean = sum(found.values()) / len(found)
            print(json.dumps({"row": row, "size": size, "mean": mean, **found}), flush=True)


if __name__ == "__main__":
    main()
