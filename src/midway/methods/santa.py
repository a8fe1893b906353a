"""SANTA: source anchoring and target alignment (Chakrabarty et al., TMLR 2023)."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from midway.adaptation.about import About
from midway.adaptation.augmentation import Augmentation
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.statistics import split_images, use_batch_statistics
from midway.adaptation.checks import check_range
from midway.adaptation.head import features_and_logits, resolve_head
from midway.adaptation.optimization import LazyOptimizer, OptimizerKind, adam_or_sgd
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.adaptation.problem import Problem
from midway.adaptation.prototypes import check_sources, checked_prototypes, class_means
from midway.adaptation.registry import register
from midway.adaptation.space import LogUniform, search_over
from midway.functional import at_least_float32
from midway.sampling import Randomness

IMAGES_PER_PASS = 200
PROJECTED = 128


def anchoring(logits: Tensor, augmented: Tensor, anchor: Tensor) -> Tensor:
    """Return the mean cross-entropy of the predictions of x and of a(x), half each, with log p of the anchor on x.

    Example:
        >>> import torch
        >>> from midway.methods.santa import anchoring
        >>> anchoring(*torch.zeros(3, 1, 4)).exp()
        tensor(4.)
    """
    predicted = (logits.softmax(dim=1) + augmented.softmax(dim=1)) / 2
    return -(predicted * anchor.detach().log_softmax(dim=1)).sum(dim=1).mean()


def alignment(views: Tensor, temperature: float) -> Tensor:
    """Return the contrastive loss of views (V, N, width): views of the same image attract, others repel each other.

    For each view, this is the mean of -log softmax(cosines / temperature) over the other views of its image, where the
    softmax is over all views but itself.

    Example:
        >>> import torch
        >>> from midway.methods.santa import alignment
        >>> views = torch.eye(2).expand(2, 2, 2)  # two equal views of each of two orthogonal images
        >>> alignment(views, temperature=1.0)  # ln (e + 2) - 1
        tensor(0.5514)
    """
    count, images = views.shape[:2]
    units = normalize(views.flatten(0, 1), dim=1)
    same = torch.eye(len(units), dtype=torch.bool, device=views.device)
    similarity = (units @ units.T / temperature).masked_fill(same, -torch.inf)
    positive = torch.eye(images, dtype=torch.bool, device=views.device).repeat(count, count) & ~same
    log_probabilities = similarity.log_softmax(dim=1).masked_fill(~positive, 0)
    return -log_probabilities.sum(dim=1).div(count - 1).mean()


def nearest_prototypes(features: Tensor, prototypes: Tensor) -> Tensor:
    """Return for each of the features (N, width) the prototype (C, width) with the largest cosine.

    Example:
        >>> import torch
        >>> from midway.methods.santa import nearest_prototypes
        >>> nearest_prototypes(torch.tensor([[3.0, 1.0]]), torch.tensor([[0.0, 9.0], [1.0, 0.0]]))
        tensor([[1., 0.]])
    """
    return prototypes[(normalize(features, dim=1) @ normalize(prototypes, dim=1).T).argmax(dim=1)]


@register
class SANTA(Method):
    """Adapts scales and shifts by self-training on the source's predictions and by aligning features with prototypes.

    The predictions of an image and of its augmentation are drawn to that of the source model, the anchor. A contrastive
    loss after a small projector, which is trained too, draws together the features of an image, those of its
    augmentation and the nearest class prototype. The method and the anchor use batch statistics. The method returns the
    logits from before the update.

    The prototypes are mean features of the source's classes. Without source images, they are the rows of the head,
    scaled to the length of the features of the batch. This is not published but needs no source data.

    Paper: Chakrabarty et al., TMLR 2023.

    Args:
        model: The classifier to adapt; it needs a linear head, whose input is the features.
        source_images: In-distribution images of all classes, (N, C, H, W), for the prototypes (published: the training
            images, up to 100,000); None uses the rows of the head.
        source_labels: Their labels, (N,); None uses the predictions of the source.
        prototypes: In place of ``source_images``, if these are too many for one tensor: the mean features of the
            images of each class, (classes, features).
        anchor_weight: Weight of the self-training (published: 1).
        contrast_weight: Weight of the contrastive loss (published: 1).
        temperature: Temperature of the contrastive loss (published: 0.1).
        per_image: Draw an augmentation for each image instead of one for the batch (published: False).
        optimizer: ``"adam"`` (published for CIFAR) or ``"sgd"`` with Nesterov momentum 0.9 (ImageNet).
        lr: Step size (published: 1e-3 for CIFAR, 0.01 for ImageNet); None chooses by image size.
        head: Name of the linear head, if it cannot be detected.
        seed: Seed of the augmentations and of the projector.

    Example:
        >>> import midway, torch
        >>> adapted = midway.SANTA(midway.models.create("resnet20"))
        >>> adapted(torch.rand(8, 3, 32, 32)).shape, sorted(adapted.diagnostics)
        (torch.Size([8, 10]), ['anchoring', 'contrast'])
    """

    about = About(
        name="santa",
        title="SANTA",
        colour="#8c6bb1",
        marker="p",
        paper="Chakrabarty et al., TMLR 2023",
        paradigm="batch",
        adapts="norm scales and shifts",
        predicts="before",
        passes="3 F + 2 B",
        needs=("norm layers", "batch statistics", "linear head", "source images (rows of the head without)"),
    )
    names_layers = ("head",)
    search_space = search_over(
        anchor_weight=LogUniform(0.1, 10.0),
        contrast_weight=LogUniform(0.1, 10.0),
        temperature=LogUniform(0.03, 1.0),
        lr=LogUniform(1e-5, 1e-2),
    )

    def __init__(
        self,
        model: nn.Module,
        *,
        source_images: Tensor | None = None,
        source_labels: Tensor | None = None,
        prototypes: Tensor | None = None,
        anchor_weight: float = 1.0,
        contrast_weight: float = 1.0,
        temperature: float = 0.1,
        per_image: bool = False,
        optimizer: OptimizerKind | None = None,
        lr: float | None = None,
        head: str | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        check_range(at_least=0, or_none=True, lr=lr)
        check_range(at_least=0, anchor_weight=anchor_weight, contrast_weight=contrast_weight)
        check_range(above=0, temperature=temperature)
        check_sources(source_images, source_labels, prototypes)
        self.anchor_weight, self.contrast_weight, self.temperature = anchor_weight, contrast_weight, temperature
        use_batch_statistics(self.model)
        self.head, layer = resolve_head(self, head)
        trainable = freeze_all_but(self.model, norm_affine(self.model))
        frozen = {id(p): p for p in self.model.parameters() if not p.requires_grad}
        self.anchor = copy.deepcopy(self.model, memo=frozen).requires_grad_(False)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            first, last = nn.Linear(layer.in_features, PROJECTED), nn.Linear(PROJECTED, PROJECTED)
            projector = nn.Sequential(first, nn.ReLU(), last)
        self.projector = self.add_state("projector", projector.to(layer.weight))
        trained = [*trainable, *projector.parameters()]
        self.optimizer = self.add_state("optimizer", LazyOptimizer(trained, nesterov=True))
        self.randomness = self.add_state("randomness", Randomness(seed))
        self.augmentation = Augmentation(per_image=per_image)
        self.measured = source_images is not None or prototypes is not None
        if source_images is not None:
            prototypes = self._mean_features(source_images, source_labels, len(layer.weight))
        elif prototypes is None:
            prototypes = normalize(layer.weight.detach(), dim=1)
        else:
            prototypes = checked_prototypes(prototypes, layer.weight)
        self.register_buffer("prototypes", prototypes)
        self.prototypes: Tensor

    @classmethod
    def defaults_for(cls, problem: Problem) -> dict[str, Any]:
        """Return the published optimiser and step size for CIFAR or for ImageNet."""
        return adam_or_sgd(problem, sgd_lr=0.01)

    def step(self, images: Tensor) -> Tensor:
        """Minimise the two losses and return f(x)."""
        changed = self.augmentation(images, self.randomness.on(images.device))
        changed = changed.contiguous(memory_format=self.memory_format)
        features, logits = features_and_logits(self.model, self.head, images, gradients=True)
        self.resolve(images, logits)
        augmented = features_and_logits(self.model, self.head, changed, gradients=True)
        with torch.no_grad():
            anchor = self.anchor(images)
        z = at_least_float32(features.detach())
        near = nearest_prototypes(z, self.prototypes.to(z))
        near = near if self.measured else near * z.norm(dim=1).mean()  # rows of the head have length 1
        views = torch.stack([near.to(features), features, augmented[0]]).to(next(self.projector.parameters()))
        contrast = alignment(at_least_float32(self.projector(views)), self.temperature)
        anchored = anchoring(*(at_least_float32(each) for each in (logits, augmented[1], anchor)))
        self.record(anchoring=anchored.item(), contrast=contrast.item())
        self.optimizer_step(self.anchor_weight * anchored + self.contrast_weight * contrast, self.optimizer)
        return logits

    def _mean_features(self, images: Tensor, labels: Tensor | None, classes: int) -> Tensor:
        """Return the mean features of the images of each class, in batches, with their statistics."""
        try:
            self._check_images(images)
            self._prepare(images.detach())
        except (TypeError, ValueError) as error:
            raise type(error)(f"source_images: {error}") from error
        batches = split_images(images, IMAGES_PER_PASS)
        answers = [features_and_logits(self.model, self.head, few) for few in batches]
        features = torch.cat([each for each, _ in answers])
        labels = torch.cat([logits for _, logits in answers]).argmax(dim=1) if labels is None else labels
        return class_means(features, labels, classes)
