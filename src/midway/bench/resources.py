"""Data sets, networks and the current stream, each loaded once per process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from midway.bench.cell import Cell
from midway.bench.networks import load_network
from midway.data import CorruptedImages, ImageArray, ImageSet, data_home, load
from midway.data.datasets import REGISTRY as DATA_SETS
from midway.streams import Shifted, Stream, build

LARGEST_CACHE = 2**30
"""Bytes of a stream up to which its images are computed once and kept for the next method."""


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
        load_data: Callable[..., ImageSet] = load,
        make_network: Callable[[str, int], nn.Module] = load_network,
    ) -> None:
        self._load_data, self._make_network = load_data, make_network
        self._sets: dict[tuple[Any, ...], ImageSet] = {}
        self._networks: dict[tuple[Any, ...], nn.Module] = {}
        self._stream: tuple[tuple[Any, ...], Stream] | None = None

    def stream(self, cell: Cell) -> Stream:
        """Return the stream of a cell, its images in memory if they fit."""
        if self._stream is None or self._stream[0] != cell.stream_key:
            self._stream = None  # two streams are never in memory at once
            stream = self.lazy_stream(cell)
            pixels = len(stream.order) * int(np.prod(next(iter(stream.sources.values())).shape[1:]))
            self._stream = (cell.stream_key, stream.cached() if pixels <= LARGEST_CACHE else stream)
        return self._stream[1]

    def lazy_stream(self, cell: Cell) -> Stream:
        """Return the stream of a cell; its images are computed when they are read."""
        return build(cell.scenario, self._shifted(cell), batch_size=cell.batch_size, seed=cell.seed)

    def network(self, cell: Cell) -> nn.Module:
        """Return the network of a cell on its device, in its precision."""
        classes = len(self.data_set(cell).class_names)
        key = (cell.network, cell.weights, classes, cell.precision, cell.device)
        if key not in self._networks:
            network = self._make_network(cell.network, classes)
            self._networks[key] = (InBf16(network) if cell.precision == "bf16" else network).to(cell.device)
        return self._networks[key]

    def data_set(self, cell: Cell) -> ImageSet:
        """Return the images of a cell under the first of its shifts."""
        return self._shifted(cell)(cell.scenario.shifts[0], cell.scenario.severity)

    def _shifted(self, cell: Cell) -> Shifted:
        """Return the function from a shift and a severity to the images of a cell."""
        shifts = DATA_SETS[cell.data].shifts

        def read(**which: Any) -> ImageSet:
            key = (cell.data, cell.root, cell.size, *which.items())
            if key not in self._sets:
                self._sets[key] = self._load_data(cell.data, cell.root, size=cell.size, **which)
            return arranged(self._sets[key], images=cell.images, seed=cell.seed)

        def shifted(shift: str, severity: int) -> ImageSet:
            if shifts == "domains":
                return replace(read(domain=shift), name=shift)
            if shifts == "stored":
                return replace(read(corruption=shift, severity=severity), name=shift)
            clean = replace(read(), name=shift)
            if shift == "clean":
                return clean
            return replace(clean, images=CorruptedImages(clean.images, shift, severity=severity, seed=cell.seed))

        return shifted


def check_data(cells: Iterable[Cell], resources: ResourceCache, *, load_pixels: bool = True) -> None:
    """Raise before a run begins if a data set is missing.

    Args:
        cells: The cells about to run.
        resources: Keeps what is loaded, for the cells that run in this process.
        load_pixels: Load every data set. Otherwise data sets whose files exist are only opened if that reads no images.

    Raises:
        FileNotFoundError: A data set is missing; the message says how to get it.
        ValueError: A data set is damaged.
    """
    for cell in {(cell.data, cell.root, cell.size): cell for cell in cells}.values():
        folder = data_home() / cell.data if cell.root is None else Path(cell.root)
        reads_lazily = bool({"corruption", "size"} & DATA_SETS[cell.data].arguments)
        if load_pixels or reads_lazily or not (folder.is_dir() and any(folder.iterdir())):
            resources.data_set(cell)


def arranged(data: ImageSet, *, images: int | None, seed: int) -> ImageSet:
    """Return a set in the order of a test: shuffled by the seed if its images are sorted by class.

    Folders list one class after the other, so the first images would all be of one class.

    Args:
        data: The set.
        images: Keep at most this many; None for all.
        seed: Seed of the shuffling.
    """
    indices = np.arange(len(data))
    if len(data) > 1 and data.labels[0] != data.labels[-1] and (np.diff(data.labels) >= 0).all():
        indices = np.random.default_rng((seed, len(data))).permutation(indices)
    indices = indices[:images]
    if len(indices) == len(data) and (np.diff(indices) == 1).all():
        return data
    return replace(data, images=Picked(data.images, indices), labels=data.labels[indices])


class Picked:
    """Some images of an array in some order, read when they are asked for."""

    def __init__(self, images: ImageArray, indices: NDArray[np.int64]) -> None:
        self.images, self.indices = images, indices

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of images, height, width, channels."""
        return (len(self.indices), *tuple(self.images.shape)[1:])

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any, /) -> Any:
        return self.images[self.indices[index]]


class InBf16(nn.Module):
    """A network that computes in bf16 and returns float32."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits."""
        with torch.autocast(images.device.type, torch.bfloat16):
            logits: Tensor = self.network(images)
        return logits.float()
