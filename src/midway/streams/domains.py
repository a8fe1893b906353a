"""Several shifts in one stream: the same images under each shift, or domains with images of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midway.data.image_set import ImageArray, ImageSet
from midway.streams.scenarios import Shift, labels_of, source_of
from midway.streams.stream import Data


@dataclass(frozen=True)
class Domains:
    """The images of several shifts, and which of them belong to each.

    Attributes:
        sources: Name of a shift -> its images; an index means the same label in each.
        labels: Label of each index.
        members: The indices that each shift has images at.
    """

    sources: dict[str, ImageArray]
    labels: NDArray[np.int64]
    members: tuple[NDArray[np.int64], ...]

    @property
    def order(self) -> NDArray[np.int64]:
        """The indices of all images, shift after shift."""
        return np.concatenate(self.members)

    @property
    def group(self) -> NDArray[np.int64]:
        """The shift of each image in ``order``."""
        return np.repeat(np.arange(len(self.members)), [len(each) for each in self.members])


def domains_of(kind: str, data: Data, shifts: Sequence[Shift], severity: int, seed: int) -> Domains:
    """Return the images of shifts: all at the same indices if they are the same images, else one after the other."""
    if not shifts:
        raise ValueError(f"{kind} needs at least one shift.")
    found = [
        (shift.name, shift.images, shift.labels)
        if isinstance(shift, ImageSet)
        else (*source_of(data, shift, severity, seed), labels_of(data))
        for shift in shifts
    ]
    if len({name for name, _, _ in found}) < len(found):
        raise ValueError(f"{kind} names a shift twice: name each once, and use recurring to repeat them.")
    first = found[0][2]
    if all(np.array_equal(labels, first) for _, _, labels in found):
        everything = np.arange(len(first))
        return Domains({name: images for name, images, _ in found}, first, (everything,) * len(found))
    labels = np.concatenate([labels for _, _, labels in found])
    sources: dict[str, ImageArray] = {}
    members: list[NDArray[np.int64]] = []
    start = 0
    for name, images, own in found:
        members.append(np.arange(start, start + len(own)))
        sources[name] = PartOfImages(images, start, len(labels))
        start += len(own)
    return Domains(sources, labels, tuple(members))


class PartOfImages:
    """Images at the indices from ``start`` on of a larger array, whose other indices belong to other domains."""

    def __init__(self, images: ImageArray, start: int, total: int) -> None:
        self.images, self.start = images, start
        self.shape = (total, *tuple(images.shape)[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any, /) -> Any:
        """Read images by integer indices, all of which belong to this domain."""
        own = np.asarray(index) - self.start
        if own.size and not 0 <= own.min() <= own.max() < len(self.images):
            raise IndexError(f"indices {own.min() + self.start} to {own.max() + self.start} are of other domains.")
        return self.images[own]
