"""How accurate are the answers to lone outliers? A thousand of them for each pair of the paper, forward passes only.

    python benchmarks/many_outliers.py [--pairs glass_blur/gaussian_noise ...] [--statistics batch clustered ...]

An outlier stream of 10,000 images has 50 outliers, one in each batch of 200, and the other 9,950 images cost nearly all
of the time. Here several streams differ in the outlier alone: in each of them another image of the batch has the
outlier's corruption, and each has kinds and memories of its own. One pass computes a batch for all of them, the images
of the batch and the outliers of all streams together. Every layer computes the statistics of each stream from its own
200 images, and each outlier is normalised with those of its stream; the other images, which all streams share, with
those of the first one. The only approximation is that the outlier of another stream than the first acts on the other
images, and through them on itself in later layers, as the first one does (one image in 200). With ``--streams 1`` the
answers are those of ``midway run``.
"""

from __future__ import annotations

import argparse
import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

import midway
from midway.adaptation.batch_norm.alpha import AlphaBatchNorm
from midway.adaptation.batch_norm.by_name import with_statistics
from midway.adaptation.batch_norm.cluster_state import ClusterTracker
from midway.adaptation.batch_norm.normalize_by_image import _moments
from midway.adaptation.batch_norm.replaced_statistics import BatchObserver, observers_of
from midway.bench.paper import PAIRS


class ForStreams(nn.Module):
    """A normalisation layer for the images of a batch and the outliers of several streams.

    Args:
        layers: The layer of each stream.
        batch: Which images of the batch the outliers replace; shared by all layers.
    """

    def __init__(self, layers: list[Any], batch: dict[str, Any]) -> None:
        super().__init__()
        self.layers, self.batch = layers, batch

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the outliers with the statistics of their streams, the others with those of the first."""
        replaced = self.batch["replaced"]
        count = len(x) - len(replaced)
        mean, var = _moments(x, torch.float32)
        scale, shift = torch.empty_like(mean), torch.empty_like(mean)
        for stream, (layer, index) in reversed(list(enumerate(zip(self.layers, replaced, strict=True)))):
            own = torch.arange(count)
            own[index] = count + stream
            s, b = self._of_stream(layer, mean[own], var[own], x[0, 0].numel())
            scale[count + stream], shift[count + stream] = s[index], b[index]
            if stream <= 1:  # the second one has the image that the first one's outlier replaces
                others = own[own < count]
                scale[others], shift[others] = s[own < count], b[own < count]
        if len(replaced) == 1:
            scale[replaced[0]], shift[replaced[0]] = scale[count], shift[count]  # not used
        return torch.addcmul(shift[..., None, None], x, scale[..., None, None])

    def _of_stream(self, layer: Any, mean: Tensor, var: Tensor, pixels: int) -> tuple[Tensor, Tensor]:
        centre = mean.mean(dim=0)
        mean = mean - centre
        square = var + mean.square()
        if hasattr(layer, "scale_and_shift"):
            scale, shift = layer.scale_and_shift(mean, square, centre, layer.weight, layer.bias)
            return scale, shift - centre * scale
        whole = square.mean(dim=0)  # the mean is 0, relative to the centre
        if isinstance(layer, AlphaBatchNorm):
            values = len(mean) * pixels
            centre = torch.lerp(layer.source_mean, centre, layer.share)
            whole = torch.lerp(layer.source_var, whole * values / (values - 1), layer.share)
        scale = layer.weight * (whole + layer.eps).rsqrt()
        return scale.expand_as(mean), (layer.bias - centre * scale).expand_as(mean)


def network_for_streams(
    network: nn.Module, statistics: str, streams: int
) -> tuple[nn.Module, list[list[BatchObserver]], dict[str, Any]]:
    """Return a network for several streams, the observers of each stream, and the record of the present batch."""
    if statistics == "batch":
        networks = [copy.deepcopy(network) for _ in range(streams)]
    else:
        networks = [with_statistics(network, statistics) for _ in range(streams)]
    observers: list[list[BatchObserver]] = [observers_of(each) for each in networks]
    batch: dict[str, Any] = {}
    host = copy.deepcopy(network)
    for name, layer in list(host.named_modules()):
        if isinstance(layer, _BatchNorm):
            parent, _, child = name.rpartition(".")
            layers = [each.get_submodule(name) for each in networks]
            setattr(host.get_submodule(parent), child, ForStreams(layers, batch))
    return host.eval(), observers, batch


def begin(observers: list[Any], images: Tensor) -> None:
    """Tell the observers of a stream that a batch begins, and that all passes are over it."""
    for observer in observers:
        observer.managed, observer.images = True, images
        observer.begin_batch()
        if isinstance(observer, ClusterTracker):
            observer.current = observer.batch
        else:
            observer.updating = True


@torch.no_grad()
def outlier_answers(network: nn.Module, statistics: str, pair: tuple[str, str], data: Any, streams: int) -> list[bool]:
    """Return for each outlier whether the answer is correct, batch after batch, all streams of a batch together."""
    outliers, others = (midway.streams.pure(data, shift) for shift in pair)
    correct: list[bool] = []
    host, observers, batch = network_for_streams(network, "batch" if statistics == "source" else statistics, streams)
    host = network if statistics == "source" else host
    for number, (first, second) in enumerate(zip(outliers, others, strict=True)):
        replaced = np.random.default_rng((0, number)).choice(len(first.images), streams, replace=False).tolist()
        batch["replaced"] = replaced
        for index, own in zip(replaced, observers, strict=False):
            images = second.images.clone()
            images[index] = first.images[index]
            begin(own, images)
        images = first.images[replaced]
        images = images if statistics == "source" else torch.cat([second.images, images])
        logits = host(images.contiguous(memory_format=torch.channels_last))[-streams:]
        correct += (logits.argmax(dim=1) == first.labels[replaced]).tolist()
    return correct


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", nargs="+", default=["/".join(pair) for pair in PAIRS])
    parser.add_argument("--statistics", nargs="+", default=["source", "batch", "alpha", "unmix", "clustered"])
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--out", type=Path, help="file to append the results to, as lines of JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    network = midway.models.load("wrn16_2.cifar10").eval()
    data = midway.data.load("cifar10").first(arguments.images)
    for pair in arguments.pairs:
        for statistics in arguments.statistics:
            correct = outlier_answers(
                network, statistics, (pair.partition("/")[0], pair.partition("/")[2]), data, arguments.streams
            )
            half = len(correct) // 2
            row = {
                "pair": pair,
                "statistics": statistics,
                "outliers": len(correct),
                "accuracy": 100 * sum(correct) / len(correct),
                "second_half": 100 * sum(correct[half:]) / (len(correct) - half),
            }
            print(json.dumps(row), flush=True)
            if arguments.out is not None:
                with arguments.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
