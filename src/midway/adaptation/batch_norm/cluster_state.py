"""The clusters of images that a network has seen, and those of a pass: which images share their statistics."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from midway.adaptation.batch_norm.cluster_mixture import RECENT, Assignment, assign_clusters
from midway.adaptation.batch_norm.gaussian_mixture import MAX_CLUSTERS, MixtureState
from midway.adaptation.batch_norm.replaced_statistics import BatchObserver, is_close
from midway.adaptation.batch_norm.spectra import FEATURES, spectra

ENOUGH = 64.0
"""The number of images up to which the memory completes those of the batch, and which it averages over."""

_STATE = ("centres", "counts", "covariance", "covariances")


@dataclass
class BatchClusters:
    """The clusters of the images of one pass, by which the layers compute its statistics.

    Attributes:
        probabilities: The probability of each cluster for each image, (images, clusters).
        mixing: The share of each cluster in the statistics of each cluster.
        slots: The slots of the clusters.
        remembered: The number of images in memory of each of these clusters, before this batch.
        transfer: The weights with which the memories of all slots make up those before this batch, since clusters may
            have been split or merged; None for a pass that is not remembered.
        spectra: The spectra of the images.
        outliers: Which images are of a rare cluster.
        learn: Whether the layers remember the statistics of the images.
        layers: The memory of each layer before this batch.
    """

    probabilities: Tensor
    mixing: Tensor
    slots: Tensor
    remembered: Tensor
    transfer: Tensor | None
    spectra: Tensor
    outliers: Tensor
    learn: bool = True
    layers: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)


class ClusterTracker(BatchObserver):
    """The clusters of images that a network with clustered statistics has seen; all its layers share one instance.

    A new batch updates the clusters and the memory. Further passes over the batch (also mirrored or slightly changed)
    use its clusters. Passes over other images, such as samples of the model, are divided into clusters on their own and
    are not remembered. Between batches, the network of a method predicts with what it remembers, and remembers nothing
    new.
    """

    centres: Tensor
    counts: Tensor
    covariance: Tensor
    covariances: Tensor
    recent: Tensor
    filled: Tensor
    unsplit: Tensor
    remembered: Tensor

    def __init__(self, memory: bool) -> None:
        super().__init__()
        self.memory, self.warned = memory, False
        initial = MixtureState.initial()
        for name in _STATE:
            self.register_buffer(name, getattr(initial, name))
        self.register_buffer("recent", torch.zeros(RECENT if memory else 0, FEATURES, dtype=torch.float64))
        self.register_buffer("filled", torch.zeros((), dtype=torch.long))
        self.register_buffer("unsplit", torch.zeros((), dtype=torch.long))
        self.register_buffer("remembered", torch.zeros(MAX_CLUSTERS, dtype=torch.float64))
        self.batch: BatchClusters | None = None
        self.current: BatchClusters | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Omit the current batch: a copy starts with the next one."""
        return {**self.__dict__, "images": None, "batch": None, "current": None}

    def warn_of_size(self, batch: int, layer: int) -> None:
        """Warn once that a layer has another number of images than the batch."""
        if not self.warned:
            self.warned = True
            warnings.warn(
                f"a BatchNorm layer has {layer} images of a batch of {batch}: the network divides or repeats images, "
                "and such layers treat all of them as one cluster. Take further views in passes of their own.",
                stacklevel=2,
            )

    def begin_batch(self) -> None:
        """Let the batch update the clusters; passes over it use its clusters."""
        assert self.images is not None
        self.batch = self._track(spectra(self.images))

    def restart_batch(self) -> None:
        """Forget the current batch, or divide it again if it is not over: the state has changed."""
        self.batch = self.current = None if self.images is None else self._track(spectra(self.images))

    def choose_clusters(self, model: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Choose the clusters of a pass by its images (a forward pre-hook of the network)."""
        images = inputs[0]
        batch = self.batch if self.images is not None or not self.managed else None
        if batch is not None and is_close(images, self.images):
            self.current = batch
            return
        described = spectra(images)
        if batch is not None and is_close(described, batch.spectra):
            self.current = batch
        elif self.managed and self.images is None:
            self.current = self._track(described, learn=False)
        elif self.managed:
            self.current = self._divide(described)
        else:
            self.current = self.batch = self._track(described)

    def _divide(self, described: Tensor) -> BatchClusters:
        """Divide images into clusters on their own."""
        assignment, _ = assign_clusters(MixtureState.initial(described.device), described)
        return self._batch_clusters(assignment, described, learn=False)

    def _track(self, described: Tensor, *, learn: bool = True) -> BatchClusters:
        """Divide images into the clusters that are known or new, and update what is known if ``learn``."""
        if not self.memory:
            return self._divide(described)
        recent = self.recent[RECENT - int(self.filled) :]
        buffers = {name: getattr(self, name).double() for name in _STATE}
        state = MixtureState(**buffers, recent=recent.double(), unsplit=int(self.unsplit))
        assignment, state = assign_clusters(state, described)
        clusters = self._batch_clusters(assignment, described, learn=True)
        if not learn:
            clusters.learn = False
            return clusters
        for name in _STATE:
            getattr(self, name).copy_(getattr(state, name))
        self.filled.fill_(len(state.recent))
        self.unsplit.fill_(state.unsplit)
        self.recent[RECENT - len(state.recent) :] = state.recent.to(self.recent)
        images = assignment.probabilities.sum(dim=0)
        self.remembered.copy_((assignment.origins @ self.remembered.double()).clamp(max=ENOUGH) + images)
        self.remembered.mul_(self.counts > 0)
        return clusters

    def _batch_clusters(self, assignment: Assignment, described: Tensor, *, learn: bool) -> BatchClusters:
        origins = assignment.origins * self.remembered.double() if learn else torch.zeros_like(assignment.origins)
        remembered = origins.sum(dim=1)
        transfer = (origins / remembered.clamp(min=1e-9)[:, None]).float() if learn else None
        present = assignment.probabilities.sum(dim=0) > 1e-3
        slots = (present | (assignment.mixing[present] > 1e-3).any(dim=0)).nonzero().flatten()
        parts = assignment.probabilities[:, slots], assignment.mixing[slots][:, slots]
        probabilities, mixing = ((each / each.sum(dim=1, keepdim=True).clamp(min=1e-9)).float() for each in parts)
        remembered = remembered[slots].clamp(max=ENOUGH).float()
        return BatchClusters(probabilities, mixing, slots, remembered, transfer, described, assignment.outliers)

    def labels(self) -> list[int]:
        """Return the cluster of each image of the last batch, as the number of its slot."""
        if self.batch is None:
            return []
        return self.batch.slots[self.batch.probabilities.argmax(dim=1)].tolist()

    def num_outliers(self) -> int:
        """Return how many images of the last batch are of a rare cluster."""
        return 0 if self.batch is None else int(self.batch.outliers.sum())


def shares_of_images(model: nn.Module) -> Tensor | None:
    """Return the share of each image of the batch in the statistics of each image, (images, images).

    None for a model without clustered statistics: all images have equal shares.
    """
    for tracker in trackers_of(model):
        if tracker.batch is not None:
            probabilities, mixing = tracker.batch.probabilities, tracker.batch.mixing
            shares = probabilities @ mixing @ (probabilities / probabilities.sum(dim=0).clamp(min=1e-6)).T
            return shares / shares.sum(dim=1, keepdim=True).clamp(min=1e-6)
    return None


def trackers_of(model: nn.Module) -> list[ClusterTracker]:
    """Return the cluster trackers of a model, or of the networks of a method."""
    return [module for module in model.modules() if isinstance(module, ClusterTracker)]


def single_cluster(images: Tensor) -> BatchClusters:
    """Return the clusters of a pass whose images are not known: all are of one."""
    ones = images.new_ones(len(images), 1)
    first = torch.zeros(1, dtype=torch.long, device=images.device)
    return BatchClusters(ones, ones[:1], first, ones[0] * 0, None, ones, ones[:, 0] == 0)
