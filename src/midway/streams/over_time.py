"""Scenarios that change over time: shifts in turn, severities that rise and fall, labels in runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from midway.data.corrupted import check_severity
from midway.data.image_set import ImageArray
from midway.streams.domains import domains_of
from midway.streams.parsing import scenario_text
from midway.streams.registry import REGISTRY, scenario
from midway.streams.scenarios import Shift, folder_classes, labels_of, source_of
from midway.streams.stream import Data, Stream


@scenario("continual:fog+snow")
def continual(
    data: Data, shifts: Sequence[Shift], *, severity: int = 5, batch_size: int = 200, seed: int = 0
) -> Stream:
    """One shift after another, all images of each; the method is not informed when the shift changes.

    The batch at a change contains images of both shifts if the images do not fill all batches. ``continual:all`` is the
    published order of the fifteen corruptions. Domains may have images of their own.

    The arguments are those of ``pure``, with a sequence of shifts.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(400)
        >>> midway.streams.continual(data, ["fog", "snow", "frost"])
        Stream('continual:fog+snow+frost', 1200 images in 6 batches)
    """
    return _in_turn("continual", data, shifts, None, severity, batch_size, seed)


@scenario("recurring:fog+snow@2", amount="count")
def recurring(
    data: Data, shifts: Sequence[Shift], *, rounds: int = 2, severity: int = 5, batch_size: int = 200, seed: int = 0
) -> Stream:
    """A continual stream that is repeated with the same images.

    The arguments are those of ``continual``, and ``rounds``, how often every shift occurs.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(200)
        >>> stream = midway.streams.recurring(data, ["fog", "snow"], rounds=3)
        >>> [stream.groups[batch.group[0]] for batch in stream]
        ['fog', 'snow', 'fog', 'snow', 'fog', 'snow']
    """
    REGISTRY["recurring"].check_amount(rounds)
    return _in_turn("recurring", data, shifts, rounds, severity, batch_size, seed)


def _in_turn(
    kind: str, data: Data, shifts: Sequence[Shift], rounds: int | None, severity: int, batch_size: int, seed: int
) -> Stream:
    domains = domains_of(kind, data, shifts, severity, seed)
    order, group = (np.tile(each, rounds or 1) for each in (domains.order, domains.group))
    text = scenario_text(kind, list(domains.sources), rounds, severity)
    return Stream(
        domains.sources,
        domains.labels,
        order=order,
        group=group,
        batch_size=batch_size,
        name=text,
        folder_classes=folder_classes(data),
    )


@scenario("gradual:fog+snow", all_severities=True)
def gradual(
    data: Data,
    corruptions: str | Sequence[str | Sequence[Shift]],
    *,
    severity: int = 5,
    batch_size: int = 200,
    seed: int = 0,
) -> Stream:
    """A corruption whose severity rises from 1 to the highest and falls again, over one pass through the images.

    The images are divided into as many equal parts as there are steps up and down (nine for severity 5); their sizes
    differ by at most one. The groups are the severities: ``fog#1``, ``fog#2``, ... Several corruptions follow each
    other, each over all images. Each is a name, or instead of a name its stored sets from severity 1 on. Published
    comparisons show all images at every severity, nine times as many. The other arguments are those of ``pure``.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(100)
        >>> stream = midway.streams.gradual(data, "fog", severity=3, batch_size=20)
        >>> [stream.groups[batch.group[0]] for batch in stream]
        ['fog#1', 'fog#2', 'fog#3', 'fog#2', 'fog#1']
    """
    if not corruptions:
        raise ValueError("gradual needs at least one corruption.")
    corruptions = [corruptions] if isinstance(corruptions, str) else corruptions
    labels = labels_of(data)
    check_severity(severity)
    levels = [*range(1, severity + 1), *range(severity - 1, 0, -1)]  # up and down
    if len(labels) < len(levels):
        raise ValueError(f"{len(labels)} images are fewer than {len(levels)} steps of severity: use more images.")
    steps = np.array(levels)[np.arange(len(labels)) * len(levels) // len(labels)]
    sources: dict[str, ImageArray] = {}
    names: list[str] = []
    for corruption in corruptions:
        name = ""
        for level in range(1, severity + 1):
            shift = corruption if isinstance(corruption, str) else corruption[level - 1]
            name, images = source_of(data, shift, level, seed)
            sources[f"{name}#{level}"] = images
        names.append(name)
    if len(set(names)) < len(names):
        raise ValueError("gradual names a corruption twice: name each once.")
    order = np.tile(np.arange(len(labels)), len(names))
    group = np.concatenate([number * severity + steps - 1 for number in range(len(names))])
    text = scenario_text("gradual", names, None, severity)
    return Stream(
        sources, labels, order=order, group=group, batch_size=batch_size, name=text, folder_classes=folder_classes(data)
    )


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
    labels = labels_of(data)
    name, images = source_of(data, shift, severity, seed)
    order = distribute_classes(labels, concentration=concentration, seed=seed)
    text = scenario_text("dirichlet", [name], concentration, severity)
    return Stream(
        {name: images}, labels, order=order, batch_size=batch_size, name=text, folder_classes=folder_classes(data)
    )


def distribute_classes(labels: NDArray[np.int64], *, concentration: float, seed: int) -> NDArray[np.int64]:
    """Return an order of the images in which labels come in runs."""
    rng = np.random.default_rng((seed, len(labels)))
    classes = np.unique(labels)
    sections: list[list[NDArray[np.int64]]] = [[] for _ in classes]
    for label in classes:
        members = np.flatnonzero(labels == label)
        shares = shares_of(rng, len(classes), concentration)
        cuts = np.round(np.cumsum(shares)[:-1] * len(members)).astype(np.int64)
        for section, part in zip(sections, np.split(members, cuts), strict=True):
            section.append(part)
    return np.concatenate([rng.permutation(np.concatenate(section)) for section in sections])


def shares_of(rng: np.random.Generator, count: int, concentration: float) -> NDArray[np.float64]:
    """Draw shares from a symmetric Dirichlet distribution, in logarithms, because plain draws underflow near 0.

    log Gamma(a) = log Gamma(a + 1) + log(U) / a.
    """
    logs = np.log(rng.standard_gamma(concentration + 1, count)) + np.log1p(-rng.random(count)) / concentration
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())
