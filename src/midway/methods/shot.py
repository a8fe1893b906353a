"""SHOT, online: information maximisation and pseudo labels under a frozen head (Liang et al., ICML 2020)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from midway.adaptation.about import About
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.statistics import use_batch_statistics
from midway.adaptation.checks import check_range
from midway.adaptation.head import body_of, resolve_head
from midway.adaptation.losses import EntropyLoss, entropy_loss
from midway.adaptation.optimization import Predict
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.adaptation.registry import register
from midway.adaptation.selection import pseudo_label_loss, record_shares
from midway.adaptation.space import Choice, Integers, LogUniform, Uniform, preset_values, search_over
from midway.functional import at_least_float32, entropy


def information_maximization(logits: Tensor, measure: Callable[[Tensor], Tensor] = entropy) -> Tensor:
    """Return L_ent + L_div: the mean entropy of the predictions, or another measure, minus the entropy of their mean.

    It is lowest, -ln C, if each prediction is certain and all classes are equally frequent.

    Example:
        >>> import torch
        >>> from midway.methods.shot import information_maximization
        >>> certain = 99 * torch.eye(4)
        >>> information_maximization(certain).exp(), information_maximization(certain[[0, 0]]).exp()
        (tensor(0.2500), tensor(1.))
    """
    log_mean = logits.log_softmax(dim=1).logsumexp(dim=0, keepdim=True)  # ln of the mean prediction, plus ln N
    return measure(logits).mean() - entropy(log_mean).squeeze(0)


@register
class SHOT(Method):
    """Adapts weights before the head to make each prediction certain and the predictions together diverse.

    The loss is the mean entropy, minus the entropy of the mean prediction, plus a share of the cross-entropy with the
    network's own confident predictions. The head is frozen, which preserves the meaning of the features. The method
    uses batch statistics, sees the stream once, and returns the logits from before the (last) update.

    Paper: Liang et al., ICML 2020.

    Args:
        model: The classifier to adapt.
        trainable: ``"norm"``: scales and shifts of the normalisation layers (TEA's comparison); ``"body"``: all
            weights but the head's (SHOT's paper, over many epochs; online, 1e-4 is a better step size for these).
        head: Name of the last linear layer; None detects it. Only ``trainable="body"`` needs it.
        pseudo_weight: Weight of the cross-entropy (SHOT's and TEA's code: 0.3, which is ``preset="published"``; T3A's
            comparison: 0.1).
        threshold: Smallest confidence of a pseudo label (TEA's and T3A's comparisons: 0.9).
        lr: Step size of Adam (TEA's comparison: 1e-3 for CIFAR-10, 1e-4 for CIFAR-100).
        betas: Averaging of Adam's moments (Adam's own: 0.9, 0.999).
        steps: Updates per batch (TEA's comparison: 1).
        predict: ``"before"`` the last update (TEA's comparison) or ``"after"`` it, at the cost of one more pass.
        loss: ``"entropy"``, or ``"come"`` in its place for each image (Zhang et al., ICLR 2025).

    Example:
        >>> import midway, torch
        >>> adapted = midway.SHOT(midway.models.create("resnet20"), trainable="body", lr=1e-4)
        >>> adapted(torch.rand(8, 3, 32, 32)).shape
        torch.Size([8, 10])
    """

    about = About(
        name="shot",
        title="SHOT",
        colour="#d68f00",
        marker="X",
        paper="Liang et al., ICML 2020",
        paradigm="batch",
        adapts="norm scales and shifts",
        predicts="before",
        passes="1 F + 1 B",
        needs=("norm layers", "batch statistics"),
        accepts_signals=True,
    )
    names_layers = ("head",)
    search_space = search_over(
        trainable=Choice("norm", "body"),
        pseudo_weight=Uniform(0.0, 0.5),
        threshold=Uniform(0.5, 0.99),
        lr=LogUniform(1e-5, 1e-2),
        steps=Integers(1, 4),
    )

    published = preset_values(pseudo_weight=0.3)

    def __init__(
        self,
        model: nn.Module,
        *,
        trainable: Literal["body", "norm"] = "norm",
        head: str | None = None,
        pseudo_weight: float = 0.1,
        threshold: float = 0.9,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        steps: int = 1,
        predict: Predict = "before",
        loss: EntropyLoss = "entropy",
    ) -> None:
        super().__init__(model)
        check_range(at_least=1, steps=steps)
        check_range(at_least=0, pseudo_weight=pseudo_weight, lr=lr)
        check_range(at_least=0, below=1, threshold=threshold)
        self.entropy = entropy_loss(loss)
        self.pseudo_weight, self.threshold, self.steps, self.predict = pseudo_weight, threshold, steps, predict
        use_batch_statistics(self.model)
        if trainable == "norm":
            parameters = norm_affine(self.model)
        else:
            parameters = body_of(self.model, resolve_head(self, head)[1])
        optimizer = torch.optim.Adam(freeze_all_but(self.model, parameters), lr=lr, betas=betas)
        self.optimizer = self.add_state("optimizer", optimizer)

    def step(self, images: Tensor) -> Tensor:
        """Minimise entropy - diversity + pseudo labels and return f(x)."""
        logits: Tensor
        for _ in range(self.steps):
            logits = self.model(images)
            z = at_least_float32(logits)
            loss = information_maximization(z, self.entropy)
            pseudo_loss, sure = pseudo_label_loss(z, self.threshold)
            record_shares(self, confident=sure)
            self.optimizer_step(loss + self.pseudo_weight * pseudo_loss, self.optimizer)
        return logits if self.predict == "before" else self.network_logits(images)
