"""BN: statistics of the test batch in the BatchNorm layers (Schneider et al., NeurIPS 2020; Nado et al., 2020)."""

from __future__ import annotations

import warnings

from torch import Tensor, nn

from midway.adaptation.about import About
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.replaced_statistics import statistics_of
from midway.adaptation.batch_norm.statistics import use_batch_statistics, use_prior_statistics, uses_batch_statistics
from midway.adaptation.checks import check_range
from midway.adaptation.registry import register
from midway.adaptation.space import Choice, search_over


@register
class BN(Method):
    """Makes BatchNorm layers use the statistics of the test batch; no weight changes.

    A prior N mixes in the source's statistics with weight N / (N + n), where n is the batch size. This helps small
    batches. The prediction is f(x) with these statistics.

    Paper: Schneider et al., NeurIPS 2020.

    Args:
        model: The classifier to adapt.
        prior: N, in images; 0 (the paper's value for large batches) uses the batch alone. The variance of the batch is
            the unbiased estimate if it is mixed with the source's, as in the published code, else the biased one.

    Example:
        >>> import midway
        >>> midway.BN(midway.models.create("resnet20"), prior=16)
        BN(CifarResNet, prior=16)
    """

    about = About(
        name="bn",
        title="BN",
        colour="#3a9bd9",
        marker="s",
        paper="Schneider et al., NeurIPS 2020",
        paradigm="batch",
        adapts="BatchNorm statistics",
        predicts="-",
        passes="1 F",
        needs=("BatchNorm", "batch statistics"),
        accepts_signals=True,
    )
    search_space = search_over(prior=Choice(0, 4, 16, 64, 256))

    def __init__(self, model: nn.Module, *, prior: float = 0) -> None:
        super().__init__(model)
        check_range(at_least=0, prior=prior)
        changed = use_batch_statistics(self.model) if prior == 0 else use_prior_statistics(self.model, prior)
        if not changed and uses_batch_statistics(self.model) and prior:
            why = (
                f"which {statistics_of(self.model)} statistics do themselves"
                if statistics_of(self.model) is not None
                else "and this model has none: its BatchNorm layers have no running statistics"
            )
            raise ValueError(f"a prior mixes in the source's statistics, {why}: leave prior at 0.")
        if not changed and not uses_batch_statistics(self.model):
            warnings.warn(
                "BN changes nothing: the model has no layer with running statistics (BatchNorm). "
                "Use a method that adapts weights, such as tent.",
                stacklevel=4,
            )

    def step(self, images: Tensor) -> Tensor:
        """Return f(x) with the statistics chosen at construction."""
        return self.network_logits(images)
