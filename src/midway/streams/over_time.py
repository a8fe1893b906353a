"""Streams that change as they go: corruptions in turn, severities that rise and fall, labels that come in runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from midway.data.image_set import ImageArray
from midway.streams.batch import Stream
from midway.streams.scenario import SEVERITY, scenario_name
from midway.streams.scenarios import Data, Shift, labels_of, source_of


def continual(
    data: Data,
    shifts: Sequence[Shift],
    *,
    severity: int = SEVERITY,
    batch_size: int = 200,
    seed: int = 0,
) -> Stream:
    """One shift after another, all images of each; whoever adapts is not told when the shift changes.

    The batch at a change holds images of both shifts where the images do not fill whole batches.

    Args:
        data: A data set, or a pair of images (N, H, W, C) uint8 and labels (N,).
        shifts: Corruptions by name, ``"clean"``, or aligned sets of shifted images, in the order they come.
        severity: 1 to 5.
        batch_size: Images a batch.
        seed: Seed of the corruptions' randomness.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(400)
        >>> midway.streams.continual(data, ["fog", "snow", "frost"])
        Stream('continual:fog+snow+frost', 1200 images in 6 batches)
    """
    return _in_turn("continual", data, shifts, None, severity, batch_size, seed)


def recurring(
    data: Data,
    shifts: Sequence[Shift],
    *,
    rounds: int = 2,
    severity: int = SEVERITY,
    batch_size: int = 200,
    seed: int = 0,
) -> Stream:
    """A continual stream that starts again after its last shift, with the same images.

    Args:
        data: A data set, or a pair of images (N, H, W, C) uint8 and labels (N,).
        shifts: Corruptions by name, ``"clean"``, or aligned sets of shifted images, in the order they come.
        rounds: How often every shift comes.
        severity: 1 to 5.
        batch_size: Images a batch.
        seed: Seed of the corruptions' randomness.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(200)
        >>> stream = midway.streams.recurring(data, ["fog", "snow"], rounds=3)
        >>> [stream.groups[batch.group[0]] for batch in stream]
        ['fog', 'snow', 'fog', 'snow', 'fog', 'snow']
    """
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}.")
    return _in_turn("recurring", data, shifts, rounds, severity, batch_size, seed)


def _in_turn(
    kind: str, data: Data, shifts: Sequence[Shift], rounds: int | None, severity: int, batch_size: int, seed: int
) -> Stream:
    if not shifts:
        raise ValueError(f"{kind} needs at least one shift.")
    sources = dict(source_of(data, shift, severity, seed) for shift in shifts)
    if len(sources) < len(shifts):
        raise ValueError(f"{kind} names a shift twice: name each once, and use recurring to have them come again.")
    labels = labels_of(data)
    return Stream(
        sources,
        labels,
        order=np.tile(np.arange(len(labels)), len(sources) * (rounds or 1)),
        group=np.tile(np.repeat(np.arange(len(sources)), len(labels)), rounds or 1),
        batch_size=batch_size,
        name=scenario_name(kind, list(sources), rounds, severity),
    )


def gradual(
    data: Data,
    corruptions: str | Sequence[str | Sequence[Shift]],
    *,
    severity: int = SEVERITY,
    batch_size: int = 200,
    seed: int = 0,
) -> Stream:
    """A corruption that grows from severity 1 to the highest and fades again, over one pass through the images.

    The images are cut into as many equal parts as there are steps up and down (nine for severity 5), give or take an
    image. The groups are the severities: ``fog#1``, ``fog#2``, ... Several corruptions come in turn, each over all
    images.

    Args:
        data: A data set, or a pair of images (N, H, W, C) uint8 and labels (N,).
        corruptions: A name or several; in place of a name, the stored sets of its severities from 1 on.
        severity: The highest one, 1 to 5.
        batch_size: Images a batch.
        seed: Seed of the corruptions' randomness.

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
    levels = severities_up_and_down(severity)
    if len(labels) < len(levels):
        raise ValueError(f"{len(labels)} images do not show {len(levels)} steps of severity: use more images.")
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
    return Stream(
        sources,
        labels,
        order=np.tile(np.arange(len(labels)), len(names)),
        group=np.concatenate([number * severity + steps - 1 for number in range(len(names))]),
        batch_size=batch_size,
        name=scenario_name("gradual", names, None, severity),
    )


