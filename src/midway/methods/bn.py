"""BN: statistics of the test batch in the BatchNorm layers (Schneider et al., NeurIPS 2020; Nado et al., 2020)."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from midway.adaptation.base import About, Method
from midway.adaptation.clustered import is_kindred
from midway.adaptation.normalization import use_batch_statistics, use_prior_statistics, uses_batch_statistics
from midway.adaptation.space import Choice, search_over


class BN(Method):
    """BatchNorm layers use the statistics of the batch at hand; no weight moves.

    With a prior N the source's statistics stay in with weight N / (N + n), n being the batch size: small batches then
    lean on the source. The answer is f(x) with those statistics.

    Paper: Schneider et al., NeurIPS 2020.

    Args:
        model: The classifier to adapt.
        prior: N, in images; 0 (the paper's setting for large batches) uses the batch alone.

    Example:
        >>> import midway, torch
        >>> model = midway.models.create("resnet20")
        >>> midway.BN(model, prior=16)
        BN(CifarResNet, prior=16)
    """

    about = About(
        name="bn",
        title="BN",
        colour="#3a9bd9",
        marker="s",
        paper="Schneider et al., NeurIPS 2020",
        paradigm="batch",
        moves="BatchNorm statistics",
        answers="-",
        passes="1 F",
        needs=("BatchNorm", "batch statistics"),
    )
    search_space = search_over(prior=Choice(0, 4, 16, 64, 256))

    def __init__(self, model: nn.Module, *, prior: float = 0) -> None:
        super().__init__(model)
        if prior < 0:
            raise ValueError(f"prior must be 0 or a number of images, got {prior}.")
        changed = use_batch_statistics(self.model) if prior == 0 else use_prior_statistics(self.model, prior)
        if not changed and uses_batch_statistics(self.model) and prior:
            why = (
                "which kindred statistics do by themselves, see midway.kindred"
                if is_kindred(self.model)
                else "and this model has none: its BatchNorm layers kept no running statistics"
            )
            raise ValueError(f"a prior mixes in the source's statistics, {why}: leave prior at 0.")
        if not changed and not uses_batch_statistics(self.model):
            warnings.warn(
                "BN changes nothing here: the model has no layer with running statistics (BatchNorm). "
                "Use a method that moves weights, such as tent.",
                stacklevel=4,
            )

    def step(self, images: Tensor) -> Tensor:
        """Answer f(x) with the statistics chosen at construction."""
        with torch.no_grad():
            logits: Tensor = self.model(images)
        return logits
