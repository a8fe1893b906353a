"""Scenarios in which classes are not equally frequent: label shift over time, long tails."""

from __future__ import annotations

import numpy as np

from midway.streams.domains import domains_of
from midway.streams.registry import REGISTRY, scenario
from midway.streams.scenarios import Shift
from midway.streams.stream import Data, Stream

DRAWS_PER_IMAGE = 2  # 100,000 draws from the 50,000 images of ImageNet-C, as published


@scenario("imbalanced:fog@500000", amount="positive")
def imbalanced(
    data: Data, shift: Shift, *, ratio: float = 500_000, severity: int = 5, batch_size: int = 200, seed: int = 0
) -> Stream:
    """One shift with a label shift over time, as in SAR: in each of C periods one class is ``ratio`` times as likely.

    The classes take their turns in random order. Images are drawn with replacement, two draws per image of the data
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
    domains = domains_of("imbalanced", data, [shift], severity, seed, by_label=True)
    labels, rng = domains.labels, domains.random(seed)
    classes = rng.permutation(np.unique(labels))
    draws = max(1, DRAWS_PER_IMAGE * len(labels) // len(classes))
    drawn = []
    for period in range(len(classes)):
        weights = np.where(np.arange(len(classes)) == period, ratio, 1.0)
        drawn.append(rng.choice(classes, size=draws, p=weights / weights.sum()))
    order = np.array([rng.choice(np.flatnonzero(labels == label)) for label in np.concatenate(drawn)])
    return domains.stream("imbalanced", order, amount=ratio, severity=severity, batch_size=batch_size)


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
    domains = domains_of("long_tailed", data, [shift], severity, seed, by_label=True)
    labels, rng = domains.labels, domains.random(seed)
    classes = np.unique(labels)
    shares = ratio ** (np.arange(len(classes)) / max(1, len(classes) - 1))
    counts = np.floor(shares / shares.sum() * len(labels)).astype(np.int64) + 1
    drawn = [
        rng.choice(np.flatnonzero(labels == label), size=count) for label, count in zip(classes, counts, strict=True)
    ]
    order = rng.permutation(np.concatenate(drawn))
    return domains.stream("long_tailed", order, amount=ratio, severity=severity, batch_size=batch_size)
