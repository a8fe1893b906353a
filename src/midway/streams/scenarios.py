"""The paper's three scenarios: pure, outlier and mixture."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from midway.data.corrupted import CorruptedImages
from midway.data.image_set import ImageArray, ImageSet
from midway.streams.parsing import scenario_text
from midway.streams.registry import REGISTRY, scenario
from midway.streams.stream import Data, Stream

Shift = str | ImageSet
"""The name of a corruption, ``"clean"``, or a set of shifted images (a folder of CIFAR-10-C, a domain of PACS)."""


@scenario("pure:fog")
def pure(data: Data, shift: Shift, *, severity: int = 5, batch_size: int = 200, seed: int = 0) -> Stream:
    """Every image from one distribution, in the order of the data set.

    Args:
        data: A data set, or a pair of images (N, H, W, C) uint8 and labels (N,).
        shift: The name of a corruption, ``"clean"``, or an aligned set of shifted images.
        severity: 1 to 5.
        batch_size: Images per batch.
        seed: Seed of the corruption.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(400)
        >>> midway.streams.pure(data, "gaussian_noise")
        Stream('pure:gaussian_noise', 400 images in 2 batches)
    """
    name, images = source_of(data, shift, severity, seed)
    text = scenario_text("pure", [name], None, severity)
    return Stream(
        {name: images}, labels_of(data), batch_size=batch_size, name=text, folder_classes=folder_classes(data)
    )


@scenario("outlier:glass_blur/gaussian_noise@0.005", amount="share")
def outlier(
    data: Data,
    shift_a: Shift,
    shift_b: Shift,
    *,
    ratio: float = 0.005,
    severity: int = 5,
    batch_size: int = 200,
    seed: int = 0,
) -> Stream:
    """A few images of distribution A among many of B, the same number in every batch at random positions.

    With the paper's ratio of 0.005 and batches of 200 that is exactly one outlier per batch. If ratio x batch size is
    not an integer, the running total stays as close to the ratio, the share of A, as possible. The other arguments are
    those of ``pure``; the seed is also that of the positions.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(400)
        >>> stream = midway.streams.outlier(data, "glass_blur", "gaussian_noise")
        >>> [(batch.group == stream.groups.index("glass_blur")).sum().item() for batch in stream]
        [1, 1]
    """
    return _two_groups("outlier", data, shift_a, shift_b, ratio, severity, batch_size, seed)


@scenario("mixture:glass_blur/gaussian_noise@0.5", amount="share")
def mixture(
    data: Data,
    shift_a: Shift,
    shift_b: Shift,
    *,
    ratio: float = 0.5,
    severity: int = 5,
    batch_size: int = 200,
    seed: int = 0,
) -> Stream:
    """Two distributions in every batch, in equal shares by default, at random positions.

    The arguments are those of ``outlier``.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(200)
        >>> batch = next(iter(midway.streams.mixture(data, "glass_blur", "gaussian_noise")))
        >>> batch.group.bincount().tolist()
        [100, 100]
    """
    return _two_groups("mixture", data, shift_a, shift_b, ratio, severity, batch_size, seed)


def _two_groups(
    kind: str, data: Data, shift_a: Shift, shift_b: Shift, ratio: float, severity: int, batch_size: int, seed: int
) -> Stream:
    REGISTRY[kind].check_amount(ratio)
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
    labels = labels_of(data)
    (name_a, images_a), (name_b, images_b) = (source_of(data, shift, severity, seed) for shift in (shift_a, shift_b))
    if name_a == name_b:
        raise ValueError(f"both distributions are {name_a}: choose two different ones, or a pure stream.")
    for name, missing in ((name_a, 0), (name_b, len(labels))):
        if nearest_whole(ratio * len(labels)) == missing:
            raise ValueError(f"{len(labels)} images at ratio {ratio} contain no image of {name}: use more images.")
    if seed < 0:
        raise ValueError(f"seed must be 0 or more, got {seed}.")
    group = assign_groups(len(labels), ratio=ratio, batch_size=batch_size, seed=seed)
    text = scenario_text(kind, [name_a, name_b], ratio, severity)
    return Stream(
        {name_a: images_a, name_b: images_b},
        labels,
        group=group,
        batch_size=batch_size,
        name=text,
        folder_classes=folder_classes(data),
    )


def assign_groups(count: int, *, ratio: float, batch_size: int, seed: int) -> NDArray[np.int64]:
    """Return which positions belong to A (0) and which to B (1).

    Up to the end of every batch the number of A is ratio x images so far, rounded to the nearest integer; the positions
    in a batch are random, seeded by the index of the batch.
    """
    group = np.ones(count, dtype=np.int64)
    placed = 0
    for number, start in enumerate(range(0, count, batch_size)):
        stop = min(start + batch_size, count)
        wanted = nearest_whole(ratio * stop) - placed
        rng = np.random.default_rng((seed, number))
        group[start + rng.choice(stop - start, size=wanted, replace=False)] = 0
        placed += wanted
    return group


def nearest_whole(value: float) -> int:
    """Round half up, with a tolerance for the last bits of a product such as 0.145 * 100."""
    return math.floor(value + 0.5 + 1e-9)


def labels_of(data: Data) -> NDArray[np.int64]:
    """Return the labels of a data set or of a pair of arrays.

    Example:
        >>> labels_of((np.zeros((2, 8, 8, 3), np.uint8), [1, 0]))
        array([1, 0])
    """
    return data.labels if isinstance(data, ImageSet) else np.asarray(data[1], dtype=np.int64)


def folder_classes(data: Data) -> int | None:
    """Return the number of class folders of a data set that does not say which logits they are, else None.

    Example:
        >>> folder_classes((np.zeros((2, 8, 8, 3), np.uint8), [1, 0])) is None
        True
    """
    incomplete = isinstance(data, ImageSet) and data.labelled and not data.complete
    return len(data.class_names) if isinstance(data, ImageSet) and incomplete else None


def source_of(data: Data, shift: Shift, severity: int, seed: int) -> tuple[str, ImageArray]:
    """Return the name of a shift and its images.

    Example:
        >>> source_of((np.zeros((2, 8, 8, 3), np.uint8), [1, 0]), "fog", severity=5, seed=0)[0]
        'fog'
    """
    if not isinstance(shift, str | ImageSet):
        raise TypeError(f"a shift is the name of a corruption or an ImageSet, got {type(shift).__name__}.")
    if isinstance(shift, ImageSet):
        if not np.array_equal(shift.labels, labels_of(data)):
            raise ValueError(
                f"{shift.name} does not have the same images in the same order, its labels differ: "
                "use pure scenarios for domains with different images."
            )
        return shift.name, shift.images
    images = data.images if isinstance(data, ImageSet) else data[0]
    if shift == "clean":
        return "clean", images
    return shift, CorruptedImages(images, shift, severity=severity, seed=seed)
