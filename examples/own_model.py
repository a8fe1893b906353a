"""Adapt a network and a loader of your own, and compare the methods on them.

    python examples/own_model.py
"""

from __future__ import annotations

import argparse

from torch import nn
from torch.utils.data import DataLoader

import midway


def main(images: int) -> midway.CompareResult:
    """Compare methods on a loader and print the table."""
    # In place of these two lines: your trained network, and your data set of images in [0, 1] and labels.
    network: nn.Module = midway.models.load("wrn16_2.cifar10")
    data = midway.data.load("cifar10-mini", corruption="gaussian_noise").first(images)

    batches = [(batch.images, batch.labels) for batch in midway.streams.pure(data, "clean", batch_size=100)]
    loader = DataLoader(batches, batch_size=None)  # any loader of (images, labels), dictionaries, or images alone

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
