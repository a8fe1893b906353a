"""T3A: test-time template adjuster (Iwasawa and Matsuo, NeurIPS 2021)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from midway.adaptation.about import About
from midway.adaptation.base import Method
from midway.adaptation.head import features_and_logits, resolve_head
from midway.adaptation.registry import register
from midway.adaptation.space import Choice, search_over
from midway.functional import at_least_float32, entropy


@register
class T3A(Method):
    """Replaces the last layer by class prototypes computed from the features seen so far; no weight changes.

    The first supports are the rows of the classifier, each with the class that the classifier predicts for it (nearly
    always its own). Every image adds its features to the supports of its predicted class, and each class keeps the M
    supports with the lowest entropy. A logit is the inner product of the features with the direction of the class's
    summed unit supports, including those of the batch. The method uses the source's statistics.

    Paper: Iwasawa and Matsuo, NeurIPS 2021.

    Args:
        model: The classifier to adapt; it needs a linear head.
        supports: M, supports per class; -1 keeps all. The paper chooses among 1, 5, 20, 50, 100 and -1 on validation
            images; 100 is the value of a published comparison.
        head: Name of the linear head, if it cannot be detected.

    Attributes:
        unit_supports: Directions of the supports, (supports, width); their sums per class if M = -1.
        labels: Their classes.
        entropies: Their entropies under the classifier.

    Example:
        >>> import midway, torch
        >>> adapted = midway.T3A(midway.models.create("resnet20"))
        >>> adapted(torch.rand(8, 3, 32, 32)).shape, adapted.diagnostics["supports"]
        (torch.Size([8, 10]), 18)
    """

    about = About(
        name="t3a",
        title="T3A",
        colour="#aa4499",
        marker=">",
        paper="Iwasawa and Matsuo, NeurIPS 2021",
        paradigm="batch",
        adapts="class prototypes",
        predicts="after",
        passes="1 F",
        needs=("linear head",),
        accepts_signals=True,
    )
    names_layers = ("head",)
    search_space = search_over(supports=Choice(1, 5, 20, 50, 100, -1))

    def __init__(self, model: nn.Module, *, supports: int = 100, head: str | None = None) -> None:
        super().__init__(model)
        if supports < 1 and supports != -1:
            raise ValueError(f"supports must be at least 1, or -1 to keep all, got {supports}.")
        self.supports = supports
        self.head, layer = resolve_head(self, head)
        rows = layer.weight.detach()
        with torch.no_grad():
            answers = at_least_float32(layer(rows))
        self.entropies = self.add_state("entropies", entropy(answers))
        self.unit_supports = self.add_state("unit_supports", normalize(at_least_float32(rows), dim=1))
        self.labels = self.add_state("labels", answers.argmax(dim=1))  # not the row's class, as published
        self.seen = self.add_state("seen", len(rows))

    def step(self, images: Tensor) -> Tensor:
        """Add the batch to the supports and return the logits of the prototypes."""
        features, logits = features_and_logits(self.model, self.head, images)
        features, logits = features.to(self.unit_supports), at_least_float32(logits)
        classes = logits.shape[1]
        finite = features.isfinite().all(dim=1) & logits.isfinite().all(dim=1)  # others would spoil the prototype
        self.count("images_left_out", int((~finite).sum()))
        self.seen += int(finite.sum())
        self.unit_supports = torch.cat([self.unit_supports, normalize(features[finite], dim=1)])
        self.labels = torch.cat([self.labels, logits[finite].argmax(dim=1)])
        self.entropies = torch.cat([self.entropies, entropy(logits[finite])])
        if self.supports == -1:  # only their sums matter
            self.unit_supports = _sum_by_class(self.unit_supports, self.labels, classes)
            self.labels, self.entropies = torch.arange(classes, device=images.device), self.entropies[:classes]
            prototypes = self.unit_supports
        else:
            lowest = lowest_by_class(self.entropies, self.labels, self.supports)
            self.unit_supports, self.labels = self.unit_supports[lowest], self.labels[lowest]
            self.entropies = self.entropies[lowest]
            self.seen = len(lowest)
            prototypes = _sum_by_class(self.unit_supports, self.labels, classes)
        self.record(supports=self.seen)
        return features @ normalize(prototypes, dim=1).T


def lowest_by_class(values: Tensor, labels: Tensor, count: int) -> Tensor:
    """Return the indices of the ``count`` lowest values of each class, ascending; the earlier of equal values first."""
    order = values.argsort(stable=True)
    order = order[labels[order].argsort(stable=True)]  # by class, within a class by value
    sizes = labels.bincount()
    starts = sizes.cumsum(0) - sizes
    rank = torch.arange(len(order), device=order.device) - starts[labels[order]]
    return order[rank < count].sort().values


def _sum_by_class(rows: Tensor, labels: Tensor, classes: int) -> Tensor:
    return rows.new_zeros(classes, rows.shape[1]).index_add_(0, labels, rows)
