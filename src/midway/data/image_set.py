"""``ImageSet``: images, labels and class names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray


@runtime_checkable
class ImageArray(Protocol):
    """Images that can be indexed: a numpy array, a memory map, or a lazy reader of files.

    Indexing with an integer array returns the uint8 images (n, H, W, C) at those indices; only those are read.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of images, height, width, channels."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any: ...


def check_pixels(images: ImageArray, name: str) -> None:
    """Raise TypeError or ValueError unless images are uint8 (N, H, W, C) with one or three channels."""
    shape, dtype = tuple(images.shape), getattr(images, "dtype", np.dtype(np.uint8))
    if dtype != np.uint8:
        raise TypeError(f"{name}: images are {dtype}, expected uint8: multiply images in [0, 1] by 255 and convert.")
    if len(shape) != 4 or shape[3] not in (1, 3):
        hint = ": transpose them, images.transpose(0, 2, 3, 1)" if len(shape) == 4 and shape[1] in (1, 3) else ""
        raise ValueError(f"{name}: images have shape {shape}, expected (N, H, W, 3) or (N, H, W, 1){hint}.")


UNLABELLED = -1
"""The label of images whose class is unknown."""


@dataclass(frozen=True, repr=False)
class ImageSet:
    """Images, usually with labels.

    Attributes:
        images: uint8 (N, H, W, C) in memory, memory-mapped or lazy: ``images[indices]`` is a uint8 array.
        labels: int64 (N,); all -1 if the images are unlabelled.
        class_names: One name per class; a label is an index into it.
        name: Name of the set in tables, for example ``"cifar10-mini"``.
        logits: The logits of the network that belong to the classes; None if label i is logit i.
        complete: Label i is logit i; False if labels count names or folders, which may be fewer than the logits.

    Example:
        >>> import numpy as np
        >>> from midway.data import ImageSet
        >>> data = ImageSet(np.zeros((4, 8, 8, 3), np.uint8), np.array([0, 1, 1, 0]), ("cat", "dog"), "toy")
        >>> data
        ImageSet('toy', 4 images of 8 x 8 x 3, 2 classes)
        >>> len(data), data.take([0, 3]).labels.tolist()
        (4, [0, 0])
    """

    images: ImageArray
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    name: str = "images"
    logits: tuple[int, ...] | None = None
    complete: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", np.asarray(self.labels, dtype=np.int64))
        object.__setattr__(self, "class_names", tuple(self.class_names))
        check_pixels(self.images, self.name)
        if self.labels.shape != (len(self.images),):
            raise ValueError(f"{self.name}: {len(self.images)} images but labels of shape {self.labels.shape}.")
        if (
            self.labelled
            and len(self.labels)
            and not 0 <= self.labels.min() <= self.labels.max() < len(self.class_names)
        ):
            raise ValueError(
                f"{self.name}: labels are from {self.labels.min()} to {self.labels.max()}, "
                f"but there are {len(self.class_names)} class names."
            )

    @property
    def labelled(self) -> bool:
        """Whether the classes of the images are known."""
        return not (len(self.labels) and (self.labels == UNLABELLED).all())

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        count, *sides = self.images.shape
        size = " x ".join(map(str, sides))
        classes = f"{len(self.class_names)} classes" if self.labelled else "unlabelled"
        return f"ImageSet({self.name!r}, {count} images of {size}, {classes})"

    def take(self, indices: ArrayLike | Sequence[int]) -> ImageSet:
        """Return the set of the images at these indices, in this order, in memory."""
        chosen = np.asarray(indices, dtype=np.int64)
        return replace(self, images=self.images[chosen], labels=self.labels[chosen])

    def first(self, count: int) -> ImageSet:
        """Return the first images in memory, at most all of them."""
        if count < 1:
            raise ValueError(f"count must be at least 1, got {count}.")
        return self.take(np.arange(min(count, len(self))))
