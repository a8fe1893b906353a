"""NOTE: instance-aware statistics and a class-balanced memory (Gong et al., NeurIPS 2022)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from midway.adaptation.about import About
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.instance_aware import STANDARD_ERRORS, use_instance_aware_statistics
from midway.adaptation.batch_norm.replacement import updating_statistics
from midway.adaptation.batch_norm.statistics import use_batch_statistics
from midway.adaptation.checks import check_range
from midway.adaptation.losses import EntropyLoss, entropy_loss
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.adaptation.registry import register
from midway.adaptation.reservoir_memory import ReservoirMemory
from midway.adaptation.space import Choice, LogUniform, Uniform, preset_values, search_over
from midway.functional import at_least_float32
from midway.sampling import Randomness

SMALLEST_PROBABILITY = 1e-6


def mean_entropy(logits: Tensor) -> Tensor:
    """Return the mean of -p log(p + 1e-6) over images and classes, so the entropy is divided by C, as published.

    Example:
        >>> import torch
        >>> from midway.methods.note import mean_entropy
        >>> mean_entropy(torch.zeros(1, 4))  # ln 4 / 4
        tensor(0.3466)
    """
    probabilities = logits.softmax(dim=1)
    return -(probabilities * (probabilities + SMALLEST_PROBABILITY).log()).mean()


@register
class NOTE(Method):
    """Adapts scales, shifts and running statistics to a class-balanced memory of the stream; images are independent.

    BatchNorm layers become instance-aware (``adaptation/batch_norm/instance_aware.py``): an image is normalised with
    the running statistics, corrected where its own statistics deviate by more than chance. Predictions do not depend on
    the rest of the batch. Every 64 images, one step of Adam minimises the entropy of the memory, with the statistics of
    the memory, and the running statistics move towards these. Labels that come in runs therefore do no harm.

    The published networks are trained with instance-aware layers. NOTE*, the published variant for shuffled streams, is
    ``batch_statistics=True, sampling="recent", lr=1e-3``: the statistics of the batch replace the running ones.

    Paper: Gong et al., NeurIPS 2022.

    Args:
        model: The classifier to adapt. BatchNorm layers that compute more than BatchNorm keep the source's statistics.
        k: Standard errors by which an image may deviate from the running statistics (published: 4).
        memory: Images in the memory and between updates (published: 64).
        sampling: ``"balanced"``, the paper's PBRS; ``"recent"``: the latest images.
        momentum: Momentum of the running statistics (published: 0.01).
        batch_statistics: Replace the running statistics by those of the batch (NOTE*). The images of a batch are then
            predicted together, before its updates; the published code waits until it has as many images as the memory.
        lr: Step size of Adam (published: 1e-4; 1e-3 for NOTE*).
        weight_decay: Weight decay of Adam (the paper: 0; for CIFAR, its code ignores this and uses 5e-4).
        loss: ``"entropy"``, or ``"come"`` in its place (Zhang et al., ICLR 2025).
        seed: Seed of the memory.

    Example:
        >>> import midway, torch
        >>> adapted = midway.NOTE(midway.models.create("resnet20"), memory=8)
        >>> adapted(torch.rand(20, 3, 32, 32)).shape, adapted.diagnostics["updates"]
        (torch.Size([20, 10]), 2)
    """

    about = About(
        name="note",
        title="NOTE",
        colour="#b58900",
        marker="d",
        paper="Gong et al., NeurIPS 2022",
        paradigm="batch",
        adapts="norm scales and shifts, BatchNorm statistics",
        predicts="before",
        passes="2 F + 1 B",
        needs=("norm layers",),
    )
    uses_source_statistics = True
    search_space = search_over(
        k=Uniform(0.0, 8.0),
        memory=Choice(16, 32, 64, 128),
        momentum=LogUniform(1e-3, 0.5),
        lr=LogUniform(1e-5, 1e-2),
    )
    published = preset_values(weight_decay=5e-4)

    def __init__(
        self,
        model: nn.Module,
        *,
        k: float = STANDARD_ERRORS,
        memory: int = 64,
        sampling: Literal["balanced", "recent"] = "balanced",
        momentum: float = 0.01,
        batch_statistics: bool = False,
        lr: float = 1e-4,
        weight_decay: float = 0.0,
        loss: EntropyLoss = "entropy",
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        check_range(at_least=1, memory=memory)
        check_range(at_least=0, at_most=1, momentum=momentum)
        check_range(at_least=0, lr=lr, weight_decay=weight_decay)
        self.entropy = entropy_loss(loss)
        self.period = memory
        self.layers = use_instance_aware_statistics(self.model, k, momentum)
        self.batch_statistics = batch_statistics
        if batch_statistics:
            use_batch_statistics(self.model)
        trainable = freeze_all_but(self.model, norm_affine(self.model))
        optimizer = torch.optim.Adam(trainable, lr=lr, weight_decay=weight_decay)
        self.optimizer = self.add_state("optimizer", optimizer)
        self.randomness = self.add_state("randomness", Randomness(seed))
        balanced = sampling == "balanced"
        self.memory = self.add_state("memory", ReservoirMemory(memory, self.randomness, balanced=balanced))
        self.images_seen = self.add_state("images_seen", 0)

    def step(self, images: Tensor) -> Tensor:
        """Predict the images up to the next update (NOTE*: all), store them and update, until all are stored."""
        together = self.network_logits(images) if self.batch_statistics else None
        logits, start = [], 0
        while start < len(images):
            stop = min(len(images), start + self.period - self.images_seen % self.period)
            logits.append(self.network_logits(images[start:stop]) if together is None else together[start:stop])
            self._store(images[start:stop], logits[-1])
            self.images_seen += stop - start
            start = stop
            if self.images_seen % self.period == 0 and self.memory.images:
                self._update()
        return torch.cat(logits)

    def _store(self, images: Tensor, logits: Tensor) -> None:
        finite = logits.isfinite().all(dim=1)  # an image on which the network overflows would spoil every update
        self.count("images_left_out", int((~finite).sum()))
        for image, label, good in zip(images, logits.argmax(dim=1).tolist(), finite.tolist(), strict=True):
            if good:
                self.memory.add(image.clone(), label)

    def _update(self) -> None:
        same_size = [image for image in self.memory.images if image.shape == self.memory.images[-1].shape]
        batch = torch.stack(same_size).contiguous(memory_format=self.memory_format)
        with updating_statistics(self.model):
            logits = self.model(batch)
        self.optimizer_step(self._loss(at_least_float32(logits)), self.optimizer)
        self.count("updates")
        self.record(stored_classes=len(set(self.memory.classes)))

    def _loss(self, logits: Tensor) -> Tensor:
        opinions = self.hyperparameters["loss"] == "come"
        return self.entropy(logits).mean() / logits.shape[1] if opinions else mean_entropy(logits)
