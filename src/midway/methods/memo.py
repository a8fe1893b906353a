"""MEMO: marginal entropy minimisation with one test point (Zhang et al., NeurIPS 2022)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from midway.adaptation.about import About
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.image_statistics import UnsupportedError
from midway.adaptation.checks import check_range
from midway.adaptation.image_weights import weights_by_image
from midway.adaptation.parameters import refuse_half_precision
from midway.adaptation.problem import Problem
from midway.adaptation.registry import register
from midway.adaptation.space import Choice, Integers, LogUniform, preset_values, search_over
from midway.adaptation.views import Crop, Fill, augmix_views, draw
from midway.functional import at_least_float32
from midway.sampling import Randomness

VALUES_PER_PASS = 400_000
"""Largest number of values in the views that one pass processes."""


def marginal_entropy(logits: Tensor) -> Tensor:
    """Return the entropy of the mean prediction over views, in nats, from logits (..., views, classes).

    Example:
        >>> import torch
        >>> from midway.methods.memo import marginal_entropy
        >>> marginal_entropy(99 * torch.eye(4)).exp()  # four certain views of four classes
        tensor(4.)
    """
    log_mean = logits.log_softmax(dim=-1).logsumexp(dim=-2) - math.log(logits.shape[-2])
    return -(log_mean.exp() * log_mean).sum(dim=-1)


@register
class MEMO(Method):
    """Adapts all weights to each image separately, towards one confident prediction over augmented views of it.

    For each image, SGD starts from the source weights and minimises the entropy of the mean prediction over AugMix
    views. The network then predicts the plain image. BatchNorm layers mix the source's statistics with those of the
    views, or with those of the plain image for its prediction. The images are independent, so predictions do not depend
    on how a stream is split into batches.

    Many images share one forward and backward pass at the source weights; networks that do not support this adapt image
    by image, with the same predictions.

    Paper: Zhang et al., NeurIPS 2022.

    Args:
        model: The classifier to adapt.
        views: Views per image (published: 32 for CIFAR, 64 for ImageNet); None chooses by image size.
        lr: Step size of SGD (published: 0.005 for CIFAR, 0.00025 for ResNet-50 on ImageNet, AdamW for larger networks);
            None chooses by image size.
        crop: ``"pad"`` by 4 pixels (published for CIFAR) or ``"resize"`` a part (ImageNet), before AugMix; None chooses
            by image size.
        steps: Steps per image (published: 1).
        prior: N: the source's statistics have weight N / (N + 1) (published for networks with BatchNorm, on ImageNet:
            16); 0 uses those of the views alone. It has no effect on the published network for CIFAR, which has
            GroupNorm.
        fill: Colour that rotated, sheared and shifted views have outside the image: ``"grey"``, or ``"red"``, the dark
            red (128, 0, 0) of the published code, where one grey value was meant for three channels.
        images_at_once: Number of images per pass; None limits memory. It does not change the predictions.
        seed: Seed of the views.

    Attributes:
        supports_many_images: Whether several images share a pass; False once the network has not supported it.

    Example:
        >>> import midway, torch
        >>> adapted = midway.MEMO(midway.models.create("resnet20"), views=4)
        >>> adapted(torch.rand(2, 3, 32, 32)).shape, adapted.hyperparameters["lr"]
        (torch.Size([2, 10]), 0.005)
    """

    about = About(
        name="memo",
        title="MEMO",
        colour="#7a4a2b",
        marker="<",
        paper="Zhang et al., NeurIPS 2022",
        paradigm="instance",
        adapts="all weights",
        predicts="after",
        passes="V + 1 F, V B (V views)",
        uses_other_images=False,
        aligns_each_image=True,
    )
    uses_source_statistics = True
    search_space = search_over(lr=LogUniform(5e-4, 5e-2), steps=Integers(1, 3), prior=Choice(4, 8, 16, 32, 64))

    published = preset_values(fill="red")

    def __init__(
        self,
        model: nn.Module,
        *,
        views: int | None = None,
        lr: float | None = None,
        crop: Crop | None = None,
        steps: int = 1,
        prior: float = 16,
        fill: Fill = "grey",
        images_at_once: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        if not any(True for _ in self.model.parameters()):
            raise ValueError(
                "the model has no weights to adapt: use a method that adapts something else, such as lame."
            )
        refuse_half_precision(dict(self.model.named_parameters()))
        check_range(at_least=1, steps=steps)
        check_range(at_least=1, or_none=True, views=views, images_at_once=images_at_once)
        check_range(at_least=0, or_none=True, lr=lr)
        check_range(at_least=0, prior=prior)
        self.steps, self.fill = steps, fill
        self.source_share = prior / (prior + 1)
        self.images_at_once = images_at_once
        self.randomness = self.add_state("randomness", Randomness(seed))
        self.supports_many_images = True

    @classmethod
    def defaults_for(cls, problem: Problem) -> dict[str, Any]:
        """Return the published values for CIFAR or for ImageNet."""
        if problem.is_imagenet_size:
            return {"views": 64, "lr": 0.00025, "crop": "resize"}
        return {"views": 32, "lr": 0.005, "crop": "pad"}

    def num_trainable(self) -> int:
        """Return the number of all weights: a copy of them is adapted for each image."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def step(self, images: Tensor) -> Tensor:
        """Adapt to each image from the source weights and predict it."""
        self.resolve(images)
        views, crop = self.hyperparameters["views"], self.hyperparameters["crop"]
        numbers = draw(len(images), views, self.randomness.on(torch.device("cpu")))
        size = self.images_at_once or max(1, VALUES_PER_PASS // (views * images[0].numel()))
        logits = []
        for few, drawn in zip(images.split(size), numbers.split(size), strict=True):
            seen = augmix_views(few, drawn, crop, self.fill)
            if self.supports_many_images and len(few) > 1:
                try:
                    logits.append(self._adapt(few, seen))
                    continue
                except (UnsupportedError, RuntimeError, TypeError, IndexError) as error:
                    supported = isinstance(error, torch.OutOfMemoryError)  # the next batch may be smaller
            else:
                supported = self.supports_many_images
            logits += [self._adapt(few[i : i + 1], seen[i : i + 1]) for i in range(len(few))]
            self.supports_many_images = supported  # not reached if one image alone raises as well
        return torch.cat(logits)

    def _adapt(self, images: Tensor, views: Tensor) -> Tensor:
        """Minimise the marginal entropy of each image's views, then return f(x) with each image's weights."""
        count = len(images)
        batch = views.flatten(0, 1).contiguous(memory_format=self.memory_format)
        weights = {
            name: values.detach().expand(count, *values.shape).requires_grad_()
            for name, values in self.model.named_parameters()
            if values.is_floating_point()
        }
        for _ in range(self.steps):
            with weights_by_image(self.model, weights, len(batch), source_share=self.source_share):
                logits = at_least_float32(self.model(batch))
                loss = marginal_entropy(logits.unflatten(0, (count, -1)))
                gradients = torch.autograd.grad(loss.sum(), list(weights.values()), materialize_grads=True)
            weights = self._sgd_step(weights, gradients, loss)
        with torch.no_grad(), weights_by_image(self.model, weights, count, source_share=self.source_share):
            predictions: Tensor = self.model(images)
        return predictions

    def _sgd_step(self, weights: dict[str, Tensor], gradients: tuple[Tensor, ...], loss: Tensor) -> dict[str, Tensor]:
        """Take the SGD step of each image, unless it is not finite."""
        norms = torch.stack([loss, *(torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients)])
        finite = norms.isfinite().all(dim=0)
        self.count("skipped_steps", int((~finite).sum()))
        after = {}
        for (name, values), gradient in zip(weights.items(), gradients, strict=True):
            taken = finite.view(-1, *(1,) * (gradient.ndim - 1))
            step = torch.where(taken, gradient, 0) if not finite.all() else gradient
            after[name] = torch.add(values.detach(), step, alpha=-self.hyperparameters["lr"]).requires_grad_()
        return after