def severities_up_and_down(highest: int) -> list[int]:
    """List the severities of a gradual stream.

    Example:
        >>> from midway.streams.over_time import severities_up_and_down
        >>> severities_up_and_down(3)
        [1, 2, 3, 2, 1]
    """
    if highest not in range(1, 6):
        raise ValueError(f"severity must be a whole number from 1 to 5, got {highest}.")
    return [*range(1, highest + 1), *range(highest - 1, 0, -1)]


def dirichlet(
    data: Data,
    shift: Shift,
    *,
    concentration: float = 0.1,
    severity: int = SEVERITY,
    batch_size: int = 200,
    seed: int = 0,
) -> Stream:
    """One shift whose labels come in runs: neighbours in the stream tend to be of the same class.

    Every image comes once. The stream has as many stretches as there are classes; each class is dealt out over them
    in shares drawn from a Dirichlet distribution, and a stretch is shuffled. Near 0 every class sits in one stretch,
    alone or with a few others; towards infinity all stretches are alike.

    Args:
        data: A data set, or a pair of images (N, H, W, C) uint8 and labels (N,).
        shift: A corruption by name, ``"clean"``, or an aligned set of shifted images.
        concentration: Of the Dirichlet distribution, above 0.
        severity: 1 to 5.
        batch_size: Images a batch.
        seed: Seed of the order and of the corruption's randomness.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(400)
        >>> stream = midway.streams.dirichlet(data, "fog", concentration=0.01, batch_size=40)
        >>> batch = next(iter(stream))
        >>> batch.labels.bincount().max().item() > 20  # of 40 images; about 4 in data-set order
        True
    """
    if not concentration > 0:
        raise ValueError(f"concentration must be above 0, got {concentration}.")
    labels = labels_of(data)
    name, images = source_of(data, shift, severity, seed)
    order = deal_out_classes(labels, concentration=concentration, seed=seed)
    return Stream(
        {name: images},
        labels,
        order=order,
        group=np.zeros_like(order),
        batch_size=batch_size,
        name=scenario_name("dirichlet", [name], concentration, severity),
    )


def deal_out_classes(labels: NDArray[np.int64], *, concentration: float, seed: int) -> NDArray[np.int64]:
    """Order images so that their labels come in runs.

    Example:
        >>> import numpy as np
        >>> from midway.streams.over_time import deal_out_classes
        >>> labels = np.tile(np.arange(3), 4)
        >>> order = deal_out_classes(labels, concentration=1e-3, seed=0)
        >>> labels[order].tolist()
        [2, 1, 2, 1, 2, 2, 1, 1, 0, 0, 0, 0]
    """
    rng = np.random.default_rng((seed, len(labels)))
    classes = np.unique(labels)
    stretches: list[list[NDArray[np.int64]]] = [[] for _ in classes]
    for label in classes:
        members = np.flatnonzero(labels == label)
        shares = _shares(rng, len(classes), concentration)
        cuts = np.round(np.cumsum(shares)[:-1] * len(members)).astype(np.int64)
        for stretch, part in zip(stretches, np.split(members, cuts), strict=True):
            stretch.append(part)
    return np.concatenate([rng.permutation(np.concatenate(stretch)) for stretch in stretches])


def _shares(rng: np.random.Generator, count: int, concentration: float) -> NDArray[np.float64]:
    """Draw shares from a symmetric Dirichlet distribution, by logarithms: plain draws all vanish near 0.

    log Gamma(a) = log Gamma(a + 1) + log(U) / a.
    """
    logs = np.log(rng.standard_gamma(concentration + 1, count)) + np.log1p(-rng.random(count)) / concentration
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())
