"""What does EATA save by going back through the selected images alone?

A step (forward, selection, backward) on a ResNet-20 with GroupNorm, where images do not depend on each other, at
several shares of selected images: the backward pass over the whole batch against a second pass over the selected. The
times are processor time, the best of a few runs, in turn.

    python benchmarks/eata_speed.py [--images 100] [--repeats 5]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import midway
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.functional import entropy

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.75)


def group_norm_network() -> nn.Module:
    """Make a ResNet-20 whose BatchNorm layers are GroupNorm layers of four groups."""
    network = midway.models.create("resnet20")
    for name, module in list(network.named_modules()):
        if isinstance(module, nn.BatchNorm2d):
            parent, _, child = name.rpartition(".")
            setattr(network.get_submodule(parent), child, nn.GroupNorm(4, module.num_features))
    return network.eval()


def seconds(step: Callable[[], object]) -> float:
    """Processor time of one call."""
    started = time.process_time()
    step()
    return time.process_time() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    network = group_norm_network()
    moving = freeze_all_but(network, norm_affine(network))
    images = torch.rand(options.images, 3, 32, 32)

    def whole(count: int) -> tuple[Tensor, ...]:
        return torch.autograd.grad(entropy(network(images)[:count]).mean(), moving)

    def selected(count: int) -> tuple[Tensor, ...]:
        network(images)
        return torch.autograd.grad(entropy(network(images[:count])).mean(), moving)

    table = Table(
        "share selected",
        "whole batch, s",
        "selected alone, s",
        "times faster",
        "largest gradient",
        "largest difference",
    )
    for share in SHARES:
        count = max(1, round(share * options.images))
        plain = whole(count)
        largest = max(gradient.abs().max().item() for gradient in plain)
        difference = max((a - b).abs().max().item() for a, b in zip(plain, selected(count), strict=True))
        times = [(seconds(partial(whole, count)), seconds(partial(selected, count))) for _ in range(options.repeats)]
        slow, fast = (min(column) for column in zip(*times, strict=True))
        figures = (f"{share:.0%}", f"{slow:.3f}", f"{fast:.3f}", f"{slow / fast:.2f}")
        table.add_row(*figures, f"{largest:.1e}", f"{difference:.1e}")
    Console().print(table)


if __name__ == "__main__":
    main()
