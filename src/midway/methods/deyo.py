"""DeYO: destroy your object, entropy with the loss of shape as a second filter (Lee et al., ICLR 2024)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from midway.adaptation.about import About
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.statistics import use_batch_statistics
from midway.adaptation.checks import check_range
from midway.adaptation.losses import EntropyLoss, entropy_loss
from midway.adaptation.optimization import LazyOptimizer, OptimizerKind, adam_or_sgd
from midway.adaptation.parameters import (
    check_excluded,
    freeze_all_but,
    last_stage,
    norm_affine,
    outside,
)
from midway.adaptation.problem import Problem
from midway.adaptation.registry import register
from midway.adaptation.selection import (
    certainty_weights,
    logits_to_learn_from,
    pass_of_selected,
    record_shares,
    reliable,
)
from midway.adaptation.space import LogUniform, Uniform, search_over
from midway.adaptation.step_sizes import published_lr
from midway.functional import at_least_float32
from midway.sampling import Randomness


@register
class DeYO(Method):
    """Adapts scales and shifts by the entropy of images whose predictions depend on the shape of the object.

    An image is used if the entropy of its prediction is below a margin, and if the probability of its predicted class
    falls by more than a threshold when its patches are shuffled (PLPD, the pseudo-label probability difference). Both
    determine the weight of its entropy, exp(weight_margin - H) + exp(PLPD). The last stage of a deep network is frozen.
    The method uses batch statistics (of the shuffled images in their pass) and returns the logits from before the
    update. If no image is left, it takes no step.

    Hyper-parameters left at None are resolved from the first batch, ``exclude`` at construction.

    Paper: Lee et al., ICLR 2024.

    Args:
        model: The classifier to adapt.
        margin: Largest entropy of a reliable image, as a share of ln C (the paper: 0.5).
        weight_margin: Entropy at which the entropy's weight is 1, as a share of ln C (the paper: 0.4).
        threshold: Smallest PLPD (published: 0.3 for ImageNet-C with BatchNorm; 0.2 for networks without BatchNorm,
            single images, mixed streams and in comparisons; 0.5 for data with spurious correlations).
        grid: Patches per side (the paper: 4).
        exclude: Names of modules whose normalisation layers are frozen (the paper: the last stage of ResNets, the last
            three blocks and the final norm of transformers). None detects them, () excludes nothing.
        optimizer: ``"adam"`` (published comparisons for CIFAR) or ``"sgd"`` with momentum 0.9 (the paper for ImageNet).
        lr: Step size (published comparisons: 1e-3 for CIFAR; the paper: SAR's for ImageNet, see
            ``midway.adaptation.step_sizes``).
        loss: ``"entropy"``, or ``"come"`` in its place, in the loss and in the filter (Zhang et al., ICLR 2025).
        seed: Seed of the shuffling.

    Example:
        >>> import midway, torch
        >>> adapted = midway.DeYO(midway.models.create("resnet20"), margin=1.0, threshold=0.0)
        >>> adapted(torch.rand(8, 3, 32, 32)).shape, adapted.diagnostics["reliable_share"]
        (torch.Size([8, 10]), 1.0)
    """

    about = About(
        name="deyo",
        title="DeYO",
        colour="#b5762a",
        marker="v",
        paper="Lee et al., ICLR 2024",
        paradigm="batch",
        adapts="norm scales and shifts, not of the last stage",
        predicts="before",
        passes="1 F + 1 B, 1 F of the reliable",
        needs=("norm layers", "batch statistics"),
    )
    names_layers = ("exclude",)
    search_space = search_over(
        margin=Uniform(0.2, 1.0),
        weight_margin=Uniform(0.2, 0.8),
        threshold=Uniform(0.0, 0.6),
        lr=LogUniform(1e-5, 1e-2),
    )

    def __init__(
        self,
        model: nn.Module,
        *,
        margin: float = 0.5,
        weight_margin: float = 0.4,
        threshold: float | None = None,
        grid: int = 4,
        exclude: tuple[str, ...] | None = None,
        optimizer: OptimizerKind | None = None,
        lr: float | None = None,
        loss: EntropyLoss = "entropy",
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        check_range(at_least=0, or_none=True, lr=lr)
        check_range(above=0, margin=margin, weight_margin=weight_margin)
        check_range(at_least=2, grid=grid)
        check_excluded(self.model, exclude)
        if exclude is None:
            self.resolved["exclude"] = exclude = last_stage(self.model)
        self.entropy = entropy_loss(loss)
        self.margin, self.weight_margin, self.grid = margin, weight_margin, grid
        use_batch_statistics(self.model)
        trainable = freeze_all_but(self.model, outside(norm_affine(self.model), exclude))
        self.optimizer = self.add_state("optimizer", LazyOptimizer(trainable))
        self.randomness = self.add_state("randomness", Randomness(seed))

    @classmethod
    def defaults_for(cls, problem: Problem) -> dict[str, Any]:
        """Return the published values for a problem of this size."""
        batches_of_batch_norm = problem.has_batch_norm and problem.batch_size > 1
        threshold = 0.3 if problem.is_imagenet_size and batches_of_batch_norm else 0.2
        return {"threshold": threshold} | adam_or_sgd(problem, sgd_lr=published_lr(problem))

    def step(self, images: Tensor) -> Tensor:
        """Minimise the weighted entropy of the selected images and return f(x)."""
        logits: Tensor = self.model(images)
        self.resolve(images, logits)
        selected, plpd = self._select(images, at_least_float32(logits.detach()))
        if selected.any():
            learned = at_least_float32(logits_to_learn_from(self.model, images, logits, selected))
            entropies = self.entropy(learned)
            weights = certainty_weights(entropies, self.weight_margin, logits.shape[1]) + plpd[selected].exp()
            self.optimizer_step((weights * entropies).mean(), self.optimizer)
        return logits

    @torch.no_grad()
    def _select(self, images: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return which images are used, and the PLPD of those that are reliable."""
        selected = trusted = reliable(logits, self.margin, self.entropy)
        plpd = logits.new_zeros(len(logits))
        if trusted.any():
            shuffled = shuffle_patches(images, self.grid, self.randomness.on(images.device))
            shuffled = shuffled.contiguous(memory_format=self.memory_format)
            again = at_least_float32(pass_of_selected(self.model, shuffled, trusted)).softmax(dim=1)
            probability, label = logits[trusted].softmax(dim=1).max(dim=1)
            plpd[trusted] = probability - again.gather(1, label.unsqueeze(1)).squeeze(1)
            selected = trusted & (plpd > self.hyperparameters["threshold"])
        record_shares(self, reliable=trusted, selected=selected)
        return selected, plpd


def shuffle_patches(images: Tensor, grid: int, generator: torch.Generator) -> Tensor:
    """Cut each image into a grid of patches and shuffle them, in a different order for each image.

    Images whose sides are not multiples of the grid are resized to the next smaller multiples, and back.
    """
    count, channels, height, width = images.shape
    down, across = min(grid, height), min(grid, width)
    size = (height // down * down, width // across * across)
    fitted = images if size == (height, width) else interpolate(images, size, mode="bilinear")
    cut = fitted.reshape(count, channels, down, size[0] // down, across, size[1] // across)
    patches = cut.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)  # (N, patches, C, h, w)
    keys = torch.rand(count, down * across, generator=generator, device=generator.device)
    order = keys.argsort(dim=1).to(images.device)
    patches = patches[torch.arange(count, device=images.device).unsqueeze(1), order]
    shuffled = patches.unflatten(1, (down, across)).permute(0, 3, 1, 4, 2, 5).reshape(count, channels, *size)
    return shuffled if size == (height, width) else interpolate(shuffled, (height, width), mode="bilinear")
