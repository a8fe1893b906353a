"""Streams: labelled images in batches, each image from one of a few groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from midway.data.image_set import ImageArray, ImageSet, check_pixels
from midway.data.lazy_images import read_ahead

Data = ImageSet | tuple[ImageArray, NDArray[np.int64]]
"""A data set, or a pair of images (N, H, W, C) uint8 and labels (N,)."""


@dataclass(frozen=True)
class Batch:
    """A batch of a stream.

    Attributes:
        images: float32 (n, C, H, W) in [0, 1], channels-last.
        labels: int64 (n,); methods do not receive them.
        group: int64 (n,), the index of each image's group in ``Stream.groups``.
    """

    images: Tensor
    labels: Tensor
    group: Tensor

    def __len__(self) -> int:
        return len(self.labels)


class Stream:
    """A fixed sequence of batches; every iteration yields the same bits.

    A stream consists of the index of the image at each position, the group at each position, and the images of each
    group. Images that are not arrays in memory are read, or corrupted, one batch ahead in a worker thread.

    Args:
        sources: Group name -> the images of that group, all of one size.
        labels: Label of each image, (N,).
        order: Index of the image at each position of the stream. Default: every image once, in order.
        group: Index of the group at each position, in the order of ``sources``. Default: the first group.
        batch_size: Images per batch; the last batch may be smaller.
        name: Name of the stream in tables, usually the text of its scenario.
        folder_classes: Number of class folders that the labels refer to, if it is not known which logits they are.

    Example:
        >>> import numpy as np
        >>> from midway.streams import Stream
        >>> images = np.full((3, 2, 2, 3), 255, np.uint8)
        >>> stream = Stream({"clean": images}, np.array([0, 1, 2]), order=[2, 0, 1], batch_size=2)
        >>> [(len(batch), batch.labels.tolist(), batch.images.max().item()) for batch in stream]
        [(2, [2, 0], 1.0), (1, [1], 1.0)]
    """

    def __init__(
        self,
        sources: Mapping[str, ImageArray],
        labels: NDArray[np.int64],
        *,
        order: Any = None,
        group: Any = None,
        batch_size: int = 200,
        name: str = "stream",
        folder_classes: int | None = None,
    ) -> None:
        self.sources = dict(sources)
        self.labels = np.asarray(labels, dtype=np.int64)
        self.order = np.asarray(np.arange(len(self.labels)) if order is None else order, dtype=np.int64)
        self.group = np.asarray(np.zeros_like(self.order) if group is None else group, dtype=np.int64)
        self.batch_size = batch_size
        self.name = name
        self.folder_classes = folder_classes
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
        if self.order.size == 0:
            raise ValueError(f"{name}: there are no images.")
        if self.order.shape != self.group.shape:
            raise ValueError(f"{name}: {self.order.size} positions but {self.group.size} groups.")
        if not 0 <= self.group.min() <= self.group.max() < len(self.sources):
            raise ValueError(f"{name}: group numbers must be 0 to {len(self.sources) - 1}.")
        for group_name, images in self.sources.items():
            check_pixels(images, f"{name}, {group_name}")
            if len(images) != len(self.labels):
                raise ValueError(f"{name}: {len(images)} images of {group_name} but {len(self.labels)} labels.")
        sizes = {tuple(images.shape[1:]) for images in self.sources.values()}
        if len(sizes) > 1:
            raise ValueError(f"{name}: the groups have images of different sizes {sorted(sizes)}; resize them first.")

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups."""
        return tuple(self.sources)

    def __len__(self) -> int:
        return -(-len(self.order) // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        in_memory = all(type(images) is np.ndarray for images in self.sources.values())
        batches = self._positions()
        pixels = read_ahead(self.pixels, batches, depth=0 if in_memory else 1)
        for positions, images in zip(batches, pixels, strict=True):
            yield Batch(
                images=to_tensor(images),
                labels=torch.from_numpy(self.labels[self.order[positions]]),
                group=torch.from_numpy(self.group[positions]),
            )

    def cached(self) -> Stream:
        """Return the same stream with all its images in memory, read and corrupted once."""
        pixels = np.concatenate(list(map(self.pixels, self._positions())))
        return Stream(
            dict.fromkeys(self.groups, pixels),
            self.labels[self.order],
            group=self.group,
            batch_size=self.batch_size,
            name=self.name,
            folder_classes=self.folder_classes,
        )

    def _positions(self) -> list[NDArray[np.int64]]:
        """Return the positions of each batch."""
        cuts = range(self.batch_size, len(self.order), self.batch_size)
        return np.split(np.arange(len(self.order)), cuts)

    def pixels(self, positions: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Read the images at these positions of the stream, each from the source of its group."""
        indices, groups = self.order[positions], self.group[positions]
        shape = next(iter(self.sources.values())).shape
        pixels = np.empty((len(positions), *shape[1:]), dtype=np.uint8)
        for number, images in enumerate(self.sources.values()):
            chosen = groups == number
            if chosen.any():
                pixels[chosen] = images[indices[chosen]]
        return pixels

    def __repr__(self) -> str:
        return f"Stream({self.name!r}, {len(self.order)} images in {len(self)} batches)"


def to_tensor(pixels: NDArray[np.uint8]) -> Tensor:
    """Turn bytes (n, H, W, C) into float32 (n, C, H, W) in [0, 1], channels-last without a copy of the layout.

    Example:
        >>> import numpy as np
        >>> from midway.streams import to_tensor
        >>> to_tensor(np.full((1, 2, 2, 3), 51, np.uint8)).unique()
        tensor([0.2000])
    """
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float().div(255)
