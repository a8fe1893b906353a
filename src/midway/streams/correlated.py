"""Scenarios whose labels come in runs: neighbours in the stream tend to be of the same class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from midway.streams.domains import domains_of
from midway.streams.registry import REGISTRY, scenario
from midway.streams.scenarios import Shift
from midway.streams.stream import Data, Stream

SMALLEST_SECTION = 10  # images, as published
ATTEMPTS = 100
MOST_SLOTS = 100  # as published


@scenario("dirichlet:fog@0.1", amount="positive")
def dirichlet(
    data: Data, shift: Shift, *, concentration: float = 0.1, severity: int = 5, batch_size: int = 200, seed: int = 0
) -> Stream:
    """One shift whose labels come in runs: neighbours in the stream tend to be of the same class.

    Every image occurs once. The stream has as many sections as there are classes; each class is distributed over them
    in shares drawn from a Dirichlet distribution, and each section is shuffled. For concentrations near 0 every class
    is in one section, alone or with a few others; for large concentrations all sections are alike. The other arguments
    are those of ``pure``; the seed is also that of the order.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(400)
        >>> stream = midway.streams.dirichlet(data, "fog", concentration=0.01, batch_size=40)
        >>> batch = next(iter(stream))
        >>> batch.labels.bincount().max().item() > 20  # of 40 images; about 4 in data-set order
        True
    """
    REGISTRY["dirichlet"].check_amount(concentration)
    domains = domains_of("dirichlet", data, [shift], severity, seed, by_label=True)
    order = distribute_classes(domains.labels, concentration=concentration, seed=seed)
    return domains.stream("dirichlet", order, amount=concentration, severity=severity, batch_size=batch_size)


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
    """A continual stream whose labels come in runs within each shift, as in NOTE; at 0 they are sorted.

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
    domains = domains_of("correlated", data, shifts, severity, seed, by_label=True)
    order = domains.in_parts(lambda labels, rng: correlate(labels, concentration, rng), seed)
    return domains.stream("correlated", order, amount=concentration, severity=severity, batch_size=batch_size)


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
    domains = domains_of("mixed_correlated", data, shifts, severity, seed, by_label=True)
    rng = domains.random(seed)
    shuffle = rng.permutation(len(domains.order))  # a sort by label alone would keep the order of the shifts
    order = shuffle[correlate(domains.labels[domains.order[shuffle]], concentration, rng)]
    return domains.stream("mixed_correlated", order, amount=concentration, severity=severity, batch_size=batch_size)


@scenario("practical:fog+snow@0.1", amount="positive")
def practical(
    data: Data,
    shifts: Sequence[Shift],
    *,
    concentration: float = 0.1,
    severity: int = 5,
    batch_size: int = 200,
    seed: int = 0,
) -> Stream:
    """RoTTA's practical setting (PTTA): a continual stream whose labels come in runs, drawn anew for each shift.

    A shift has as many slots as classes, at most 100. Each class is distributed over them in shares drawn from a
    Dirichlet distribution; within a slot the classes follow each other in random order, each in the order of the data
    set. ``practical:rotta`` has the fifteen corruptions in the published order, which comes in batches of 64. The
    arguments are those of ``correlated``.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(400)
        >>> fog, snow = midway.streams.practical(data, ["fog", "snow"], batch_size=400)
        >>> fog.labels.equal(snow.labels), (fog.labels.diff() != 0).sum().item() < 80
        (False, True)
    """
    REGISTRY["practical"].check_amount(concentration)
    domains = domains_of("practical", data, shifts, severity, seed, by_label=True)
    rng, orders, start = domains.random(seed), [], 0
    for members in domains.members:
        orders.append(start + in_slots(domains.labels[members], concentration, rng))
        start += len(members)
    order = np.concatenate(orders)
    return domains.stream("practical", order, amount=concentration, severity=severity, batch_size=batch_size)


def correlate(labels: NDArray[np.int64], concentration: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return an order of images in which labels come in runs, as in NOTE; sorted labels at concentration 0.

    There are as many sections as classes. The images of a class are shuffled and divided over the sections in shares
    from a Dirichlet distribution; sections that already have their equal part get none. Within a section the classes
    follow each other in random order. Everything is drawn again until the smallest section has ten images. If that does
    not happen (many classes, small concentrations), the most even of 100 draws is used.
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


def distribute_classes(labels: NDArray[np.int64], *, concentration: float, seed: int) -> NDArray[np.int64]:
    """Return an order of the images in which labels come in runs, as many shuffled sections as classes."""
    rng = np.random.default_rng((seed, len(labels)))
    sections = _sections(labels, len(np.unique(labels)), concentration, rng)
    return np.concatenate([rng.permutation(np.concatenate(section)) for section in sections])


def in_slots(labels: NDArray[np.int64], concentration: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return an order of the images in slots, within which each class is one run, as in RoTTA."""
    slots = _sections(labels, min(len(np.unique(labels)), MOST_SLOTS), concentration, rng)
    return np.concatenate([slot[index] for slot in slots for index in rng.permutation(len(slot))])


def _sections(
    labels: NDArray[np.int64], count: int, concentration: float, rng: np.random.Generator
) -> list[list[NDArray[np.int64]]]:
    """Divide the images of each class over sections, in shares from a Dirichlet distribution."""
    sections: list[list[NDArray[np.int64]]] = [[] for _ in range(count)]
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        cuts = np.round(np.cumsum(shares_of(rng, count, concentration))[:-1] * len(members)).astype(np.int64)
        for section, part in zip(sections, np.split(members, cuts), strict=True):
            section.append(part)
    return sections


def shares_of(rng: np.random.Generator, count: int, concentration: float) -> NDArray[np.float64]:
    """Draw shares from a symmetric Dirichlet distribution, in logarithms, because plain draws underflow near 0.

    log Gamma(a) = log Gamma(a + 1) + log(U) / a.
    """
    logs = np.log(rng.standard_gamma(concentration + 1, count)) + np.log1p(-rng.random(count)) / concentration
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())
