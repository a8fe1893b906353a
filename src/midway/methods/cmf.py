"""CMF: continual momentum filtering on the weights (Lee and Chang, ICLR 2024)."""

from __future__ import annotations

from torch import nn

from midway.adaptation.about import About
from midway.adaptation.averaging import average_towards
from midway.adaptation.checks import check_range
from midway.adaptation.optimization import OptimizerKind
from midway.adaptation.registry import register
from midway.adaptation.space import LogUniform, Uniform, search_over
from midway.methods.roid import ROID, PriorCorrection

PARAMETERS = 38_400  # scales and shifts of a ViT-B, for which the noise is given
SMALLEST_GAIN, LARGEST_GAIN = 0.89, 0.9999


@register
class CMF(ROID):
    """ROID with a Kalman filter in place of the fixed average with the source.

    The filter estimates a hidden model h from the weights theta, which it treats as noisy observations of h. In each
    step, h first moves back towards the source. The filter then weighs h against theta by their variances, v and 1 - Q,
    and theta moves towards h:

        h <- (1 - a) h + a theta_0,    v <- (1 - a)^2 v + Q,    b = (1 - Q) / (v + 1 - Q),
        h <- b h + (1 - b) theta,      v <- b v,                theta <- (1 - g) theta + g h.

    Only trainable weights are stored, since the others never change. ``reset`` also restores the variance, which the
    published code does not.

    Paper: Lee and Chang, ICLR 2024.

    Args:
        model: The classifier to adapt.
        noise: Q for 38,400 trainable weights; it is proportional to their number (published: 0.005).
        source_share: a, how far the hidden model moves back to the source in a step (published: 0.01).
        hidden_share: g, the share of the hidden model in the weights after a step (published: 0.01).
        temperature: T in the weight exp(d c / T) of an image with diversity d and certainty c (published: 1/3).
        averaging: Share of the past in the moving mean of the predictions (published: 0.9).
        consistency: Use the cross-entropy with the augmentation (published: True).
        prior_correction: ``"logits"``, ``"unscaled"`` (published), ``"probabilities"`` or None, as in ROID.
        per_image: Draw an augmentation for each image instead of one for the batch (published: False).
        optimizer: ``"adam"`` (published for CIFAR) or ``"sgd"`` with Nesterov momentum 0.9 (ImageNet).
        lr: Step size (published: 1e-3 for CIFAR, 2.5e-4 for ImageNet); None chooses by image size.
        seed: Seed of the augmentation.

    Example:
        >>> import midway, torch
        >>> adapted = midway.CMF(midway.models.create("resnet20"))
        >>> adapted(torch.rand(8, 3, 32, 32)).shape, adapted.variance > 0
        (torch.Size([8, 10]), True)
    """

    about = About(
        name="cmf",
        title="CMF",
        colour="#7d4fd8",
        marker="D",
        paper="Lee and Chang, ICLR 2024",
        paradigm="batch",
        adapts="norm scales and shifts",
        predicts="before",
        passes="1 F + 1 B, again for the selected",
        needs=("norm layers", "batch statistics"),
    )
    search_space = search_over(
        noise=LogUniform(5e-4, 0.05),
        source_share=LogUniform(1e-3, 0.2),
        hidden_share=LogUniform(1e-3, 0.2),
        averaging=Uniform(0.5, 0.99),
        lr=LogUniform(1e-5, 1e-2),
    )

    def __init__(
        self,
        model: nn.Module,
        *,
        noise: float = 0.005,
        source_share: float = 0.01,
        hidden_share: float = 0.01,
        temperature: float = 1 / 3,
        averaging: float = 0.9,
        consistency: bool = True,
        prior_correction: PriorCorrection | None = "logits",
        per_image: bool = False,
        optimizer: OptimizerKind | None = None,
        lr: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(
            model,
            temperature=temperature,
            averaging=averaging,
            source_share=source_share,
            consistency=consistency,
            prior_correction=prior_correction,
            per_image=per_image,
            optimizer=optimizer,
            lr=lr,
            seed=seed,
        )
        check_range(at_least=0, noise=noise)
        check_range(at_least=0, at_most=1, hidden_share=hidden_share)
        self.hidden_share = hidden_share
        self.noise = min(1.0, noise * self.num_trainable() / PARAMETERS)
        self.hidden = self.add_state("hidden", [weights.clone() for weights in self.source_weights])
        self.variance: float = self.add_state("variance", 0.0)

    def _average_weights(self) -> None:
        average_towards(self.hidden, self.source_weights, self.source_share)
        self.variance = (1 - self.source_share) ** 2 * self.variance + self.noise
        gain = kalman_gain(self.variance, self.noise)
        self.variance *= gain
        average_towards(self.hidden, self.trainable, 1 - gain)
        average_towards(self.trainable, self.hidden, self.hidden_share)


def kalman_gain(variance: float, noise: float) -> float:
    """Return b, the weight of the hidden model relative to the observed weights, with the published bounds."""
    total = variance + 1 - noise
    gain = (1 - noise) / total if total > 0 else 1.0
    return 1.0 if gain >= LARGEST_GAIN else max(gain, SMALLEST_GAIN)
