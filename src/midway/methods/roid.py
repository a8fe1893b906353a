"""ROID: universal test-time adaptation by weight ensembling, diversity weighting and prior correction (WACV 2024)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from midway.adaptation.about import About
from midway.adaptation.augmentation import Augmentation
from midway.adaptation.averaging import average_towards
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.statistics import use_batch_statistics
from midway.adaptation.checks import check_range
from midway.adaptation.losses import soft_likelihood_ratio, symmetric_cross_entropy
from midway.adaptation.optimization import LazyOptimizer, OptimizerKind, adam_or_sgd
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.adaptation.problem import Problem
from midway.adaptation.registry import register
from midway.adaptation.selection import pass_of_selected, record_shares
from midway.adaptation.space import Choice, LogUniform, Uniform, preset_values, search_over
from midway.functional import at_least_float32, entropy
from midway.sampling import Randomness

PriorCorrection = Literal["logits", "unscaled", "probabilities"]


@register
class ROID(Method):
    """Adapts scales and shifts on certain and diverse images, and averages the weights with those of the source.

    The loss of an image is its soft likelihood ratio plus the symmetric cross-entropy between its prediction and that
    of its augmentation. The weight of an image grows with the certainty of its prediction and with the distance of the
    prediction from the moving mean of all predictions. Images nearer to this mean than the average are left out. After
    each step, the weights move a little towards the source. The method uses batch statistics and returns the logits
    from before the update, corrected towards the classes that the batch seems to contain.

    If all images are equally certain or equally distant, as in a batch of one, they have the same weight. The loss is
    divided by the number of images in the batch; the published code divides by the nominal batch size, so a short last
    batch counts less.

    Paper: Marsden et al., WACV 2024.

    Args:
        model: The classifier to adapt.
        temperature: T in the weight exp(d c / T) of an image with diversity d and certainty c (published: 1/3).
        averaging: Share of the past in the moving mean of the predictions (published: 0.9).
        source_share: Share of the source in the weights after each step (published: 0.01).
        consistency: Use the cross-entropy with the augmentation (published: True).
        prior_correction: ``"logits"`` multiplies the logits by C times the smoothed mean prediction, although a
            negative logit then rises for a rare class; ``"unscaled"`` omits the factor C, as in the published code: the
            classes are the same, but the confidences are those of logits C times smaller; ``"probabilities"``
            multiplies the probabilities; None does not correct.
        per_image: Draw an augmentation for each image instead of one for the batch (published: False).
        optimizer: ``"adam"`` (published for CIFAR) or ``"sgd"`` with Nesterov momentum 0.9 (ImageNet).
        lr: Step size (published: 1e-3 for CIFAR, 2.5e-4 for ImageNet); None chooses by image size.
        seed: Seed of the augmentation.

    Example:
        >>> import midway, torch
        >>> adapted = midway.ROID(midway.models.create("resnet20"))
        >>> adapted(torch.rand(8, 3, 32, 32)).shape, adapted.diagnostics["selected_share"] < 1
        (torch.Size([8, 10]), True)
    """

    about = About(
        name="roid",
        title="ROID",
        colour="#e0218a",
        marker="s",
        paper="Marsden et al., WACV 2024",
        paradigm="batch",
        adapts="norm scales and shifts",
        predicts="before",
        passes="1 F + 1 B, again for the selected",
        needs=("norm layers", "batch statistics"),
    )
    search_space = search_over(
        temperature=LogUniform(0.1, 3.0),
        averaging=Uniform(0.5, 0.99),
        source_share=LogUniform(1e-3, 0.2),
        prior_correction=Choice("logits", "probabilities", None),
        lr=LogUniform(1e-5, 1e-2),
    )
    published = preset_values(prior_correction="unscaled")

    def __init__(
        self,
        model: nn.Module,
        *,
        temperature: float = 1 / 3,
        averaging: float = 0.9,
        source_share: float = 0.01,
        consistency: bool = True,
        prior_correction: PriorCorrection | None = "logits",
        per_image: bool = False,
        optimizer: OptimizerKind | None = None,
        lr: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        check_range(at_least=0, or_none=True, lr=lr)
        check_range(above=0, temperature=temperature)
        check_range(at_least=0, below=1, averaging=averaging)
        check_range(at_least=0, at_most=1, source_share=source_share)
        self.temperature, self.averaging, self.source_share = temperature, averaging, source_share
        self.consistency, self.prior_correction = consistency, prior_correction
        use_batch_statistics(self.model)
        self.trainable = freeze_all_but(self.model, norm_affine(self.model))
        self.augmentation = Augmentation(padding="reflect", blur=False, noise=0, per_image=per_image)
        self.optimizer = self.add_state("optimizer", LazyOptimizer(self.trainable, nesterov=True))
        self.mean_prediction: Tensor | None = self.add_state("mean_prediction", None)
        source = [parameter.detach().clone() for parameter in self.trainable]
        self.source_weights = self.add_state("source_weights", source)
        self.randomness = self.add_state("randomness", Randomness(seed))

    @classmethod
    def defaults_for(cls, problem: Problem) -> dict[str, Any]:
        """Return the published optimiser and step size for CIFAR or for ImageNet."""
        return adam_or_sgd(problem, sgd_lr=2.5e-4)

    def step(self, images: Tensor) -> Tensor:
        """Take a step on the weighted loss, average the weights with the source, and return the corrected f(x)."""
        logits: Tensor = self.model(images)
        self.resolve(images, logits)
        detached = at_least_float32(logits.detach())
        p = finite_probabilities(detached)
        uniform = detached.new_full(detached.shape[1:], 1 / detached.shape[1])
        past = uniform if self.mean_prediction is None else self.mean_prediction.to(p)
        weights = diversity_weights(detached, past, self.temperature)
        if len(p):
            self.mean_prediction = self.averaging * past + (1 - self.averaging) * p.mean(dim=0)
        record_shares(self, selected=weights > 0)
        if weights.any():
            self.optimizer_step(self._loss(images, logits, weights), self.optimizer)
        self._average_weights()
        return corrected(detached, self.prior_correction)

    def _loss(self, images: Tensor, logits: Tensor, weights: Tensor) -> Tensor:
        selected = weights > 0
        kept = at_least_float32(logits[selected])
        losses = soft_likelihood_ratio(kept)
        if self.consistency:
            augmented = self.augmentation(images, self.randomness.on(images.device))
            augmented = augmented.contiguous(memory_format=self.memory_format)
            again = at_least_float32(pass_of_selected(self.model, augmented, selected))
            losses = losses + symmetric_cross_entropy(again, kept)
        return (weights[selected] * losses).sum() / len(images)

    def _average_weights(self) -> None:
        average_towards(self.trainable, self.source_weights, self.source_share)


def finite_probabilities(logits: Tensor) -> Tensor:
    """Return the probabilities of the images whose logits are finite.

    Example:
        >>> import torch
        >>> from midway.methods.roid import finite_probabilities
        >>> finite_probabilities(torch.tensor([[0.0, 0.0], [0.0, torch.nan]]))
        tensor([[0.5000, 0.5000]])
    """
    return logits[logits.isfinite().all(dim=1)].softmax(dim=1)


def diversity_weights(logits: Tensor, mean_prediction: Tensor, temperature: float) -> Tensor:
    """Return exp(d c / T) of images with diversity d and certainty c, and 0 if d is below its mean: (N, C) -> (N,).

    d is the distance from the mean prediction, 1 minus the cosine, and c the negative entropy, both scaled to [0, 1]
    over the batch. Images whose logits are not finite have weight 0.

    Example:
        >>> import torch
        >>> from midway.methods.roid import diversity_weights
        >>> logits = torch.tensor([[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]]).log()
        >>> diversity_weights(logits, torch.tensor([0.9, 0.1]), temperature=1.0)  # (d, c) are (0, 1), (0.4, 0), (1, 1)
        tensor([0.0000, 0.0000, 2.7183])
    """
    weights, finite = logits.new_zeros(len(logits)), logits.isfinite().all(dim=1)
    if finite.any():
        p = finite_probabilities(logits)
        diversity = min_max(1 - cosine_similarity(mean_prediction.unsqueeze(0), p, dim=1))
        certainty = min_max(-entropy(logits[finite]))
        weights[finite] = (diversity * certainty / temperature).exp() * (diversity >= diversity.mean())
    return weights


def min_max(values: Tensor) -> Tensor:
    """Scale values to [0, 1]; equal values become 0, where the formula is 0 / 0.

    Example:
        >>> import torch
        >>> from midway.methods.roid import min_max
        >>> min_max(torch.tensor([1.0, 3.0, 2.0]))
        tensor([0.0000, 1.0000, 0.5000])
    """
    low, high = values.aminmax()
    return (values - low) / (high - low) if high > low else torch.zeros_like(values)


def corrected(logits: Tensor, how: PriorCorrection | None) -> Tensor:
    """Correct predictions by the smoothed mean prediction of their batch; smaller batches are smoothed more."""
    p = finite_probabilities(logits)
    if how is None or not len(p):
        return logits
    mean = p.mean(dim=0)
    smoothing = max(1 / len(logits), 1 / logits.shape[1]) / mean.max()
    prior = (mean + smoothing) / (1 + smoothing * len(mean))
    if how == "probabilities":
        return logits + prior.log()
    return logits * prior * (len(prior) if how == "logits" else 1)  # shares are 1 / C in the mean
