"""Several shifts in one stream: the same images under each shift, or domains with images of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midway.data.image_set import UNLABELLED, ImageArray, ImageSet
from midway.streams.parsing import scenario_text
from midway.streams.scenarios import Shift, folder_classes, labels_of, source_of
from midway.streams.stream import Data, Stream

Arrange = Callable[[NDArray[np.int64], np.random.Generator], NDArray[np.int64]]
"""Returns an order of images from their labels."""


@dataclass(frozen=True)
class Domains:
    """The images of several shifts, and which of them belong to each.

    Attributes:
        sources: Name of a shift -> its images; an index means the same label in each.
        labels: Label of each index.
        members: The indices that each shift has images at.
        folder_classes: Number of class folders of the data set; None if it has none.
    """

    sources: dict[str, ImageArray]
    labels: NDArray[np.int64]
    members: tuple[NDArray[np.int64], ...]
    folder_classes: int | None

    @property
    def order(self) -> NDArray[np.int64]:
        """The indices of all images, shift after shift."""
        return np.concatenate(self.members)

    @property
    def group(self) -> NDArray[np.int64]:
        """The shift of each image in ``order``."""
        return np.repeat(np.arange(len(self.members)), [len(each) for each in self.members])

    def random(self, seed: int) -> np.random.Generator:
        """Return a generator for an order of all images."""
        return np.random.default_rng((seed, len(self.order)))

    def in_parts(self, arrange: Arrange, seed: int) -> NDArray[np.int64]:
        """Return positions in ``order``, shift after shift; shifts with the same images have the same order."""
        positions, start = [], 0
        for members in self.members:
            rng = np.random.default_rng((seed, len(members)))
            positions.append(start + arrange(self.labels[members], rng))
            start += len(members)
        return np.concatenate(positions)

    def stream(
        self,
        kind: str,
        positions: NDArray[np.int64] | None,
        *,
        amount: float | None = None,
        severity: int,
        batch_size: int,
    ) -> Stream:
        """Return the stream of the images at these positions of ``order``, or of all in turn."""
        order, group = (each if positions is None else each[positions] for each in (self.order, self.group))
        return Stream(
            self.sources,
            self.labels,
            order=order,
            group=group,
            batch_size=batch_size,
            name=scenario_text(kind, list(self.sources), amount, severity),
            folder_classes=self.folder_classes,
        )


def domains_of(
    kind: str, data: Data, shifts: Sequence[Shift], severity: int, seed: int, *, by_label: bool = False
) -> Domains:
    """Return the images of shifts: all at the same indices if they are the same images, else one after the other.

    ``by_label`` is for streams whose order depends on the labels: it refuses unlabelled images.
    """
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
    for name, _, labels in found:
        if by_label and (labels == UNLABELLED).any():
            raise ValueError(
                f"{kind} orders images by their labels, and {name} has images without: give labelled images."
            )
    first = found[0][2]
    if all(np.array_equal(labels, first) for _, _, labels in found):
        everything = np.arange(len(first))
        shared = {name: images for name, images, _ in found}
        return Domains(shared, first, (everything,) * len(found), folder_classes(data))
    labels = np.concatenate([labels for _, _, labels in found])
    sources: dict[str, ImageArray] = {}
    members: list[NDArray[np.int64]] = []
    start = 0
    for name, images, own in found:
        members.append(np.arange(start, start + len(own)))
        sources[name] = PartOfImages(images, start, len(labels))
        start += len(own)
    return Domains(sources, labels, tuple(members), folder_classes(data))


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
