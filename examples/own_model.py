"""Adapt a network and a loader of your own, and compare the methods on them.

python examples/own_model.py
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import midway
from midway.streams import to_tensor


def main(images: int) -> midway.CompareResult:
    """Compare methods on a loader and print the table."""
    # In place of these lines: your trained network, and your loader of images in [0, 1] and labels. Batches may also be
    # longer tuples, dictionaries, or images alone.
    network: nn.Module = midway.models.load("wrn16_2.cifar10")
    data = midway.data.load("cifar10-mini", corruption="gaussian_noise").first(images)
    loader = DataLoader(TensorDataset(to_tensor(data.images[:]), torch.as_tensor(data.labels)), batch_size=100)

    adapted = midway.adapt(network, "tent")  # nn.Module in, nn.Module out; the network itself never changes
    for inputs, _labels in loader:
        logits = adapted(inputs)  # adapts to this batch, without labels, and answers it
    print("the last batch has classes", sorted(set(logits.argmax(dim=1).tolist())))

    result = midway.compare(network, loader, "source,bn,tent,eata", progress=False)
    print(result)
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=600)
    main(parser.parse_args().images)
