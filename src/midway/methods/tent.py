"""TENT: entropy minimisation at test time (Wang et al., ICLR 2021)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from midway.adaptation.about import About
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.statistics import use_batch_statistics
from midway.adaptation.checks import check_range
from midway.adaptation.losses import EntropyLoss, entropy_loss
from midway.adaptation.optimization import LazyOptimizer, OptimizerKind, Predict, adam_or_sgd
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.adaptation.problem import Problem
from midway.adaptation.registry import register
from midway.adaptation.space import Integers, LogUniform, search_over
from midway.functional import at_least_float32


@register
class Tent(Method):
    """Adapts scales and shifts of the normalisation layers to make predictions confident.

    For each batch, the optimiser takes steps on the mean entropy of the predictions, with batch statistics. The method
    returns the logits from before the (last) update, as published, which takes no further pass.

    Paper: Wang et al., ICLR 2021.

    Args:
        model: The classifier to adapt.
        optimizer: ``"adam"`` or ``"sgd"`` with momentum 0.9 (the paper: SGD for ImageNet); None chooses by image size.
        lr: Step size (the paper: 1e-3, or 2.5e-4 for ImageNet); None chooses by image size.
        betas: Averaging of Adam's moments (the paper: 0.9, 0.999).
        steps: Updates per batch (the paper: 1).
        predict: ``"before"`` the last update (the paper) or ``"after"`` it, at the cost of one more pass.
        loss: ``"entropy"``, or ``"come"`` in its place (Zhang et al., ICLR 2025).

    Example:
        >>> import midway, torch
        >>> adapted = midway.Tent(midway.models.create("resnet20"), lr=1e-3)
        >>> adapted(torch.rand(8, 3, 32, 32)).shape
        torch.Size([8, 10])
        >>> adapted.reset()
    """

    about = About(
        name="tent",
        title="TENT",
        colour="#0059a0",
        marker="^",
        paper="Wang et al., ICLR 2021",
        paradigm="batch",
        adapts="norm scales and shifts",
        predicts="before",
        passes="1 F + 1 B",
        needs=("norm layers", "batch statistics"),
        accepts_signals=True,
    )
    search_space = search_over(lr=LogUniform(1e-5, 1e-2), steps=Integers(1, 4))

    def __init__(
        self,
        model: nn.Module,
        *,
        optimizer: OptimizerKind | None = None,
        lr: float | None = None,
        betas: tuple[float, float] = (0.9, 0.999),
        steps: int = 1,
        predict: Predict = "before",
        loss: EntropyLoss = "entropy",
    ) -> None:
        super().__init__(model)
        check_range(at_least=1, steps=steps)
        check_range(at_least=0, or_none=True, lr=lr)
        self.entropy = entropy_loss(loss)
        self.steps, self.predict = steps, predict
        use_batch_statistics(self.model)
        trainable = freeze_all_but(self.model, norm_affine(self.model))
        self.optimizer = self.add_state("optimizer", LazyOptimizer(trainable, betas))

    @classmethod
    def defaults_for(cls, problem: Problem) -> dict[str, Any]:
        """Return the paper's optimiser and step size for CIFAR or for ImageNet."""
        return adam_or_sgd(problem, sgd_lr=2.5e-4)

    def step(self, images: Tensor) -> Tensor:
        """Minimise the mean entropy H(f(x)) and return f(x)."""
        logits: Tensor
        for _ in range(self.steps):
            logits = self.model(images)
            self.resolve(images, logits)
            self.optimizer_step(self.entropy(at_least_float32(logits)).mean(), self.optimizer)
        return logits if self.predict == "before" else self.network_logits(images)
