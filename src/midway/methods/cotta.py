"""CoTTA: continual test-time adaptation with a mean teacher and stochastic restoration (Wang et al., CVPR 2022)."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from midway.adaptation.about import About
from midway.adaptation.augmentation import Augmentation
from midway.adaptation.averaging import average_towards
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.replaced_statistics import observers_of
from midway.adaptation.batch_norm.statistics import use_batch_statistics
from midway.adaptation.checks import check_range
from midway.adaptation.losses import soft_cross_entropy, symmetric_cross_entropy
from midway.adaptation.optimization import LazyOptimizer, OptimizerKind, adam_or_sgd
from midway.adaptation.parameters import freeze_all_but
from midway.adaptation.problem import Problem
from midway.adaptation.registry import register
from midway.adaptation.space import Integers, LogUniform, Uniform, search_over
from midway.functional import at_least_float32
from midway.sampling import Randomness


def mean_of_finite(predictions: Iterable[Tensor]) -> Tensor:
    """Return the mean of several logits (N, C) of the same images, each image without those that are not finite.

    An image without finite logits has NaN.

    Example:
        >>> import torch
        >>> from midway.methods.cotta import mean_of_finite
        >>> mean_of_finite([torch.tensor([[1.0, 3.0]]), torch.tensor([[3.0, 5.0]]), torch.tensor([[0.0, torch.inf]])])
        tensor([[2., 4.]])
    """
    total, count = torch.zeros(()), torch.zeros(())
    for logits in predictions:
        finite = logits.isfinite().all(dim=1, keepdim=True)
        total, count = total + torch.where(finite, logits, 0), count + finite
    return total / count


@register
class CoTTA(Method):
    """Adapts all weights of a student to the predictions of a teacher, the moving average of the student.

    If the source is unsure of a batch, the teacher's prediction is the mean of its logits over augmented views,
    otherwise its logits for the images alone. The student takes a step on the cross-entropy with this prediction, the
    teacher follows the student, and each weight of the student is reset to the source with a small probability. The
    method returns the teacher's prediction from before the update. All three networks use batch statistics.

    Hyper-parameters left at None are resolved from the first batch.

    Paper: Wang et al., CVPR 2022.

    Args:
        model: The classifier to adapt. As published, only parameters named weight or bias adapt, not the class token or
            position embedding of a transformer.
        threshold: Mean confidence of the source below which the teacher predicts from views (published: 0.92 for
            CIFAR-10, 0.72 for CIFAR-100, 0.1 for ImageNet).
        views: Augmented views (published: 32).
        restore: Probability that a weight is reset to the source (published: 0.01, or 0.001 for ImageNet).
        teacher_share: Share of the student in the teacher's weights per update (published: 0.001).
        symmetric: Use the cross-entropy in both directions, half each (published: for ImageNet).
        per_image: Draw an augmentation for each image instead of one for the batch (published: False).
        optimizer: ``"adam"`` (published for CIFAR) or ``"sgd"`` with Nesterov momentum 0.9 (ImageNet).
        lr: Step size (published: 1e-3 for CIFAR, 0.01 for ImageNet).
        seed: Seed of the augmentation and of the restoration.

    Example:
        >>> import midway, torch
        >>> adapted = midway.CoTTA(midway.models.create("resnet20"), views=2)
        >>> adapted(torch.rand(8, 3, 32, 32)).shape, adapted.hyperparameters["threshold"]
        (torch.Size([8, 10]), 0.92)
    """

    about = About(
        name="cotta",
        title="CoTTA",
        colour="#5b7f95",
        marker="p",
        paper="Wang et al., CVPR 2022",
        paradigm="batch",
        adapts="all weights",
        predicts="before",
        passes="3 F + 1 B, or V + 2 F + 1 B (V views)",
        needs=("batch statistics",),
    )
    search_space = search_over(
        threshold=Uniform(0.0, 1.0),
        views=Integers(1, 64, log=True),
        restore=LogUniform(1e-4, 0.1),
        teacher_share=LogUniform(1e-4, 0.1),
        lr=LogUniform(1e-5, 2e-2),
    )

    def __init__(
        self,
        model: nn.Module,
        *,
        threshold: float | None = None,
        views: int = 32,
        restore: float | None = None,
        teacher_share: float = 0.001,
        symmetric: bool | None = None,
        per_image: bool = False,
        optimizer: OptimizerKind | None = None,
        lr: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        check_range(at_least=0, or_none=True, lr=lr)
        check_range(at_least=1, views=views)
        check_range(at_least=0, at_most=1, or_none=True, restore=restore)
        check_range(at_least=0, at_most=1, teacher_share=teacher_share)
        self.views, self.teacher_share = views, teacher_share
        use_batch_statistics(self.model)
        self.add_state("model", self.model)  # the teacher: its weights change without being trainable
        self.source, self.student = copy.deepcopy(self.model), copy.deepcopy(self.model)
        trainable = freeze_all_but(self.student, _weights_and_biases(self.student))
        self.augmentation = Augmentation(per_image=per_image)
        self.optimizer = self.add_state("optimizer", LazyOptimizer(trainable, nesterov=True))
        self.randomness = self.add_state("randomness", Randomness(seed))

    @classmethod
    def defaults_for(cls, problem: Problem) -> dict[str, Any]:
        """Return the published values for a problem of this size."""
        large = problem.is_imagenet_size
        threshold = 0.1 if large else 0.92 if problem.classes < 100 else 0.72
        restore = 0.001 if large else 0.01
        return {"threshold": threshold, "restore": restore, "symmetric": large} | adam_or_sgd(problem, sgd_lr=0.01)

    @property
    def teacher(self) -> nn.Module:
        """The network that predicts."""
        return self.model

    def step(self, images: Tensor) -> Tensor:
        """Teach the student, let the teacher follow, restore some weights, and return the teacher's logits."""
        logits = at_least_float32(self.student(images))
        self.resolve(images, logits)
        taught = self._teach(images)
        losses = symmetric_cross_entropy if self.hyperparameters["symmetric"] else soft_cross_entropy
        self.optimizer_step(losses(logits, taught).mean(), self.optimizer)
        average_towards(self.teacher.parameters(), self.student.parameters(), self.teacher_share)
        self._restore_weights(self.hyperparameters["restore"])
        return taught

    @torch.no_grad()
    def _teach(self, images: Tensor) -> Tensor:
        """Return the teacher's logits, over augmented views if the source is unsure."""
        confidence = at_least_float32(self.source(images)).softmax(dim=1).amax(dim=1).mean().item()
        unsure = confidence < self.hyperparameters["threshold"]
        self.record(source_confidence=confidence)
        self.count("batches_with_views", int(unsure))
        if unsure and observers_of(self.teacher):
            self.teacher(images)  # a pass over the batch itself, from which replaced statistics learn
        if not unsure:
            return at_least_float32(self.teacher(images))
        generator = self.randomness.on(images.device)
        augmented = (self.augmentation(images, generator) for _ in range(self.views))
        views = (each.contiguous(memory_format=self.memory_format) for each in augmented)
        mean = mean_of_finite(at_least_float32(self.teacher(each)) for each in views)
        failed = mean.isnan()  # no view of the image has finite logits
        return torch.where(failed, at_least_float32(self.teacher(images)), mean) if failed.any() else mean

    @torch.no_grad()
    def _restore_weights(self, probability: float) -> None:
        """Reset each weight of the student to the source with the given probability."""
        for weights, source in zip(self.student.parameters(), self.source.parameters(), strict=True):
            if weights.requires_grad:
                generator = self.randomness.on(weights.device)
                drawn = torch.rand(weights.shape, generator=generator, device=weights.device, dtype=torch.float32)
                chosen = drawn < probability
                weights.copy_(torch.where(chosen, source, weights))


def _weights_and_biases(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that are named weight or bias."""
    parameters = dict(model.named_parameters())
    return {name: parameters[name] for name in parameters if name.rpartition(".")[2] in ("weight", "bias")}
