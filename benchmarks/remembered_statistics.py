"""What is a memory of statistics worth? Images of one kind that come one by one, against batches of that kind.

    python benchmarks/remembered_statistics.py [--corruptions speckle_noise ...] [--images 2000] [--streams 40]

Several streams of single images run side by side. Every image is normalised with its own statistics and those that the
earlier images of its stream had in the same layer, averaged; the source counts as three images, as in clustered
statistics. Beside them are the same images, every stream as one batch. In a batch the statistics of a layer are those
of images that all layers before have normalised alike, so each layer corrects the errors of those before it; remembered
statistics come from images that were normalised a little differently.
"""

from __future__ import annotations

import argparse
import copy
import json
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

import midway

PRIOR = 3


class Normalise(nn.Module, ABC):
    """A BatchNorm layer with the statistics that ``_statistics`` gives each image; the source is a prior."""

    def __init__(self, layer: nn.BatchNorm2d) -> None:
        super().__init__()
        self.layer, self.number = layer, 0
        self.mean = self.var = torch.zeros(())

    @abstractmethod
    def _statistics(self, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor, int]:
        """Return mean and variance for each image, and the number of images that they are of."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the images."""
        layer = self.layer
        assert layer.running_mean is not None
        assert layer.running_var is not None
        mean, var, number = self._statistics(x.mean(dim=(2, 3)), x.var(dim=(2, 3), correction=0))
        share = number / (number + PRIOR)
        mean = torch.lerp(layer.running_mean.expand_as(mean), mean, share)
        var = torch.lerp(layer.running_var.expand_as(var), var, share)
        scale = layer.weight * (var + layer.eps).rsqrt()
        return torch.addcmul((layer.bias - mean * scale)[..., None, None], x, scale[..., None, None])


class Remembered(Normalise):
    """Every row is a stream: the statistics of an image and of the earlier ones of its stream."""

    def _statistics(self, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor, int]:
        self.number += 1
        difference = mean - self.mean
        self.mean = self.mean + difference / self.number
        between = difference.square() * (self.number - 1) / self.number
        self.var = self.var + (var + between - self.var) / self.number
        return self.mean, self.var, self.number


class Joint(Normalise):
    """The rows are a batch."""

    def _statistics(self, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor, int]:
        whole = mean.mean(dim=0)
        return whole[None], (var + (mean - whole).square()).mean(dim=0)[None], len(mean)


def with_layers(network: nn.Module, kind: Callable[[nn.BatchNorm2d], nn.Module]) -> nn.Module:
    """Return a copy of a network with other normalisation layers."""
    network = copy.deepcopy(network).eval()
    for name, layer in list(network.named_modules()):
        if isinstance(layer, nn.BatchNorm2d):
            parent, _, child = name.rpartition(".")
            setattr(network.get_submodule(parent), child, kind(layer))
    return network


@torch.no_grad()
def accuracies(network: nn.Module, images: Tensor, labels: Tensor, streams: int) -> dict[str, float]:
    """Return the accuracy of the images by their position in their stream, with both statistics."""
    length = len(images) // streams
    rows = torch.arange(streams * length).view(streams, length)
    remembered, joint = with_layers(network, Remembered), with_layers(network, Joint)
    answers = {
        "remembered": torch.stack([remembered(images[row]).argmax(dim=1) for row in rows.T], dim=1),
        "in one batch": torch.stack([joint(images[row]).argmax(dim=1) for row in rows]),
    }
    return {
        f"{first} to {last}, {name}": 100 * (answer == labels[rows])[:, first - 1 : last].double().mean().item()
        for first, last in ((1, 5), (6, 15), (16, 25), (26, 50))
        for name, answer in answers.items()
        if last <= length
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corruptions", nargs="+", default=["speckle_noise", "gaussian_blur", "spatter", "saturate"])
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--streams", type=int, default=40)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    network = midway.models.load("wrn16_2.cifar10")
    data = midway.data.load("cifar10").first(arguments.images)
    for name in arguments.corruptions:
        batches = list(midway.streams.pure(data, name))
        images, labels = (torch.cat(parts) for parts in zip(*((b.images, b.labels) for b in batches), strict=True))
        found = accuracies(network, images, labels, arguments.streams)
        print(json.dumps({"corruption": name, **{key: round(value, 1) for key, value in found.items()}}), flush=True)


if __name__ == "__main__":
    main()
