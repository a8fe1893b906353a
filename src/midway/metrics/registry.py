"""The registry of metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from torch import Tensor

from midway._registry import Registry

Better = Literal["higher", "lower"] | None


@dataclass(frozen=True)
class Answers:
    """The answers of a method to a stream or to one of its groups, with the true labels and the measured cost.

    Attributes:
        logits: float32 (N, classes), in the order of the stream.
        labels: int64 (N,); all -1 if there are none.
        group: int64 (N,), the index of each image's group.
        batch_seconds: Seconds of adaptation and answer, batch by batch.
        cost: The fields of ``midway.cost.Cost`` for one batch; empty if the cost was not measured.
        batch_sizes: Number of images, batch by batch.
        source: The logits of the unadapted network for the same images; None if they were not computed.
        mirrored: The method's logits for the mirrored images; None if they were not computed.
    """

    logits: Tensor
    labels: Tensor
    group: Tensor
    batch_seconds: tuple[float, ...] = ()
    cost: Mapping[str, float | None] = field(default_factory=dict)
    batch_sizes: tuple[int, ...] = ()
    source: Tensor | None = None
    mirrored: Tensor | None = None

    @property
    def labelled(self) -> bool:
        """Whether the true labels are known."""
        return not (len(self.labels) and bool((self.labels < 0).all()))

    @property
    def predictions(self) -> Tensor:
        """The predicted classes, (N,)."""
        return self.logits.argmax(dim=1)

    def of_group(self, index: int) -> Answers:
        """Return the answers to the images of one group."""
        chosen = self.group == index
        return replace(
            self,
            logits=self.logits[chosen],
            labels=self.labels[chosen],
            group=self.group[chosen],
            source=None if self.source is None else self.source[chosen],
            mirrored=None if self.mirrored is None else self.mirrored[chosen],
        )


@dataclass(frozen=True)
class Metric:
    """How a metric is computed and shown.

    Attributes:
        name: Its name in stored results, tables and exports.
        title: The heading of its column.
        compute: Function from answers to the value; None where it does not apply.
        unit: The unit after the value; empty if there is none.
        better: Which values are better; None if neither.
        digits: Decimal places in tables.
        by_group: It is also computed for each group of a stream.
        repeatable: Repeating a cell gives the same value; False for times and memory.
        needs_labels: It is not computed for images without labels.
    """

    name: str
    title: str
    compute: Callable[[Answers], float | None]
    unit: str = ""
    better: Better = None
    digits: int = 1
    by_group: bool = False
    repeatable: bool = True
    needs_labels: bool = True


METRICS: Registry[Metric] = Registry("metric", group="metrics", package="midway.metrics")
"""Every metric by name, in the order of registration."""


def metric(
    title: str,
    *,
    unit: str = "",
    better: Better = None,
    digits: int = 1,
    by_group: bool = False,
    repeatable: bool = True,
    needs_labels: bool = True,
) -> Callable[[Callable[[Answers], float | None]], Callable[[Answers], float | None]]:
    """Register a function from answers to a number as a metric under the function's name; see ``Metric``.

    It is computed for every cell of ``midway run`` and shown in tables, exports, reports and figures.

    Example:
        >>> import torch
        >>> from midway.metrics import METRICS, Answers, metric
        >>> @metric("confidence", unit="%", by_group=True)
        ... def mean_confidence(answers):
        ...     return 100 * answers.logits.softmax(dim=1).amax(dim=1).mean().item()
        >>> METRICS["mean_confidence"].compute(Answers(torch.zeros(3, 2), torch.zeros(3), torch.zeros(3)))
        50.0
        >>> METRICS.remove("mean_confidence")
    """

    def register(function: Callable[[Answers], float | None]) -> Callable[[Answers], float | None]:
        name = function.__name__.lstrip("_")
        METRICS.add(name, Metric(name, title, function, unit, better, digits, by_group, repeatable, needs_labels))
        return function

    return register


def compute(answers: Answers, *, of_group: bool = False) -> dict[str, float]:
    """Compute every metric that applies; for the images of one group only those with ``by_group``.

    Example:
        >>> import midway, torch
        >>> answers = midway.metrics.Answers(torch.eye(2), torch.tensor([0, 0]), torch.zeros(2))
        >>> midway.metrics.compute(answers, of_group=True)["accuracy"]
        50.0
    """
    chosen = [each for each in METRICS.values() if each.by_group or not of_group]
    if not answers.labelled:
        chosen = [each for each in chosen if not each.needs_labels]
    values = {each.name: each.compute(answers) for each in chosen}
    return {name: value for name, value in values.items() if value is not None}
