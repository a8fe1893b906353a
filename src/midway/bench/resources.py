"""Data sets, networks and the stream in use, each loaded once a process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import midway
from midway.bench.cell import Cell
from midway.bench.networks import load_network
from midway.data import CorruptedImages, ImageArray, ImageSet
from midway.data.datasets import REGISTRY
from midway.streams import Shifted, Stream, build

LARGEST_CACHE = 2**30
"""Bytes of a stream up to which its images are made once and kept for the next method."""


class ResourceCache:
    """Data and networks for cells, each loaded when it is first needed; the last stream is kept as well.

    Args:
        load_data: Loads a data set, as ``midway.data.load`` does.
        make_network: Loads a network by its name and the number of classes, as ``load_network`` does.

    Example:
        >>> from midway.bench import Grid, ResourceCache
        >>> cell = Grid.from_dict({"methods": "bn", "images": 400}).cells()[0]
        >>> ResourceCache().stream(cell)
        Stream('pure:gaussian_noise', 400 images in 2 batches)
    """

    def __init__(
        self,
        *,
        load_data: Callable[..., ImageSet] | None = None,
        make_network: Callable[[str, int], nn.Module] | None = None,
    ) -> None:
        self._load_data = load_data or midway.data.load
        self._make_network = make_network or load_network
        self._sets: dict[tuple[Any, ...], ImageSet] = {}
        self._networks: dict[tuple[Any, ...], nn.Module] = {}
        self._stream: tuple[tuple[Any, ...], Stream] | None = None

    def stream(self, cell: Cell) -> Stream:
        """Return the stream of a cell, its images in memory if they fit."""
        if self._stream is None or self._stream[0] != cell.stream_key:
            self._stream = None  # so that two are never in memory
            stream = self.lazy_stream(cell)
            pixels = len(stream.order) * int(np.prod(next(iter(stream.sources.values())).shape[1:]))
            self._stream = (cell.stream_key, stream.cached() if pixels <= LARGEST_CACHE else stream)
        return self._stream[1]

    def lazy_stream(self, cell: Cell) -> Stream:
        """Return the stream of a cell, its images to be made when they are due."""
        return build(cell.scenario, self._shifted(cell), batch_size=cell.batch_size, seed=cell.seed)

    def network(self, cell: Cell) -> nn.Module:
        """Return the network of a cell on its device, in its precision."""
        classes = len(self.data_set(cell).class_names)
        place = (cell.network, cell.weights, classes, cell.precision, cell.device)
        if place not in self._networks:
            network = self._make_network(cell.network, classes)
            self._networks[place] = (InBf16(network) if cell.precision == "bf16" else network).to(cell.device)
        return self._networks[place]

    def data_set(self, cell: Cell) -> ImageSet:
        """Return the images of a cell under the first of its shifts."""
        return self._shifted(cell)(cell.scenario.shifts[0], cell.scenario.severity)

    def _shifted(self, cell: Cell) -> Shifted:
        """Return the function from a shift and a severity to a cell's images."""

        def load(**which: Any) -> ImageSet:
            place = (cell.data, cell.root, cell.size, *which.items())
            if place not in self._sets:
                self._sets[place] = self._load_data(cell.data, cell.root, size=cell.size, **which)
            return arranged(self._sets[place], images=cell.images, seed=cell.seed)

        def domain(shift: str, severity: int) -> ImageSet:
            return replace(load(domain=shift), name=shift)

        def stored(shift: str, severity: int) -> ImageSet:
            return replace(load(corruption=shift, severity=severity), name=shift)

        def made(shift: str, severity: int) -> ImageSet:
            clean = load()
            if shift == "clean":
                return replace(clean, name=shift)
            corrupted = CorruptedImages(clean.images, shift, severity=severity, seed=cell.seed)
            return replace(clean, images=corrupted, name=shift)

        return {"domains": domain, "stored": stored, "computed": made}[REGISTRY[cell.data].shifts]


def arranged(data: ImageSet, *, images: int | None, seed: int) -> ImageSet:
    """Bring a set into the order of a test: as it is, but shuffled by the seed if it stands class by class.

    Folders list one class after the other, and the first images would all be of one class.

    Args:
        data: The set.
        images: Keep at most this many; None for all.
        seed: Of the shuffling.
    """
    places = np.arange(len(data))
    if len(data) > 1 and data.labels[0] != data.labels[-1] and (np.diff(data.labels) >= 0).all():
        places = np.random.default_rng((seed, len(data))).permutation(places)
    places = places[:images]
    if len(places) == len(data) and (np.diff(places) == 1).all():
        return data
    return replace(data, images=Picked(data.images, places), labels=data.labels[places])


class Picked:
    """Some images of an array in some order, read when they are asked for."""

    def __init__(self, images: ImageArray, places: NDArray[np.int64]) -> None:
        self.images, self.places = images, places

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of images, height, width, channels."""
        return (len(self.places), *tuple(self.images.shape)[1:])

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: Any, /) -> Any:
        return self.images[self.places[index]]


class InBf16(nn.Module):
    """A network that computes in bf16 and answers in float32."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits."""
        with torch.autocast(images.device.type, torch.bfloat16):
            logits: Tensor = self.network(images)
        return logits.float()
