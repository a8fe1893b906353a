"""RoTTA: robust test-time adaptation in dynamic scenarios (Yuan et al., CVPR 2023)."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from midway.adaptation.about import About
from midway.adaptation.augmentation import Augmentation
from midway.adaptation.averaging import average_towards
from midway.adaptation.balanced_memory import BalancedMemory
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.replacement import updating_statistics
from midway.adaptation.batch_norm.robust import use_robust_statistics
from midway.adaptation.checks import check_range
from midway.adaptation.losses import soft_cross_entropy
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.adaptation.registry import register
from midway.adaptation.space import Choice, LogUniform, search_over
from midway.functional import at_least_float32, entropy
from midway.sampling import Randomness


@register
class RoTTA(Method):
    """Adapts scales and shifts of a student to a teacher on a memory of certain, recent and class-balanced images.

    The teacher, the moving average of the student, predicts the images of a batch, which are then offered to the memory
    one by one. After every 64 images, the student takes a step on the cross-entropy between its predictions for the
    augmented memory and the teacher's for the plain memory. Old images count less. The teacher then follows the
    student. The BatchNorm layers of both normalise with moving averages that start from the source's statistics, so
    correlated labels do little harm and single images suffice. The method returns the teacher's prediction from before
    any update.

    Paper: Yuan et al., CVPR 2023.

    Args:
        model: The classifier to adapt.
        memory: Images in the memory (published: 64).
        interval: Images between two updates (published: 64).
        teacher_share: Share of the student in the teacher's weights per update (published: 0.001).
        statistics_share: Share of the batch in the statistics per pass (published: 0.05).
        per_image: Draw an augmentation for each image instead of one for the memory (published: False).
        lr: Step size of Adam (published: 1e-3, for all data sets).
        seed: Seed of the augmentation.

    Example:
        >>> import midway, torch
        >>> adapted = midway.RoTTA(midway.models.create("resnet20"), interval=4)
        >>> adapted(torch.rand(8, 3, 32, 32)).shape, adapted.diagnostics["updates"]
        (torch.Size([8, 10]), 2)
    """

    about = About(
        name="rotta",
        title="RoTTA",
        colour="#4d9e2f",
        marker="^",
        paper="Yuan et al., CVPR 2023",
        paradigm="batch",
        adapts="norm scales and shifts, BatchNorm statistics",
        predicts="before",
        passes="1 F, 2 F + 1 B of the memory per 64 images",
        needs=("norm layers",),
    )
    uses_source_statistics = True
    search_space = search_over(
        interval=Choice(16, 32, 64, 128),
        teacher_share=LogUniform(1e-4, 0.1),
        statistics_share=LogUniform(0.005, 0.5),
        lr=LogUniform(1e-5, 1e-2),
    )

    def __init__(
        self,
        model: nn.Module,
        *,
        memory: int = 64,
        interval: int = 64,
        teacher_share: float = 0.001,
        statistics_share: float = 0.05,
        per_image: bool = False,
        lr: float = 1e-3,
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        check_range(at_least=1, memory=memory, interval=interval)
        check_range(at_least=0, at_most=1, teacher_share=teacher_share, statistics_share=statistics_share)
        check_range(at_least=0, lr=lr)
        self.interval, self.teacher_share = interval, teacher_share
        use_robust_statistics(self.model, statistics_share)
        self.add_state("model", self.model)  # the teacher: its weights change without being trainable
        self.student = copy.deepcopy(self.model)
        trainable = freeze_all_but(self.student, norm_affine(self.student))
        self.augmentation = Augmentation(per_image=per_image)
        self.optimizer = self.add_state("optimizer", torch.optim.Adam(trainable, lr=lr))
        self.memory = self.add_state("memory", BalancedMemory(memory))
        self.seen: int = self.add_state("seen", 0)
        self.randomness = self.add_state("randomness", Randomness(seed))

    @property
    def teacher(self) -> nn.Module:
        """The network that predicts."""
        return self.model

    def step(self, images: Tensor) -> Tensor:
        """Predict with the teacher, then offer the images to the memory and update after every few of them."""
        logits = at_least_float32(self.network_logits(images))
        labels = logits.argmax(dim=1).tolist()
        uncertainties = (entropy(logits) / math.log(logits.shape[1])).tolist()
        for image, label, uncertainty in zip(images, labels, uncertainties, strict=True):
            self.memory.add(image, label=label, uncertainty=uncertainty, classes=logits.shape[1])
            self.seen += 1
            if self.seen % self.interval == 0 and len(self.memory):
                self._update()
        return logits

    def _update(self) -> None:
        """Take a step of the student on the memory, weighted by age, and let the teacher follow."""
        images = self.memory.images().contiguous(memory_format=self.memory_format)
        augmented = self.augmentation(images, self.randomness.on(images.device))
        with torch.no_grad(), updating_statistics(self.teacher):
            taught = at_least_float32(self.teacher(images))
        with updating_statistics(self.student):
            logits = at_least_float32(self.student(augmented.contiguous(memory_format=self.memory_format)))
        timeliness = torch.sigmoid(-logits.new_tensor(self.memory.ages()))  # e^-a / (1 + e^-a)
        self.optimizer_step((timeliness * soft_cross_entropy(logits, taught)).mean(), self.optimizer)
        average_towards(self.teacher.parameters(), self.student.parameters(), self.teacher_share)
        self.count("updates")
        self.record(memory=len(self.memory))
