"""Streams from the text of a scenario."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from midway.data.image_set import ImageSet
from midway.streams.batch import Stream
from midway.streams.over_time import continual, dirichlet, gradual, recurring
from midway.streams.scenario import Scenario
from midway.streams.scenarios import Data, Shift, mixture, outlier, pure

Shifted = Callable[[str, int], ImageSet]
"""Gives the images of a shift at a severity; all sets it gives show the same images in the same order."""


def build(scenario: Scenario | str, data: Data | Shifted, *, batch_size: int = 200, seed: int = 0) -> Stream:
    """Make the stream that a scenario describes.

    Args:
        scenario: A scenario or its text.
        data: Clean images, corrupted here when they are due; or a function from the name of a shift and a severity
            to images that are shifted already, such as those of CIFAR-10-C or of a domain.
        batch_size: Images a batch.
        seed: Seed of orders, places and corruptions.

    Example:
        >>> import midway
        >>> data = midway.data.load("cifar10-mini").first(400)
        >>> midway.streams.build("mixture:glass_blur/gaussian_noise#3", data)
        Stream('mixture:glass_blur/gaussian_noise@0.5#3', 400 images in 2 batches)
    """
    if isinstance(scenario, str):
        scenario = Scenario.parse(scenario)
    severity, amount = scenario.severity, scenario.amount or 0
    common: dict[str, Any] = {"severity": severity, "batch_size": batch_size, "seed": seed}
    shifts: list[Shift]
    if callable(data):
        if scenario.kind == "gradual":
            levels = [[data(shift, level) for level in range(1, severity + 1)] for shift in scenario.shifts]
            return gradual(levels[0][0], levels, **common)
        sets = [data(shift, severity) for shift in scenario.shifts]
        base: Data = sets[0]
        shifts = [*sets]
    else:
        base = data
        shifts = [*scenario.shifts]
    match scenario.kind:
        case "pure":
            return pure(base, shifts[0], **common)
        case "outlier":
            return outlier(base, shifts[0], shifts[1], ratio=amount, **common)
        case "mixture":
            return mixture(base, shifts[0], shifts[1], ratio=amount, **common)
        case "continual":
            return continual(base, shifts, **common)
        case "recurring":
            return recurring(base, shifts, rounds=int(amount), **common)
        case "gradual":
            return gradual(base, scenario.shifts, **common)
        case _:
            return dirichlet(base, shifts[0], concentration=amount, **common)
