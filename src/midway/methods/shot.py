"""SHOT, online: information maximisation and pseudo labels under a frozen head (Liang et al., ICML 2020)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from midway.adaptation.base import About, Method
from midway.adaptation.head import head_of
from midway.adaptation.normalization import use_batch_statistics
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.adaptation.protocol import Predict, answer, check_protocol
from midway.adaptation.selection import confident, note_shares
from midway.adaptation.space import Choice, Integers, LogUniform, Uniform, search_over
from midway.functional import entropy


class SHOT(Method):
    """The weights before the head make each answer certain and the answers together diverse.

    The loss is the mean entropy, minus the entropy of the mean prediction, plus a share of the cross-entropy with the
    network's own confident answers. The head stays, and with it the meaning of the features. Batch statistics; one
    pass over the stream, the answer is the logits from before the (last) update.

    Paper: Liang et al., ICML 2020.

    Args:
        model: The classifier to adapt.
        moves: ``"norm"``: scales and shifts of the normalisation layers (published comparisons of test-time
            adaptation); ``"body"``: all weights but the head's, as SHOT's paper does over many epochs. Online, Adam's
            usual 1e-3 is too much for these: 1e-4 does well.
        head: Name of the last linear layer; None finds it. Only ``moves="body"`` needs it.
        pseudo_weight: Weight of the cross-entropy (the paper: 0.1 to 0.3 by data set; online comparisons: 0.1).
        threshold: Smallest confidence of a pseudo label (online comparisons: 0.9).
        lr: Step size of Adam (published comparisons: 1e-3).
        betas: Averaging of Adam's moments (Adam's own: 0.9, 0.999).
        steps: Updates a batch (published comparisons: 1).
        predict: ``"before"`` the last update (published comparisons) or ``"after"`` it, at the cost of one more pass.

    Example:
        >>> import midway, torch
        >>> adapted = midway.SHOT(midway.models.create("resnet20"), moves="body", lr=1e-4)
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
        moves="norm scales and shifts",
        answers="before",
        passes="1 F + 1 B",
        needs=("norm layers", "batch statistics"),
    )
    evolving = ("optimizer",)
    names_layers = ("head",)
    search_space = search_over(
        moves=Choice("norm", "body"),
        pseudo_weight=Uniform(0.0, 0.5),
        threshold=Uniform(0.5, 0.99),
        lr=LogUniform(1e-5, 1e-2),
        steps=Integers(1, 4),
    )

    def __init__(
        self,
        model: nn.Module,
        *,
        moves: Literal["body", "norm"] = "norm",
        head: str | None = None,
        pseudo_weight: float = 0.1,
        threshold: float = 0.9,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        steps: int = 1,
        predict: Predict = "before",
    ) -> None:
        super().__init__(model)
        check_protocol(steps, predict)
        if moves not in ("body", "norm"):
            raise ValueError(f"moves must be 'body' or 'norm', got {moves!r}.")
        if pseudo_weight < 0:
            raise ValueError(f"pseudo_weight must be 0 or more, got {pseudo_weight}.")
        if not 0 <= threshold < 1:
            raise ValueError(f"threshold must be a probability, at least 0 and below 1, got {threshold}.")
        self.pseudo_weight, self.threshold, self.steps, self.predict = pseudo_weight, threshold, steps, predict
        use_batch_statistics(self.model)
        moving = norm_affine(self.model) if moves == "norm" else self._body(head)
        self.optimizer = torch.optim.Adam(freeze_all_but(self.model, moving), lr=lr, betas=betas)

    def step(self, images: Tensor) -> Tensor:
        """Descend entropy - diversity + pseudo labels and answer f(x)."""
        logits: Tensor
        for _ in range(self.steps):
            logits = self.model(images)
            self.descend(self._loss(logits.float()), self.optimizer)
        return answer(self.model, images, logits, self.predict)

    def _loss(self, logits: Tensor) -> Tensor:
        log_mean_prediction = logits.log_softmax(dim=1).logsumexp(dim=0, keepdim=True)  # up to a constant
        loss = entropy(logits).mean() - entropy(log_mean_prediction).squeeze(0)
        sure = confident(logits.detach(), self.threshold)
        note_shares(self.diagnostics, len(logits), confident=sure)
        if sure.any():
            trusted = logits[sure]
            loss = loss + self.pseudo_weight * cross_entropy(trusted, trusted.argmax(dim=1))
        return loss

    def _body(self, head: str | None) -> dict[str, nn.Parameter]:
        name, layer = head_of(self.model, head)
        if head is None:
            self.settled["head"] = name
        frozen = {id(parameter) for parameter in layer.parameters()}
        body = {key: p for key, p in self.model.named_parameters() if id(p) not in frozen}
        if not body:
            raise ValueError("the model has no weights besides its head: SHOT has nothing to move.")
        return body
