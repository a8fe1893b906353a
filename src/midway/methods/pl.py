"""PL: pseudo labels at test time (Lee, ICML workshops 2013)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from midway.adaptation.about import About
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.statistics import use_batch_statistics
from midway.adaptation.checks import check_range
from midway.adaptation.optimization import Predict
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.adaptation.registry import register
from midway.adaptation.selection import pseudo_label_loss, record_shares
from midway.adaptation.space import Integers, LogUniform, Uniform, preset_values, search_over
from midway.functional import at_least_float32


@register
class PL(Method):
    """Trains scales and shifts of the normalisation layers on the network's own confident predictions as labels.

    The loss is the cross-entropy between f(x) and its most probable class, over the images whose largest probability is
    above the threshold. If there are none, no step is taken. The method returns the logits from before the (last)
    update.

    The paper uses pseudo labels in training, not at test time. ``preset="published"`` is the setting of the comparison
    in TEA's code, which adapts all weights in small steps; the defaults adapt what TENT adapts, with its step size and
    batch statistics, and differ from TENT only in the loss.

    Paper: Lee, ICML workshops 2013.

    Args:
        model: The classifier to adapt.
        threshold: Smallest confidence of a pseudo label (TEA's comparison: 0.9).
        trainable: ``"norm"`` scales and shifts, or ``"all"`` weights (TEA's comparison).
        batch_statistics: Normalise with the statistics of the batch; False uses the source's (TEA's comparison).
        lr: Step size of Adam (TEA's comparison: 1e-5).
        betas: Averaging of Adam's moments (Adam's own: 0.9, 0.999).
        steps: Updates per batch (TEA's comparison: 1).
        predict: ``"before"`` the last update (TEA's comparison) or ``"after"`` it, at the cost of one more pass.

    Example:
        >>> import midway, torch
        >>> adapted = midway.PL(midway.models.create("resnet20"), threshold=0.5)
        >>> adapted(torch.rand(8, 3, 32, 32)).shape
        torch.Size([8, 10])
    """

    about = About(
        name="pl",
        title="PL",
        colour="#44aa99",
        marker="v",
        paper="Lee, ICML workshops 2013",
        paradigm="batch",
        adapts="norm scales and shifts",
        predicts="before",
        passes="1 F + 1 B",
        needs=("norm layers", "batch statistics"),
        accepts_signals=True,
    )
    search_space = search_over(threshold=Uniform(0.5, 0.99), lr=LogUniform(1e-5, 1e-2), steps=Integers(1, 4))

    published = preset_values(trainable="all", batch_statistics=False, lr=1e-5)

    def __init__(
        self,
        model: nn.Module,
        *,
        threshold: float = 0.9,
        trainable: Literal["norm", "all"] = "norm",
        batch_statistics: bool = True,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        steps: int = 1,
        predict: Predict = "before",
    ) -> None:
        super().__init__(model)
        check_range(at_least=1, steps=steps)
        check_range(at_least=0, below=1, threshold=threshold)
        check_range(at_least=0, lr=lr)
        self.threshold, self.steps, self.predict = threshold, steps, predict
        if batch_statistics:
            use_batch_statistics(self.model)
        parameters = norm_affine(self.model) if trainable == "norm" else dict(self.model.named_parameters())
        optimizer = torch.optim.Adam(freeze_all_but(self.model, parameters), lr=lr, betas=betas)
        self.optimizer = self.add_state("optimizer", optimizer)

    def step(self, images: Tensor) -> Tensor:
        """Train on the confident predictions and return f(x)."""
        logits: Tensor
        for _ in range(self.steps):
            logits = self.model(images)
            loss, sure = pseudo_label_loss(at_least_float32(logits), self.threshold)
            record_shares(self, selected=sure)
            if sure.any():
                self.optimizer_step(loss, self.optimizer)
        return logits if self.predict == "before" else self.network_logits(images)
