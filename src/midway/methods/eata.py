"""EATA: efficient test-time adaptation without forgetting (Niu et al., ICML 2022); ETA without Fisher images."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy
from torch.nn.utils import parameters_to_vector

from midway.adaptation.about import About
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.statistics import split_images, use_batch_statistics
from midway.adaptation.checks import check_range
from midway.adaptation.losses import EntropyLoss, entropy_loss
from midway.adaptation.optimization import LazyOptimizer, OptimizerKind, Predict, adam_or_sgd
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.adaptation.problem import Problem
from midway.adaptation.registry import register
from midway.adaptation.selection import (
    certainty_weights,
    logits_to_learn_from,
    record_shares,
    redundancy_margin,
    reliable,
)
from midway.adaptation.space import Choice, Integers, LogUniform, Uniform, search_over
from midway.functional import at_least_float32

MAX_FISHER_IMAGES = 2000


@register
class EATA(Method):
    """Adapts scales and shifts by the entropy of reliable, non-redundant images, with a penalty on forgetting.

    An image is reliable if its entropy is below a margin, and redundant if its prediction is similar to the moving mean
    of the predictions selected so far. Each selected image has weight exp(margin - H). With Fisher images, a penalty
    keeps the weights that matter for in-distribution data near the source; without them the method is ETA. The method
    uses batch statistics and returns the logits from before the (last) update. If no image is selected, there is no
    backward pass. In networks without batch statistics the backward pass runs over the selected images alone if at most
    40 % are selected.

    Hyper-parameters left at None are resolved from the first batch: the redundancy by the number of classes, the others
    by image size (ImageNet's values from 128 pixels per side). ``repr`` then shows them.

    Paper: Niu et al., ICML 2022.

    Args:
        model: The classifier to adapt.
        fisher_images: In-distribution images, up to 2,000, unlabelled, (N, C, H, W); never test images. None is ETA.
        fisher_weight: Weight of the penalty (the paper: 1 for CIFAR, 2,000 for ImageNet).
        fisher_batch_size: Images per squared mean gradient (the published code: 64).
        margin: Largest entropy of a reliable image, as a share of ln C (the paper: 0.4).
        redundancy: d, largest cosine to the mean prediction (the paper: 0.4 and 0.05 for 10 and 1,000 classes;
            published comparisons: 0.1 for 100).
        averaging: Share of the past in the mean prediction (the paper: 0.9).
        optimizer: ``"adam"`` (published comparisons for CIFAR) or ``"sgd"`` with momentum 0.9 (the paper for ImageNet).
        lr: Step size (published comparisons: 1e-3 for CIFAR; the paper: 2.5e-4 for ImageNet).
        steps: Updates per batch (the paper: 1).
        predict: ``"before"`` the last update (the paper) or ``"after"`` it, at the cost of one more pass.
        loss: ``"entropy"``, or ``"come"`` in its place, in the loss and in the filter (Zhang et al., ICLR 2025).

    Example:
        >>> import midway, torch
        >>> adapted = midway.EATA(midway.models.create("resnet20"), fisher_images=torch.rand(16, 3, 32, 32))
        >>> _ = adapted(torch.rand(8, 3, 32, 32))
        >>> adapted.hyperparameters["redundancy"], adapted.hyperparameters["fisher_weight"]
        (0.4, 1)
    """

    about = About(
        name="eata",
        title="EATA",
        colour="#117733",
        marker="D",
        paper="Niu et al., ICML 2022",
        paradigm="batch",
        adapts="norm scales and shifts",
        predicts="before",
        passes="1 F + 1 B of the selected",
        needs=("norm layers", "batch statistics", "Fisher images (ETA without)"),
        accepts_signals=True,
    )
    search_space = search_over(
        margin=Uniform(0.2, 0.8),
        redundancy=Uniform(0.05, 0.9),
        optimizer=Choice("adam", "sgd"),
        lr=LogUniform(1e-5, 1e-2),
        steps=Integers(1, 4),
    )

    def __init__(
        self,
        model: nn.Module,
        *,
        fisher_images: Tensor | None = None,
        fisher_weight: float | None = None,
        fisher_batch_size: int = 64,
        margin: float = 0.4,
        redundancy: float | None = None,
        averaging: float = 0.9,
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
        check_range(above=0, or_none=True, redundancy=redundancy)
        check_range(at_least=0, below=1, averaging=averaging)
        check_range(at_least=0, or_none=True, fisher_weight=fisher_weight)
        check_range(at_least=1, fisher_batch_size=fisher_batch_size)
        self.entropy = entropy_loss(loss)
        self.margin, self.averaging, self.steps, self.predict = margin, averaging, steps, predict
        use_batch_statistics(self.model)
        self.trainable = freeze_all_but(self.model, norm_affine(self.model))
        self.optimizer = self.add_state("optimizer", LazyOptimizer(self.trainable))
        self.mean_prediction: Tensor | None = self.add_state("mean_prediction", None)
        self.source_weights = self.add_state("source_weights", parameters_to_vector(self.trainable).detach())
        fisher = None if fisher_images is None else self._measure_fisher(fisher_images, fisher_batch_size)
        self.fisher = self.add_state("fisher", fisher)

    @classmethod
    def defaults_for(cls, problem: Problem) -> dict[str, Any]:
        """Return the published values; the redundancy between published numbers of classes is Midway's own."""
        fisher_weight = 2000 if problem.is_imagenet_size else 1
        redundancy = redundancy_margin(problem.classes)
        return {"fisher_weight": fisher_weight, "redundancy": redundancy} | adam_or_sgd(problem, sgd_lr=2.5e-4)

    def step(self, images: Tensor) -> Tensor:
        """Select images, minimise their weighted entropy and the penalty, and return f(x)."""
        logits: Tensor
        for _ in range(self.steps):
            logits = self.model(images)
            self.resolve(images, logits)
            selected = self._select(at_least_float32(logits.detach()))
            if selected.any():
                learned = at_least_float32(logits_to_learn_from(self.model, images, logits, selected))
                entropies = self.entropy(learned)
                weights = certainty_weights(entropies, self.margin, logits.shape[1])
                loss = (weights * entropies).mean() + self._penalty()
                self.optimizer_step(loss, self.optimizer)
        return logits if self.predict == "before" else self.network_logits(images)

    def _select(self, logits: Tensor) -> Tensor:
        """Select the reliable images that differ from the mean prediction, and update that mean with theirs."""
        selected = trusted = reliable(logits, self.margin, self.entropy)
        probabilities = logits.softmax(dim=1)
        past = None if self.mean_prediction is None else self.mean_prediction.to(probabilities)
        if past is not None:
            similarity = cosine_similarity(probabilities, past.unsqueeze(0), dim=1)
            selected = trusted & (similarity < self.hyperparameters["redundancy"])
        record_shares(self, reliable=trusted, selected=selected)
        if selected.any():
            mean = probabilities[selected].mean(dim=0)
            self.mean_prediction = mean if past is None else self.averaging * past + (1 - self.averaging) * mean
        return selected

    def _penalty(self) -> Tensor | float:
        """Return the squared distance of the weights to the source, weighted by their Fisher information."""
        if self.fisher is None:
            return 0.0
        distance = parameters_to_vector(self.trainable) - self.source_weights
        penalty: Tensor = self.hyperparameters["fisher_weight"] * (self.fisher * distance.square()).sum()
        return penalty

    def _measure_fisher(self, images: Tensor, batch_size: int) -> Tensor:
        """Return the squared gradient of the cross-entropy with the network's predictions, averaged over batches."""
        try:
            self._check_images(images)
            self._prepare(images.detach())
        except (TypeError, ValueError) as error:
            raise type(error)(f"fisher_images: {error}") from error
        if len(images) > MAX_FISHER_IMAGES:
            raise ValueError(f"fisher_images contains {len(images)} images: give at most {MAX_FISHER_IMAGES}.")
        batches = split_images(images.detach().clone(), batch_size)
        fisher = torch.zeros_like(self.source_weights)
        with torch.enable_grad():
            for batch in batches:
                logits = at_least_float32(self.model(batch.contiguous(memory_format=self.memory_format)))
                loss = cross_entropy(logits, logits.argmax(dim=1))
                gradients = torch.autograd.grad(loss, self.trainable, materialize_grads=True)
                fisher += parameters_to_vector(gradients).square() / len(batches)
        return fisher
