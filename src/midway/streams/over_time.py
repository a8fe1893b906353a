"""Scenarios of several shifts: one after the other, in random order, mixed, with severities that rise and fall."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
    domains = domains_of("continual", data, shifts, severity, seed)
    return domains.stream("continual", None, severity=severity, batch_size=batch_size)


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
    domains = domains_of("recurring", data, shifts, severity, seed)
    order = np.tile(np.arange(len(domains.order)), rounds)
    return domains.stream("recurring", order, amount=rounds, severity=severity, batch_size=batch_size)


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
    parts = domains.in_parts(lambda labels, rng: rng.permutation(len(labels)), seed)
    return domains.stream("shuffled", parts, severity=severity, batch_size=batch_size)


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
    return domains.stream("random_order", order, severity=severity, batch_size=batch_size)


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
    order = domains.random(seed).permutation(len(domains.order))
    return domains.stream("mixed", order, severity=severity, batch_size=batch_size)


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
