"""SAR: sharpness-aware and reliable entropy minimisation (Niu et al., ICLR 2023)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from midway.adaptation.base import About, Method
from midway.adaptation.normalization import use_batch_statistics
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.adaptation.problem import IMAGENET_SIZE, Problem
from midway.adaptation.protocol import Predict, answer, check_protocol
from midway.adaptation.sam import SAM
from midway.adaptation.selection import logits_to_learn_from, mixes_images, note_shares, reliable
from midway.adaptation.space import Integers, LogUniform, Uniform, search_over
from midway.adaptation.stages import last_stage
from midway.functional import entropy
from midway.suggest import unknown

AVERAGING = 0.9  # share of the past in the moving mean of the loss (the paper)


class SAR(Method):
    """Scales and shifts descend the entropy of reliable images towards a flat minimum; a collapse goes back to source.

    Reliable images have an entropy below a margin. The gradient is taken a little uphill (SAM), where the filter is
    applied once more. When the moving mean of that second loss falls below a threshold the network is about to answer
    one class for everything: weights, optimiser and the mean itself start again. The last stage of a deep network does
    not move. Batch statistics; the answer is the logits from before the (last) update.

    Settings left at None are chosen at the first batch (``repr`` then shows them); what ``exclude`` comes to is known
    at once.

    Paper: Niu et al., ICLR 2023.

    Args:
        model: The classifier to adapt.
        margin: Largest entropy of a reliable image, as a share of ln C (the paper: 0.4).
        rho: How far uphill SAM looks (the paper: 0.05).
        recover_below: The moving mean of the loss, in nats, below which everything starts again (the paper: 0.2 for
            1,000 classes; for others the same share of ln C).
        exclude: Names of modules whose normalisation layers stay (the paper: the last stage of ResNets, the last three
            blocks and the final norm of transformers). None finds them, () excludes nothing.
        lr: Step size of SGD (published comparisons: 0.01 for CIFAR; the paper: 2.5e-4 per 64 images for ImageNet).
        momentum: Momentum of SGD (the paper: 0.9).
        steps: Updates a batch (the paper: 1).
        predict: ``"before"`` the last update (the paper) or ``"after"`` it, at the cost of one more pass.

    Example:
        >>> import midway, torch
        >>> adapted = midway.SAR(midway.models.create("resnet20"))
        >>> _ = adapted(torch.rand(8, 3, 32, 32))
        >>> adapted
        SAR(CifarResNet, margin=0.4, rho=0.05, recover_below=0.0667, exclude=(), lr=0.01, momentum=0.9, steps=1,
            predict='before')
    """

    about = About(
        name="sar",
        title="SAR",
        colour="#999933",
        marker="P",
        paper="Niu et al., ICLR 2023",
        paradigm="batch",
        moves="norm scales and shifts, not of the last stage",
        answers="before",
        passes="2 F + 2 B",
        needs=("norm layers", "batch statistics"),
    )
    evolving = ("sam", "mean_loss")
    names_layers = ("exclude",)
    search_space = search_over(
        margin=Uniform(0.2, 0.8),
        rho=LogUniform(0.005, 0.5),
        lr=LogUniform(1e-4, 0.1),
        steps=Integers(1, 4),
    )

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
    ) -> None:
        super().__init__(model)
        check_protocol(steps, predict)
        if margin <= 0:
            raise ValueError(f"margin must be a share of ln C above 0, got {margin}.")
        if lr is not None and lr < 0:
            raise ValueError(f"lr must be 0 or more, or None (by the size of the problem), got {lr}.")
        if exclude is not None and not isinstance(exclude, tuple | list):
            raise TypeError(f"exclude must be a tuple of names, got {exclude!r}: write ({str(exclude)!r},).")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must be at least 0 and below 1, got {momentum}.")
        if exclude is None:
            self.settled["exclude"] = exclude = last_stage(self.model)
        self.margin, self.steps, self.predict = margin, steps, predict
        use_batch_statistics(self.model)
        modules = [name for name, _ in self.model.named_modules() if name]
        for name in exclude:
            if name not in modules:
                raise ValueError(unknown("module of the model", name, modules))
        moving = freeze_all_but(self.model, _without(norm_affine(self.model), exclude))
        self.sam = SAM(torch.optim.SGD(moving, lr=0.0, momentum=momentum), rho=rho)
        self.mean_loss: float | None = None

    @classmethod
    def defaults_for(cls, problem: Problem) -> dict[str, Any]:
        """Return the published settings for a problem of this size."""
        share = math.log(problem.classes) / math.log(IMAGENET_SIZE.classes)
        return {
            "recover_below": round(0.2 * share, 4),
            "lr": 2.5e-4 * problem.batch_size / 64 if problem.is_imagenet_size else 0.01,
        }

    def step(self, images: Tensor) -> Tensor:
        """Descend the entropy of the reliable images by SAM, watch for a collapse, and answer f(x)."""
        logits: Tensor
        for _ in range(self.steps):
            logits = self.model(images)
            self.settle(images, logits)
            chosen = reliable(logits.detach().float(), self.margin)
            note_shares(self.diagnostics, len(images), reliable=chosen)
            if chosen.any():
                self._descend(images, logits, chosen)
        return answer(self.model, images, logits, self.predict)

    def _descend(self, images: Tensor, logits: Tensor, chosen: Tensor) -> None:
        losses: list[float] = []

        def loss_uphill() -> Tensor | None:
            there = self._logits_again(images, chosen).float()
            kept = reliable(there.detach(), self.margin)
            if not kept.any():
                return None
            loss = entropy(there[kept]).mean()
            losses.append(loss.item())
            return loss

        for group in self.sam.optimizer.param_groups:
            group["lr"] = self.hyperparameters["lr"]
        here = entropy(logits_to_learn_from(self.model, images, logits, chosen).float()).mean()
        if self.sam.descend(here, loss_uphill):
            self._watch(losses[0])
        elif losses:
            self.count("skipped_steps")

    def _logits_again(self, images: Tensor, chosen: Tensor) -> Tensor:
        """Answer the chosen images with the weights uphill; the others are needed only for batch statistics."""
        logits: Tensor = self.model(images)[chosen] if mixes_images(self.model) else self.model(images[chosen])
        return logits

    def _watch(self, loss: float) -> None:
        """Follow the mean loss; below the threshold start again from the source, mean and optimiser included."""
        past = loss if self.mean_loss is None else self.mean_loss
        self.mean_loss = AVERAGING * past + (1 - AVERAGING) * loss
        if self.mean_loss < self.hyperparameters["recover_below"]:
            source = self._source["evolving"]
            fresh = {name: source[name] for name in self.evolving}  # the mean becomes None, not the old one
            self.restore({"tensors": self._source["tensors"], "evolving": fresh})
            self.count("recoveries")


def _without(moving: dict[str, nn.Parameter], exclude: tuple[str, ...]) -> dict[str, nn.Parameter]:
    """Leave out the parameters of the named modules."""
    left = {
        name: parameter
        for name, parameter in moving.items()
        if not any(name == module or name.startswith(f"{module}.") for module in exclude)
    }
    if not left:
        raise ValueError(f"exclude={exclude!r} leaves no normalisation layer to move: name fewer modules.")
    return left
