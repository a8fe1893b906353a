"""What fits the time there is: fewer images before fewer cells."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from midway.bench.estimate import Price

LEAST_BATCHES = 2
"""Below this nothing adapts from one batch to the next, and entries are left out instead."""

KEPT = ("source", "mita")
"""Entries that are never left out: without them there is nothing to compare."""


@dataclass(frozen=True)
class Fit:
    """What to run.

    Attributes:
        images: Of the data set, for every cell.
        available: Images there are.
        seconds: How long that will take, as far as a short trial tells.
        left_out: Label -> why an entry is not run.
    """

    images: int
    available: int
    seconds: float
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def reduced(self) -> bool:
        """Whether this is less than everything."""
        return self.images < self.available or bool(self.left_out)

    def save(self, path: Path) -> None:
        """Write as JSON; a kill leaves the old file or the new one, never half of one."""
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> Fit:
        """Read what ``save`` wrote.

        Raises:
            ValueError: The file holds something else.
        """
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} does not say what fits a budget ({error}): delete it to choose again.") from error


def read_duration(text: str) -> float:
    """Return the seconds of a duration such as ``90s``, ``30m``, ``1.5h`` or ``1h30m``.

    Example:
        >>> from midway.bench.budget import read_duration
        >>> read_duration("1h30m"), read_duration("45")
        (5400.0, 45.0)
    """
    number = r"(\d+(?:\.\d+)?)"
    parts = re.fullmatch(rf"(?:{number}h)?(?:{number}m)?(?:{number}s?)?", text.strip())
    hours, minutes, seconds = (float(part or 0) for part in parts.groups()) if parts else (0.0, 0.0, 0.0)
    duration = 3600 * hours + 60 * minutes + seconds
    if not duration:
        raise ValueError(f"'{text}' is no duration: write it like 90s, 30m or 1h30m.")
    return duration


def fit(
    prices: Mapping[str, Price],
    *,
    streams: Mapping[str, int],
    available: int,
    batch_size: int,
    budget: float,
    jobs: int = 1,
) -> Fit:
    """Choose how many images each cell gets so that everything together fits a time.

    Whole batches, two at least. Where that is still too long, the dearest entries are left out, but never Source and
    MITA: what remains may then take longer than the budget, and says so by its ``seconds``.

    Args:
        prices: Label -> what images cost.
        streams: Label -> streams it has still to run on, seeds counted.
        available: Images there are.
        batch_size: Images a batch.
        budget: Seconds.
        jobs: Cells that run at a time.

    Example:
        >>> from midway.bench.budget import fit
        >>> from midway.bench.estimate import Price
        >>> prices, streams = {"source": Price(0.125, 0.125), "mita": Price(0.875, 0.875)}, {"source": 6, "mita": 6}
        >>> fit(prices, streams=streams, available=10_000, batch_size=200, budget=6000)
        Fit(images=1000, available=10000, seconds=6000.0, left_out={})
    """
    least = min(available, LEAST_BATCHES * batch_size)
    kept, left_out = list(prices), {}

    def seconds(images: int, labels: Sequence[str]) -> float:
        return sum(prices[label].of(images) * streams[label] for label in labels) / jobs

    while seconds(least, kept) > budget:
        optional = [label for label in kept if label not in KEPT and streams[label]]
        if not optional or len(kept) == 1:
            break
        dearest = max(optional, key=lambda label: seconds(least, [label]))
        took = seconds(least, [dearest])
        left_out[dearest] = (
            f"{least} images of it would take about {took:.0f} s, more than the others leave of {budget:.0f} s"
        )
        kept.remove(dearest)
    sizes = [available, *range(available // batch_size * batch_size, least, -batch_size), least]
    images = next((size for size in sizes if seconds(size, kept) <= budget * (1 + 1e-9)), least)
    return Fit(images, available, seconds(images, kept), left_out)
