"""MEMO: marginal entropy minimisation with one test point (Zhang et al., NeurIPS 2022)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from midway.adaptation.base import About, Method
from midway.adaptation.parameters import refuse_half_precision
from midway.adaptation.per_image import UnsuitedError, weights_by_image
from midway.adaptation.problem import Problem
from midway.adaptation.space import Choice, Integers, LogUniform, search_over
from midway.adaptation.views import Crop, augmix_views, draw
from midway.sampling import Randomness

NUMBERS_AT_ONCE = 400_000
"""Values in the views of the images that one pass takes."""


def marginal_entropy(logits: Tensor) -> Tensor:
    """Entropy of the mean prediction over views, in nats.

    Args:
        logits: (..., views, classes).

    Returns:
        (...), between 0 and ln classes.

    Example:
        >>> import torch
        >>> from midway.methods.memo import marginal_entropy
        >>> marginal_entropy(torch.tensor([[200.0, 0.0], [0.0, 200.0]])).exp()
        tensor(2.)
    """
    log_mean = logits.log_softmax(dim=-1).logsumexp(dim=-2) - math.log(logits.shape[-2])
    return -(log_mean.exp() * log_mean).sum(dim=-1)


class MEMO(Method):
    """All weights move, for each image anew, towards one confident prediction over augmented views of the image.

    From the source weights, SGD descends the entropy of the mean prediction over AugMix views; the answer is that on
    the plain image after the step, and the weights are the source's again for the next image. BatchNorm layers mix the
    source's statistics with those of the views (of the plain image, for the answer). No image sees another one: how a
    stream is cut into batches changes no answer.

    Gradients at the source weights need one forward and backward pass for many images together; networks that
    cannot be run that way adapt image by image, with the same answers.

    Paper: Zhang et al., NeurIPS 2022.

    Args:
        model: The classifier to adapt.
        views: Views an image (published: 32 for CIFAR, 64 for ImageNet); None chooses by the size of the images.
        lr: Step size of SGD (published: 0.005 for CIFAR, 0.00025 for ImageNet); None chooses likewise.
        crop: ``"pad"`` by 4 pixels (published for CIFAR) or ``"resize"`` a part of the image (ImageNet), before AugMix;
            None chooses likewise.
        steps: Steps an image (published: 1).
        prior: N: the source's statistics weigh N / (N + 1) (published: 16); 0 uses the views' alone.
        images_at_once: How many images to adapt to in one pass; None bounds memory. It changes no answer.
        seed: Seed of the views.

    Example:
        >>> import midway, torch
        >>> adapted = midway.MEMO(midway.models.create("resnet20"), views=4)
        >>> adapted(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])
        >>> adapted.hyperparameters["lr"]
        0.005
    """

    about = About(
        name="memo",
        title="MEMO",
        colour="#7a4a2b",
        marker="<",
        paper="Zhang et al., NeurIPS 2022",
        paradigm="instance",
        moves="all weights",
        answers="after",
        passes="V + 1 F, V B (V views)",
        uses_other_images=False,
        aligns_each_image=True,
    )
    evolving = ("randomness",)
    uses_source_statistics = True
    search_space = search_over(
        lr=LogUniform(5e-4, 5e-2),
        steps=Integers(1, 3),
        prior=Choice(4, 8, 16, 32, 64),
    )

    def __init__(
        self,
        model: nn.Module,
        *,
        views: int | None = None,
        lr: float | None = None,
        crop: Crop | None = None,
        steps: int = 1,
        prior: float = 16,
        images_at_once: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        if not any(True for _ in self.model.parameters()):
            raise ValueError("the model has no weights to move: use a method that moves other things, such as lame.")
        refuse_half_precision(dict(self.model.named_parameters()))
        if views is not None and views < 1:
            raise ValueError(f"views must be at least 1, got {views}.")
        if lr is not None and lr < 0:
            raise ValueError(f"lr must be 0 or more, or None (by the size of the problem), got {lr}.")
        if steps < 1:
            raise ValueError(f"steps must be at least 1, got {steps}.")
        if crop not in (None, "pad", "resize"):
            raise ValueError(f"crop must be 'pad', 'resize' or None, got {crop!r}.")
        if prior < 0:
            raise ValueError(f"prior must be 0 or more, got {prior}.")
        if images_at_once is not None and images_at_once < 1:
            raise ValueError(f"images_at_once must be at least 1, got {images_at_once}.")
        self.steps = steps
        self.source_share = prior / (prior + 1)
        self.images_at_once = images_at_once
        self.randomness = Randomness(seed)
        self._takes_many_images = True  # until the network shows otherwise

    @classmethod
    def defaults_for(cls, problem: Problem) -> dict[str, Any]:
        """Return the published values for CIFAR or for ImageNet."""
        if problem.is_imagenet_size:
            return {"views": 64, "lr": 0.00025, "crop": "resize"}
        return {"views": 32, "lr": 0.005, "crop": "pad"}

    def count_moving(self) -> int:
        """Return the number of all weights: a copy of them moves for each image."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def step(self, images: Tensor) -> Tensor:
        """Adapt to each image from the source weights and answer it."""
        if None in (self.hyperparameters[name] for name in ("views", "lr", "crop")):
            with torch.no_grad():
                self.settle(images, self.model(images[:2]))
        views, crop = self.hyperparameters["views"], self.hyperparameters["crop"]
        numbers = draw(len(images), views, self.randomness.on(torch.device("cpu")))
        size = self.images_at_once or max(1, NUMBERS_AT_ONCE // (views * images[0].numel()))
        answers = []
        for few, drawn in zip(images.split(size), numbers.split(size), strict=True):
            seen = augmix_views(few, drawn, crop)
            if self._takes_many_images and len(few) > 1:
                try:
                    answers.append(self._adapt(few, seen))
                    continue
                except (UnsuitedError, RuntimeError, TypeError, IndexError):  # the network's own come again below
                    self._takes_many_images = False
            answers += [self._adapt(few[i : i + 1], seen[i : i + 1]) for i in range(len(few))]
        return torch.cat(answers)

    def _adapt(self, images: Tensor, views: Tensor) -> Tensor:
        """Descend the marginal entropy of each image's views, then answer f(x) with each image's weights."""
        count = len(images)
        batch = views.flatten(0, 1).contiguous(memory_format=self.memory_format)
        weights = {
            name: values.detach().expand(count, *values.shape).requires_grad_()
            for name, values in self.model.named_parameters()
            if values.is_floating_point()
        }
        for _ in range(self.steps):
            with weights_by_image(self.model, weights, len(batch), source_share=self.source_share):
                logits = self.model(batch)
                logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
                loss = marginal_entropy(logits.unflatten(0, (count, -1)))
                gradients = torch.autograd.grad(loss.sum(), list(weights.values()), materialize_grads=True)
            weights = self._descend_by_image(weights, gradients, loss)
        with torch.no_grad(), weights_by_image(self.model, weights, count, source_share=self.source_share):
            answers: Tensor = self.model(images)
        return answers

    def _descend_by_image(
        self, weights: dict[str, Tensor], gradients: tuple[Tensor, ...], loss: Tensor
    ) -> dict[str, Tensor]:
        """Take the SGD step of each image, unless it is not finite."""
        norms = torch.stack([loss, *(torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients)])
        finite = norms.isfinite().all(dim=0)
        self.count("skipped_steps", int((~finite).sum()))
        moved = {}
        for (name, values), gradient in zip(weights.items(), gradients, strict=True):
            taken = finite.view(-1, *(1,) * (gradient.ndim - 1))
            step = torch.where(taken, gradient, 0) if not finite.all() else gradient
            moved[name] = torch.add(values.detach(), step, alpha=-self.hyperparameters["lr"]).requires_grad_()
        return moved
