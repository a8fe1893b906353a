"""Scenarios in an order other than that of the data set: mixed domains, correlated labels, unequal classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from midway.streams.domains import Domains, domains_of
from midway.streams.over_time import shares_of
from midway.streams.parsing import scenario_text
from midway.streams.registry import REGISTRY, scenario
from midway.streams.scenarios import Shift, folder_classes, labels_of, source_of
from midway.streams.stream import Data, Stream

Arrange = Callable[[NDArray[np.int64], np.random.Generator], NDArray[np.int64]]
"""Returns an order of images from their labels."""

SMALLEST_SECTION = 10  # images, as published
ATTEMPTS = 100
DRAWS_PER_IMAGE = 2  # 100,000 draws from the 50,000 images of ImageNet-C, as published


@scenario("mixed:fog+snow")
def mixed(data: Data, shifts: Sequence[Shift], *, severity: int = 5, batch_size: int = 200, seed: int = 0) -> Stream:
    """All images under each of several shifts, in one random order: every batch has every shift.

    ``mixed:all`` is the *mixed domains* setting with fifteen corruptions. The arguments are those of ``continual``.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(100)
        >>> stream = midway.streams.mixed(data, ["fog", "snow", "frost"], batch_size=150)
        >>> [len(batch.group.unique()) for batch in stream]
        [3, 3]
    """
    domains = domains_of("mixed", data, shifts, severity, seed)
    order = _random(seed, domains).permutation(len(domains.order))
    return _stream("mixed", data, domains, order, None, severity, batch_size)


@scenario("shuffled:fog+snow")
def shuffled(data: Data, shifts: Sequence[Shift], *, severity: int = 5, batch_size: int = 200, seed: int = 0) -> Stream:
    """A continual stream whose images are shuffled within each shift.

    Shifts with the same images have the same permutation, as in published comparisons. The arguments are those of
    ``continual``.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(200)
        >>> fog, snow = midway.streams.shuffled(data, ["fog", "snow"])
        >>> fog.labels.equal(snow.labels), fog.labels[:5].tolist() == data.labels[:5].tolist()
        (True, False)
    """
    domains = domains_of("shuffled", data, shifts, severity, seed)
    parts = _in_parts(domains, lambda labels, rng: rng.permutation(len(labels)), seed)
    return _stream("shuffled", data, domains, parts, None, severity, batch_size)


@scenario("random_order:fog+snow")
def random_order(
    data: Data, shifts: Sequence[Shift], *, severity: int = 5, batch_size: int = 200, seed: int = 0
) -> Stream:
    """A continual stream with the shifts in a random order; ten seeds are ten orders, as in CoTTA's ImageNet-C.

    The arguments are those of ``continual``.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(50)
        >>> stream = midway.streams.random_order(data, ["fog", "snow", "frost"], batch_size=50, seed=1)
        >>> sorted(stream.groups[batch.group[0]] for batch in stream)
        ['fog', 'frost', 'snow']
    """
    domains = domains_of("random_order", data, shifts, severity, seed)
    turns = np.random.default_rng((seed, len(domains.members))).permutation(len(domains.members))
    order = np.concatenate([np.flatnonzero(domains.group == turn) for turn in turns])
    return _stream("random_order", data, domains, order, None, severity, batch_size)


@scenario("correlated:fog+snow@0.1", amount="nonnegative")
def correlated(
    data: Data,
    shifts: Sequence[Shift],
    *,
    concentration: float = 0.1,
    severity: int = 5,
    batch_size: int = 200,
    seed: int = 0,
) -> Stream:
    """A continual stream whose labels come in runs within each shift, in NOTE's way; at 0 they are sorted.

    Within a shift, ``correlate`` orders the images. Shifts with the same images have the same order. The other
    arguments are those of ``continual``.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(100)
        >>> stream = midway.streams.correlated(data, ["fog"], concentration=0, batch_size=20)
        >>> [batch.labels.min().item() for batch in stream] == [label for label in sorted(data.labels)][::20]
        True
    """
    REGISTRY["correlated"].check_amount(concentration)
    domains = domains_of("correlated", data, shifts, severity, seed)
    order = _in_parts(domains, lambda labels, rng: correlate(labels, concentration, rng), seed)
    return _stream("correlated", data, domains, order, concentration, severity, batch_size)


@scenario("mixed_correlated:fog+snow@0.01", amount="nonnegative")
def mixed_correlated(
    data: Data,
    shifts: Sequence[Shift],
    *,
    concentration: float = 0.01,
    severity: int = 5,
    batch_size: int = 200,
    seed: int = 0,
) -> Stream:
    """All images under all shifts in an order in which labels come in runs and every run has every shift.

    The published concentration is 0.01 for ImageNet-C and 0.1 for ImageNet-D109. The arguments are those of
    ``correlated``.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(200)
        >>> stream = midway.streams.mixed_correlated(data, ["fog", "snow"], concentration=0, batch_size=40)
        >>> batch = next(iter(stream))
        >>> batch.labels.unique().tolist(), batch.group.unique().tolist()
        ([0], [0, 1])
    """
    REGISTRY["mixed_correlated"].check_amount(concentration)
    domains = domains_of("mixed_correlated", data, shifts, severity, seed)
    rng = _random(seed, domains)
    shuffle = rng.permutation(len(domains.order))  # a sort by label alone would keep the order of the shifts
    order = shuffle[correlate(domains.labels[domains.order[shuffle]], concentration, rng)]
    return _stream("mixed_correlated", data, domains, order, concentration, severity, batch_size)


@scenario("imbalanced:fog@500000", amount="positive")
def imbalanced(
    data: Data, shift: Shift, *, ratio: float = 500_000, severity: int = 5, batch_size: int = 200, seed: int = 0
) -> Stream:
    """One shift with a label shift over time, as in SAR: in each of C periods one class is ``ratio`` times as likely.

    The classes have their periods in random order. Images are drawn with replacement, two draws per image of the data
    set. The published ratios are 1,000 to 5,000, and 500,000 for infinity, where a period has one class. The other
    arguments are those of ``pure``; the seed is also that of the draws.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(100)
        >>> stream = midway.streams.imbalanced(data, "fog", batch_size=20)
        >>> [len(batch.labels.unique()) for batch in stream]
        [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    """
    REGISTRY["imbalanced"].check_amount(ratio)
    labels = labels_of(data)
    name, images = source_of(data, shift, severity, seed)
    rng = np.random.default_rng((seed, len(labels)))
    classes = rng.permutation(np.unique(labels))
    draws = max(1, DRAWS_PER_IMAGE * len(labels) // len(classes))
    drawn = []
    for period in range(len(classes)):
        weights = np.where(np.arange(len(classes)) == period, ratio, 1.0)
        drawn.append(rng.choice(classes, size=draws, p=weights / weights.sum()))
    order = [rng.choice(np.flatnonzero(labels == label)) for label in np.concatenate(drawn)]
    text = scenario_text("imbalanced", [name], ratio, severity)
    return Stream(
        {name: images},
        labels,
        order=order,
        batch_size=batch_size,
        name=text,
        folder_classes=folder_classes(data),
    )


@scenario("long_tailed:fog@0.1", amount="share")
def long_tailed(
    data: Data, shift: Shift, *, ratio: float = 0.1, severity: int = 5, batch_size: int = 200, seed: int = 0
) -> Stream:
    """One shift with classes of different frequency, as in DELTA: class k of C has a share like ratio^(k / (C - 1)).

    The last class is ``ratio`` times as frequent as the first (published: 0.1 and 0.05). Images are drawn with
    replacement and shuffled. The other arguments are those of ``pure``; the seed is also that of the draws.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(400)
        >>> stream = midway.streams.long_tailed(data, "fog", batch_size=1000)
        >>> counts = next(iter(stream)).labels.bincount()
        >>> counts[0].item() // counts[9].item()
        9
    """
    REGISTRY["long_tailed"].check_amount(ratio)
    labels = labels_of(data)
    name, images = source_of(data, shift, severity, seed)
    rng = np.random.default_rng((seed, len(labels)))
    classes = np.unique(labels)
    shares = ratio ** (np.arange(len(classes)) / max(1, len(classes) - 1))
    counts = np.floor(shares / shares.sum() * len(labels)).astype(np.int64) + 1
    drawn = [
        rng.choice(np.flatnonzero(labels == label), size=count) for label, count in zip(classes, counts, strict=True)
    ]
    order = rng.permutation(np.concatenate(drawn))
    text = scenario_text("long_tailed", [name], ratio, severity)
    return Stream(
        {name: images},
        labels,
        order=order,
        batch_size=batch_size,
        name=text,
        folder_classes=folder_classes(data),
    )


def correlate(labels: NDArray[np.int64], concentration: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return an order of images in which labels come in runs, in NOTE's way; sorted labels at concentration 0.

    There are as many sections as classes. The images of a class are shuffled and divided over the sections in shares
    from a Dirichlet distribution; sections that already have their equal part get none. Within a section the classes
    follow each other in random order. All is drawn again until the smallest section has ten images; where that does not
    happen (many classes, small concentrations) the most even of 100 draws is taken.
    """
    if concentration == 0:
        return np.argsort(labels, kind="stable")
    best: list[list[NDArray[np.int64]]] = []
    smallest = -1
    for _ in range(ATTEMPTS):
        sections = _divide(labels, concentration, rng)
        size = min(sum(map(len, section)) for section in sections)
        if size > smallest:
            best, smallest = sections, size
        if smallest >= SMALLEST_SECTION:
            break
    return np.concatenate([section[index] for section in best for index in rng.permutation(len(section))])


def _divide(labels: NDArray[np.int64], concentration: float, rng: np.random.Generator) -> list[list[NDArray[np.int64]]]:
    """Divide the images of each class over as many sections as there are classes."""
    classes = np.unique(labels)
    sections: list[list[NDArray[np.int64]]] = [[] for _ in classes]
    sizes = np.zeros(len(classes))
    for label in classes:
        members = rng.permutation(np.flatnonzero(labels == label))
        free = sizes < len(labels) / len(classes)
        shares = shares_of(rng, len(classes), concentration) * free
        shares = shares / shares.sum() if shares.sum() > 0 else free / free.sum()
        cuts = np.floor(np.cumsum(shares)[:-1] * len(members) + 1e-9).astype(np.int64)
        parts = np.split(members, cuts)
        sizes += [len(part) for part in parts]
        for section, part in zip(sections, parts, strict=True):
            section.append(part)
    return sections


def _in_parts(domains: Domains, arrange: Arrange, seed: int) -> NDArray[np.int64]:
    """Return positions in ``domains.order``, shift after shift; shifts with the same images have the same order."""
    positions, start = [], 0
    for members in domains.members:
        rng = np.random.default_rng((seed, len(members)))
        positions.append(start + arrange(domains.labels[members], rng))
        start += len(members)
    return np.concatenate(positions)


def _random(seed: int, domains: Domains) -> np.random.Generator:
    return np.random.default_rng((seed, len(domains.order)))


def _stream(
    kind: str,
    data: Data,
    domains: Domains,
    positions: NDArray[np.int64],
    amount: float | None,
    severity: int,
    batch_size: int,
) -> Stream:
    """Return the stream of all images of the domains at these positions of ``domains.order``."""
    return Stream(
        domains.sources,
        domains.labels,
        order=domains.order[positions],
        group=domains.group[positions],
        batch_size=batch_size,
        name=scenario_text(kind, list(domains.sources), amount, severity),
        folder_classes=folder_classes(data),
    )
