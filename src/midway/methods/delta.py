"""DELTA: degradation-free test-time adaptation, TBR and DOT (Zhao et al., ICLR 2023)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from midway.adaptation.about import About
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.renormalization import use_renormalized_statistics
from midway.adaptation.batch_norm.replacement import updating_statistics
from midway.adaptation.checks import check_range
from midway.adaptation.losses import EntropyLoss, entropy_loss
from midway.adaptation.optimization import LazyOptimizer, OptimizerKind, Predict, adam_or_sgd
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.adaptation.problem import Problem
from midway.adaptation.registry import register
from midway.adaptation.selection import certainty_weights, confident, record_shares, reliable
from midway.adaptation.space import Choice, Integers, LogUniform, Uniform, search_over
from midway.functional import at_least_float32

Objective = Literal["entropy", "weighted", "pseudo"]


def dot(losses: Tensor, labels: Tensor, z: Tensor) -> Tensor:
    """Return losses times DOT's weights, 1 / z[y] of their predicted classes y, scaled to a mean of 1.

    Example:
        >>> import torch
        >>> from midway.methods.delta import dot
        >>> dot(torch.ones(3), torch.tensor([0, 0, 1]), z=torch.tensor([0.8, 0.2]))  # 1.25, 1.25 and 5, over 2.5
        tensor([0.5000, 0.5000, 2.0000])
    """
    weights = 1 / z[labels]
    return losses * weights * (len(weights) / weights.sum())


@register
class DELTA(Method):
    """TENT for streams whose classes are not balanced: moving statistics (TBR) and class-wise weights (DOT).

    TBR normalises with moving averages of batch statistics instead of those of one batch. DOT weights the loss of each
    image by the inverse of the moving frequency of its predicted class, so frequent classes do not dominate. Both are
    added to the loss of another method. The method returns the logits from before the (last) update.

    Paper: Zhao et al., ICLR 2023.

    Args:
        model: The classifier to adapt.
        objective: ``"entropy"`` (as in TENT); ``"weighted"``: entropy of the images with H < margin ln C, with weight
            exp(margin ln C - H); ``"pseudo"``: cross-entropy with the predicted class, for images above the threshold.
            The paper reports all three.
        margin: Largest entropy with ``"weighted"``, as a share of ln C (published: 0.5).
        threshold: Smallest confidence with ``"pseudo"`` (published: 0.4).
        averaging: Share of the past in the statistics (published: 0.95).
        class_averaging: Share of the past in the frequencies of the classes (published: 0.95).
        optimizer: ``"adam"`` (the paper for CIFAR-100) or ``"sgd"`` with momentum 0.9 (ImageNet); None chooses by size.
        lr: Step size (the paper: 1e-3 for CIFAR-100, 2.5e-4 for ImageNet); None chooses by image size.
        steps: Updates per batch (published: 1). Every pass of an update moves the statistics.
        predict: ``"before"`` the last update (published) or ``"after"`` it, at the cost of one more pass.
        loss: ``"entropy"``, or ``"come"`` in its place, in the loss and in the margin (Zhang et al., ICLR 2025).

    Example:
        >>> import midway, torch
        >>> adapted = midway.DELTA(midway.models.create("resnet20"))
        >>> adapted(torch.rand(8, 3, 32, 32)).shape, adapted.frequencies.sum().round(decimals=4).item()
        (torch.Size([8, 10]), 1.0)
    """

    about = About(
        name="delta",
        title="DELTA",
        colour="#5c8a3c",
        marker="8",
        paper="Zhao et al., ICLR 2023",
        paradigm="batch",
        adapts="norm scales and shifts, BatchNorm statistics",
        predicts="before",
        passes="1 F + 1 B",
        needs=("norm layers", "batch statistics"),
        accepts_signals=True,
    )
    uses_source_statistics = True  # it replaces the layers, and so does clustered
    search_space = search_over(
        objective=Choice("entropy", "weighted", "pseudo"),
        averaging=Uniform(0.5, 0.99),
        class_averaging=Uniform(0.5, 0.99),
        lr=LogUniform(1e-5, 1e-2),
        steps=Integers(1, 4),
    )

    def __init__(
        self,
        model: nn.Module,
        *,
        objective: Objective = "entropy",
        margin: float = 0.5,
        threshold: float = 0.4,
        averaging: float = 0.95,
        class_averaging: float = 0.95,
        optimizer: OptimizerKind | None = None,
        lr: float | None = None,
        steps: int = 1,
        predict: Predict = "before",
        loss: EntropyLoss = "entropy",
    ) -> None:
        super().__init__(model)
        check_range(at_least=1, steps=steps)
        check_range(at_least=0, or_none=True, lr=lr)
        check_range(above=0, margin=margin)
        check_range(at_least=0, below=1, threshold=threshold, averaging=averaging, class_averaging=class_averaging)
        self.entropy = entropy_loss(loss)
        self.objective, self.margin, self.threshold = objective, margin, threshold
        self.class_averaging, self.steps, self.predict = class_averaging, steps, predict
        self.layers = use_renormalized_statistics(self.model, averaging)
        trainable = freeze_all_but(self.model, norm_affine(self.model))
        self.optimizer = self.add_state("optimizer", LazyOptimizer(trainable))
        self.frequencies: Tensor | None = self.add_state("frequencies", None)

    @classmethod
    def defaults_for(cls, problem: Problem) -> dict[str, Any]:
        """Return the paper's optimiser and step size for CIFAR or for ImageNet."""
        return adam_or_sgd(problem, sgd_lr=2.5e-4)

    def step(self, images: Tensor) -> Tensor:
        """Minimise the weighted loss, update the frequencies of the classes, and return f(x)."""
        logits: Tensor
        for _ in range(self.steps):
            with updating_statistics(self.model):
                logits = self.model(images)
            self.resolve(images, logits)
            self._update(at_least_float32(logits))
        return logits if self.predict == "before" else self.network_logits(images)

    def _update(self, logits: Tensor) -> None:
        """Take the step with weights from the frequencies so far, then update these."""
        p = logits.detach().softmax(dim=1)
        uniform = torch.full_like(p[0], 1 / p.shape[1])
        past = uniform if self.frequencies is None else self.frequencies.to(p)
        losses, selected = self.losses(logits)
        losses = dot(losses, p.argmax(dim=1), past)  # over all images, before they are selected
        record_shares(self, selected=selected)
        if selected.any():
            self.optimizer_step(losses[selected].mean(), self.optimizer)
        mean = p.mean(dim=0)
        if bool(mean.isfinite().all()):
            self.frequencies = self.class_averaging * past + (1 - self.class_averaging) * mean

    def losses(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of each image without DOT, and which images count."""
        detached = logits.detach()
        if self.objective == "pseudo":
            return cross_entropy(logits, detached.argmax(dim=1), reduction="none"), confident(detached, self.threshold)
        entropies = self.entropy(logits)
        if self.objective == "entropy":
            return entropies, torch.ones_like(entropies, dtype=torch.bool)
        weights = certainty_weights(entropies, self.margin, logits.shape[1])
        return weights * entropies, reliable(detached, self.margin, self.entropy)
