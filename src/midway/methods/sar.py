"""SAR: sharpness-aware and reliable entropy minimisation (Niu et al., ICLR 2023)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from midway.adaptation.about import About
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.statistics import use_batch_statistics
from midway.adaptation.checks import check_range
from midway.adaptation.losses import EntropyLoss, entropy_loss
from midway.adaptation.optimization import Predict, sam_step
from midway.adaptation.parameters import (
    check_excluded,
    freeze_all_but,
    last_stage,
    norm_affine,
    outside,
)
from midway.adaptation.problem import IMAGENET_SIZE, Problem
from midway.adaptation.registry import register
from midway.adaptation.selection import logits_to_learn_from, mixes_images, record_shares, reliable
from midway.adaptation.space import Integers, LogUniform, Uniform, preset_values, search_over
from midway.adaptation.step_sizes import published_lr
from midway.functional import at_least_float32

AVERAGING = 0.9  # share of the past in the moving mean of the loss (the paper)


@register
class SAR(Method):
    """Adapts scales and shifts by the entropy of reliable images, towards a flat minimum; resets after a collapse.

    Reliable images have an entropy below a margin. The gradient is taken at perturbed weights (SAM), where the filter
    is applied again. If the moving mean of that second loss falls below a threshold, the network is about to predict
    one class for all images: weights, optimiser and the mean itself are reset. The last stage of a deep network is
    frozen. The method uses batch statistics and returns the logits from before the (last) update.

    Hyper-parameters left at None are resolved from the first batch (``repr`` then shows them), ``exclude`` at
    construction.

    Paper: Niu et al., ICLR 2023.

    Args:
        model: The classifier to adapt.
        margin: Largest entropy of a reliable image, as a share of ln C (the paper: 0.4).
        rho: Length of SAM's perturbation (the paper: 0.05).
        recover_below: Moving mean of the loss, in nats, below which the method resets (the paper: 0.2, on 1,000
            classes). None is the same share of ln C for other numbers of classes, see ``docs/methods.md``.
        exclude: Names of modules whose normalisation layers are frozen (the paper: the last stage of ResNets, the last
            three blocks and the final norm of transformers). None detects them, () excludes nothing.
        lr: Step size of SGD. None is 0.01 for CIFAR-10 and 0.001 for CIFAR-100 (TEA's comparison; the paper has no
            CIFAR) and the paper's value for ImageNet, see ``midway.adaptation.step_sizes``.
        momentum: Momentum of SGD (the paper: 0.9).
        steps: Updates per batch (the paper: 1).
        predict: ``"before"`` the last update (the paper) or ``"after"`` it, at the cost of one more pass.
        loss: ``"entropy"``, or ``"come"`` in its place, in the loss and in the filter (Zhang et al., ICLR 2025).

    Example:
        >>> import midway, torch
        >>> adapted = midway.SAR(midway.models.create("resnet20"))
        >>> _ = adapted(torch.rand(8, 3, 32, 32))
        >>> adapted.hyperparameters["recover_below"], adapted.hyperparameters["lr"]
        (0.0667, 0.01)
    """

    about = About(
        name="sar",
        title="SAR",
        colour="#999933",
        marker="P",
        paper="Niu et al., ICLR 2023",
        paradigm="batch",
        adapts="norm scales and shifts, not of the last stage",
        predicts="before",
        passes="2 F + 2 B",
        needs=("norm layers", "batch statistics"),
        accepts_signals=True,
    )
    names_layers = ("exclude",)
    search_space = search_over(
        margin=Uniform(0.2, 0.8),
        rho=LogUniform(0.005, 0.5),
        lr=LogUniform(1e-4, 0.1),
        steps=Integers(1, 4),
    )

    published = preset_values(recover_below=0.2)

    def __init__(
        self,
        model: nn.Module,
        *,
        margin: float = 0.4,
        rho: float = 0.05,
        recover_below: float | None = None,
        exclude: tuple[str, ...] | None = None,
        lr: float | None = None,
        momentum: float = 0.9,
        steps: int = 1,
        predict: Predict = "before",
        loss: EntropyLoss = "entropy",
    ) -> None:
        super().__init__(model)
        check_range(at_least=1, steps=steps)
        check_range(above=0, margin=margin)
        check_range(at_least=0, rho=rho)
        check_range(at_least=0, or_none=True, lr=lr)
        check_range(at_least=0, below=1, momentum=momentum)
        check_excluded(self.model, exclude)
        if exclude is None:
            self.resolved["exclude"] = exclude = last_stage(self.model)
        self.entropy = entropy_loss(loss)
        self.margin, self.rho, self.steps, self.predict = margin, rho, steps, predict
        use_batch_statistics(self.model)
        trainable = freeze_all_but(self.model, outside(norm_affine(self.model), exclude))
        optimizer = torch.optim.SGD(trainable, lr=0.0, momentum=momentum)  # the step size is resolved later
        self.optimizer = self.add_state("optimizer", optimizer)
        self.mean_loss: float | None = self.add_state("mean_loss", None)

    @classmethod
    def defaults_for(cls, problem: Problem) -> dict[str, Any]:
        """Return the paper's values for ImageNet's size, else those of TEA's comparison and Midway's share of ln C."""
        share = math.log(problem.classes) / math.log(IMAGENET_SIZE.classes)
        small = 0.01 if problem.classes < 100 else 0.001
        return {
            "recover_below": round(0.2 * share, 4),
            "lr": published_lr(problem) if problem.is_imagenet_size else small,
        }

    def step(self, images: Tensor) -> Tensor:
        """Minimise the entropy of the reliable images by SAM, reset after a collapse, and return f(x)."""
        logits: Tensor
        for _ in range(self.steps):
            logits = self.model(images)
            self.resolve(images, logits)
            selected = reliable(at_least_float32(logits.detach()), self.margin, self.entropy)
            record_shares(self, reliable=selected)
            if selected.any():
                self._update(images, logits, selected)
        return logits if self.predict == "before" else self.network_logits(images)

    def _update(self, images: Tensor, logits: Tensor, selected: Tensor) -> None:
        losses: list[float] = []

        def perturbed_loss() -> Tensor | None:
            mixed = mixes_images(self.model)  # the other images are needed only for batch statistics
            perturbed = self.model(images)[selected] if mixed else self.model(images[selected])
            perturbed = at_least_float32(perturbed)
            still_reliable = reliable(perturbed.detach(), self.margin, self.entropy)
            if not still_reliable.any():
                return None
            loss = self.entropy(perturbed[still_reliable]).mean()
            losses.append(loss.item())
            return loss

        for group in self.optimizer.param_groups:
            group["lr"] = self.hyperparameters["lr"]
        learned = at_least_float32(logits_to_learn_from(self.model, images, logits, selected))
        loss = self.entropy(learned).mean()
        if sam_step(loss, perturbed_loss, self.optimizer, rho=self.rho):
            self._recover(losses[0])
        elif losses:
            self.count("skipped_steps")

    def _recover(self, loss: float) -> None:
        """Update the mean loss; below the threshold reset weights, optimiser and the mean itself."""
        past = loss if self.mean_loss is None else self.mean_loss
        self.mean_loss = AVERAGING * past + (1 - AVERAGING) * loss
        if self.mean_loss < self.hyperparameters["recover_below"]:
            self.reset(keep=("records", "resolved"))
            self.count("recoveries")
