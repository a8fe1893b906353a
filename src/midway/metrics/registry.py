"""The registry of metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from torch import Tensor

from midway._registry import Registry

Better = Literal["higher", "lower"] | None
Need = Literal["labels", "cost", "logits"]


@dataclass(frozen=True)
class Predictions:
    """The predictions of a method for a stream or for one of its groups, with the true labels and the measured cost.

    Attributes:
        logits: float32 (N, classes), in the order of the stream.
        labels: int64 (N,); all -1 if there are none.
        group: int64 (N,), the index of each image's group.
        batch_seconds: Seconds of adaptation and prediction, batch by batch.
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
    def predicted(self) -> Tensor:
        """The predicted classes, (N,)."""
        return self.logits.argmax(dim=1)

    def of_group(self, index: int) -> Predictions:
        """Return the predictions for the images of one group."""
        chosen = self.group == index
        return replace(
            self,
            logits=self.logits[chosen],
            labels=self.labels[chosen],
            group=self.group[chosen],
            source=None if self.source is None else self.source[chosen],
            mirrored=None if self.mirrored is None else self.mirrored[chosen],
        )


@dataclass(frozen=True, kw_only=True)
class Heading:
    """How numbers of one kind are shown.

    Attributes:
        title: The heading of their column.
        unit: The unit after the value; empty if there is none.
        better: Which values are better; None if neither.
        digits: Decimal places in tables.
    """

    title: str
    unit: str = ""
    better: Better = None
    digits: int = 1


@dataclass(frozen=True, kw_only=True)
class Metric(Heading):
    """How a metric is computed and shown.

    Attributes:
        name: Its name in stored results, tables and exports.
        compute: Function from predictions to the value; None where it does not apply.
        needs: What it is computed from: ``"labels"``, in every run whose images have some; ``"cost"``, in every run;
            ``"logits"``, without labels: ``midway.compare`` computes these label-free scores beside the source's.
        by_group: It is also computed for each group of a stream.
        repeatable: Repeating a cell gives the same value; False for times and memory.
    """

    name: str
    compute: Callable[[Predictions], float | None]
    needs: Need = "labels"
    by_group: bool = False
    repeatable: bool = True


METRICS: Registry[Metric] = Registry("metric", group="metrics", package="midway.metrics")
"""Every metric by name, in the order of registration."""


def metric(
    title: str,
    *,
    unit: str = "",
    better: Better = None,
    digits: int = 1,
    needs: Need = "labels",
    by_group: bool = False,
    repeatable: bool = True,
) -> Callable[[Callable[[Predictions], float | None]], Callable[[Predictions], float | None]]:
    """Register a function from predictions to a number as a metric under the function's name; see ``Metric``.

    It is computed for every cell of ``midway run`` and shown in tables, exports, reports and figures; one that needs
    just the logits is computed by ``midway.compare``.

    Example:
        >>> import torch
        >>> from midway.metrics import METRICS, Predictions, metric
        >>> @metric("confidence", unit="%", by_group=True)
        ... def mean_confidence(predictions):
        ...     return 100 * predictions.logits.softmax(dim=1).amax(dim=1).mean().item()
        >>> METRICS["mean_confidence"].compute(Predictions(torch.zeros(3, 2), torch.zeros(3), torch.zeros(3)))
        50.0
        >>> METRICS.remove("mean_confidence")
    """

    def register(function: Callable[[Predictions], float | None]) -> Callable[[Predictions], float | None]:
        name = function.__name__.lstrip("_")
        new = Metric(
            name=name,
            title=title,
            compute=function,
            unit=unit,
            better=better,
            digits=digits,
            needs=needs,
            by_group=by_group,
            repeatable=repeatable,
        )
        METRICS.add(name, new)
        return function

    return register


def compute(predictions: Predictions, *, of_group: bool = False, label_free: bool = False) -> dict[str, float]:
    """Compute every metric of a run that applies, or the label-free scores.

    Args:
        predictions: The predictions of a method.
        of_group: They are for the images of one group: compute only metrics with ``by_group``.
        label_free: Compute the metrics that need just the logits instead.

    Example:
        >>> import torch
        >>> from midway.metrics import Predictions, compute
        >>> logits = torch.tensor([[9.0, 0.0], [0.0, 9.0]])
        >>> predictions = Predictions(logits, torch.tensor([0, 0]), torch.zeros(2), source=logits.flip(0))
        >>> compute(predictions, of_group=True)["accuracy"]
        50.0
        >>> compute(predictions, label_free=True)["changed"]
        100.0
    """
    needs = {"logits"} if label_free else {"labels", "cost"} if predictions.labelled else {"cost"}
    chosen = [each for each in METRICS.values() if each.needs in needs and (each.by_group or not of_group)]
    values = {each.name: each.compute(predictions) for each in chosen}
    return {name: value for name, value in values.items() if value is not None}
