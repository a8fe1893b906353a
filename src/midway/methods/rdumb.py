"""RDumb: ETA that returns to the source at regular intervals (Press et al., NeurIPS 2023)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from midway.adaptation.about import About
from midway.adaptation.checks import check_range
from midway.adaptation.losses import EntropyLoss
from midway.adaptation.optimization import OptimizerKind
from midway.adaptation.problem import Problem
from midway.adaptation.registry import register
from midway.adaptation.selection import redundancy_margin
from midway.adaptation.space import Integers, LogUniform, Uniform, search_over
from midway.methods.eata import EATA

INTERVAL = 1000


@register
class RDumb(EATA):
    """Resets weights, optimiser and mean prediction of ETA (EATA without Fisher images) every 1,000 batches.

    It is a baseline for long streams, on which most methods end below the source. On shorter streams, it is ETA.
    ``midway.Periodic`` resets any other method.

    Paper: Press et al., NeurIPS 2023.

    Args:
        model: The classifier to adapt.
        every: Batches between two resets (the paper: 1,000).
        margin: Largest entropy of a reliable image, as a share of ln C (published: 0.4; one of the authors' two
            repositories has 0.355).
        redundancy: d, largest cosine to the mean prediction (the paper: 0.05 for ImageNet; published comparisons: 0.4
            for CIFAR-10 and CIFAR-100); None chooses by the number of classes.
        averaging: Share of the past in the mean prediction (the paper: 0.9).
        optimizer: ``"adam"`` (published comparisons for CIFAR) or ``"sgd"`` with momentum 0.9 (the paper for ImageNet).
        lr: Step size (published comparisons: 1e-3 for CIFAR; the paper: 2.5e-4 for ImageNet).
        loss: ``"entropy"``, or ``"come"`` in its place, in the loss and in the filter (Zhang et al., ICLR 2025).

    Example:
        >>> import midway, torch
        >>> adapted = midway.RDumb(midway.models.create("resnet20"), every=2)
        >>> logits = [adapted(torch.rand(8, 3, 32, 32)) for _ in range(5)]
        >>> adapted.diagnostics["resets"]
        2
    """

    about = About(
        name="rdumb",
        title="RDumb",
        colour="#2e4057",
        marker="X",
        paper="Press et al., NeurIPS 2023",
        paradigm="batch",
        adapts="norm scales and shifts",
        predicts="before",
        passes="1 F + 1 B of the selected",
        needs=("norm layers", "batch statistics"),
        accepts_signals=True,
    )
    search_space = search_over(
        every=Integers(10, 1000, log=True),
        margin=Uniform(0.2, 0.8),
        redundancy=Uniform(0.05, 0.9),
        lr=LogUniform(1e-5, 1e-2),
    )

    def __init__(
        self,
        model: nn.Module,
        *,
        every: int = INTERVAL,
        margin: float = 0.4,
        redundancy: float | None = None,
        averaging: float = 0.9,
        optimizer: OptimizerKind | None = None,
        lr: float | None = None,
        loss: EntropyLoss = "entropy",
    ) -> None:
        super().__init__(
            model,
            margin=margin,
            redundancy=redundancy,
            averaging=averaging,
            optimizer=optimizer,
            lr=lr,
            loss=loss,
        )
        check_range(at_least=1, every=every)
        self.every = every
        self.batches: int = self.add_state("batches", 0)

    @classmethod
    def defaults_for(cls, problem: Problem) -> dict[str, Any]:
        """Return the paper's values for ImageNet and those of comparisons for CIFAR; other redundancies are EATA's."""
        defaults = super().defaults_for(problem)
        del defaults["fisher_weight"]
        return defaults | {"redundancy": 0.4 if 10 <= problem.classes <= 100 else redundancy_margin(problem.classes)}

    def step(self, images: Tensor) -> Tensor:
        """Reset if the interval is over, then adapt and predict as ETA."""
        if self.batches == self.every:
            self.reset(keep=("records", "resolved"))
            self.count("resets")
        self.batches += 1
        return super().step(images)
