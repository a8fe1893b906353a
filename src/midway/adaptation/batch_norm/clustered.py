"""Clustered statistics: BatchNorm layers normalise each image with the statistics of images of the same kind.

Batch statistics (Schneider et al., NeurIPS 2020) assume one kind of image per batch: an outlier is normalised with the
statistics of unrelated images, and those of a mixture fit no part of it. Clustered statistics find the kinds of images,
that is their corruptions or domains, as clusters of the images' spectra (``cluster_mixture.py``), once per batch and
before the network runs. In every BatchNorm layer a cluster then has

    the mean and variance of its images in the batch,
    completed to 64 images by those it had in earlier batches (the memory), if the batch has fewer,
    and the source's statistics, which count as 3 images more.

An image that belongs to several clusters with probabilities p_k is normalised with the averages weighted by p_k. A
large batch of one kind keeps nearly its batch statistics, each part of a mixture gets its own, a rare cluster has those
of all its images so far, and three quarters of the statistics of a single unknown image are the source's.

The method is not in the MITA paper; the constants were chosen on the tuning corruptions (``docs/clustered.md``).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from midway.adaptation.batch_norm.cluster_state import ENOUGH, BatchClusters, ClusterTracker, single_cluster
from midway.adaptation.batch_norm.gaussian_mixture import MAX_CLUSTERS
from midway.adaptation.batch_norm.normalize_by_image import normalise_by_image
from midway.adaptation.batch_norm.replaced_statistics import ReplacedBatchNorm, plain_copy, replace_statistics

PRIOR = 3.0
"""The number of images that the source's statistics count as."""


def clustered(model: nn.Module, *, memory: bool = True, prior: float = PRIOR) -> nn.Module:
    """Return a copy of a classifier with clustered statistics, which any method can adapt.

    The copy also works without a method, as BN with clustered statistics. It expects images in [0, 1], as all methods
    do, and remembers the kinds of the images it has seen; ``midway.BN(midway.clustered(model))`` can be reset.

    Args:
        model: Any classifier; it is not changed. Layers other than BatchNorm stay as they are.
        memory: Whether kinds are remembered from batch to batch. Without memory, each batch is divided on its own.
        prior: The number of images that the source's statistics count as.

    Example:
        >>> import midway, torch
        >>> adapted = midway.Tent(midway.clustered(midway.models.create("resnet20")))
        >>> adapted(torch.rand(8, 3, 32, 32)).shape
        torch.Size([8, 10])
        >>> adapted.diagnostics["kinds"]  # of each image
        [0, 0, 0, 0, 0, 0, 0, 0]
    """
    model = plain_copy(model)
    use_clustered_statistics(model, memory=memory, prior=prior)
    return model


def use_clustered_statistics(
    model: nn.Module, *, memory: bool = True, prior: float = PRIOR
) -> list[ClusteredBatchNorm]:
    """Give every BatchNorm layer clustered statistics, in place and in both modes, and return these layers.

    The layers keep their names, scales and shifts; the running statistics become those of the prior.
    """
    if not 0 <= prior < math.inf:
        raise ValueError(f"prior must be 0 or a number of images, got {prior}.")
    layers = replace_statistics(model, ClusteredBatchNorm)
    if not layers:
        raise ValueError("the model has no BatchNorm layer, so its images share no statistics: adapt it as it is.")
    tracker = ClusterTracker(memory)
    for layer in layers:
        layer.shared, layer.prior = (tracker,), prior
        known = layer.weight if layer.source_mean is None else layer.source_mean
        device = known.device if isinstance(known, Tensor) else None
        for name in ("cluster_mean", "cluster_var"):
            shape = (MAX_CLUSTERS, layer.num_features)
            layer.register_buffer(name, torch.zeros(shape, dtype=torch.float32, device=device) if memory else None)
        tracker.to(device)
    # One layer owns the tracker as a submodule: the model's state contains it once.
    layers[0].add_module("clusters", tracker)
    model.register_forward_pre_hook(tracker.choose_clusters, prepend=True)  # before the network's own
    return layers


class ClusteredBatchNorm(ReplacedBatchNorm):
    """A BatchNorm layer with clustered statistics, created by ``use_clustered_statistics``.

    Gradients flow through the statistics of the batch, as in BatchNorm; the clusters and the memory are constants.
    """

    shared: tuple[ClusterTracker]
    prior: float
    cluster_mean: Tensor | None
    cluster_var: Tensor | None

    @property
    def tracker(self) -> ClusterTracker:
        """The tracker of the clusters, common to all layers."""
        return self.shared[0]

    @property
    def statistics(self) -> str:
        """The name and, if it is not the default, the prior."""
        name = "clustered" if self.tracker.memory else "clustered-batch"
        return name if self.prior == PRIOR else f"{name}, prior {self.prior:g}"

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each image with its statistics."""
        if x.ndim < 2 or x.shape[1] != self.num_features:
            raise ValueError(f"expected {self.num_features} channels in dimension 1, got images {tuple(x.shape)}.")
        if x.numel() == x.shape[1] and (self.source_mean is None or not self.prior):
            raise ValueError(f"expected more than 1 value per channel, got images {tuple(x.shape)}.")
        if not x.numel():
            return x.clone()
        return normalise_by_image(x, self)

    def scale_and_shift(
        self, mean: Tensor, square: Tensor, centre: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the factor and the summand for each image and channel, for pixels relative to the centre.

        ``mean`` and ``square`` are per image and channel, relative to the centre, which has one value per channel.
        """
        clusters = self.tracker.current
        if clusters is None or len(clusters.probabilities) != len(mean):
            if clusters is not None:
                self.tracker.warn_of_size(len(clusters.probabilities), len(mean))
            clusters = single_cluster(mean)
        probabilities = clusters.probabilities.to(mean)
        images = probabilities.sum(dim=0)[:, None]
        means = probabilities.T @ mean / images.clamp(min=1e-6)
        variances = (probabilities.T @ square / images.clamp(min=1e-6) - means.square()).clamp(min=0)
        if clusters.transfer is not None:
            earlier = self._memory(clusters, centre, means.detach(), variances.detach(), images)
            added = torch.minimum(clusters.remembered[:, None].to(mean), (ENOUGH - images).clamp(min=0))
            means, variances = _union((means, variances, images), (*earlier, added))
            images = images + added
        if self.prior and self.source_mean is not None and self.source_var is not None:
            share = images / (images + self.prior)
            means = torch.lerp((self.source_mean - centre).to(means).expand_as(means), means, share)
            variances = torch.lerp(self.source_var.to(variances).expand_as(variances), variances, share)
        weights = probabilities @ clusters.mixing.to(mean)
        scale = (weights @ variances + self.eps).rsqrt()
        scale = scale if weight is None else scale * weight
        shift = -(weights @ means) * scale
        return scale, shift if bias is None else shift + bias

    @torch.no_grad()
    def _memory(
        self, clusters: BatchClusters, centre: Tensor, mean: Tensor, var: Tensor, images: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the clusters' statistics before this batch, relative to the centre; the first pass adds its own."""
        assert clusters.transfer is not None
        assert self.cluster_mean is not None
        assert self.cluster_var is not None
        if id(self) not in clusters.layers:
            old_mean, old_var = self.cluster_mean.to(mean), self.cluster_var.to(mean)
            transfer = clusters.transfer.to(mean)
            moved = transfer @ old_mean
            spread = (transfer @ old_mean.square() - moved.square()).clamp(min=0)
            clusters.layers[id(self)] = moved, transfer @ old_var + spread
            if clusters.learn:
                self._remember(clusters, mean + centre, var, images)
        earlier_mean, earlier_var = (each[clusters.slots] for each in clusters.layers[id(self)])
        return earlier_mean - centre, earlier_var

    def _remember(self, clusters: BatchClusters, mean: Tensor, var: Tensor, images: Tensor) -> None:
        """Add the statistics of a batch to the memory of its clusters."""
        assert self.cluster_mean is not None
        assert self.cluster_var is not None
        earlier_mean, earlier_var = clusters.layers[id(self)]
        self.cluster_mean.copy_(earlier_mean)
        self.cluster_var.copy_(earlier_var)
        slots = clusters.slots
        earlier = earlier_mean[slots], earlier_var[slots], clusters.remembered[:, None].to(mean)
        new_mean, new_var = _union((mean, var, images), earlier)
        finite = new_mean.isfinite() & new_var.isfinite()  # an overflow must not persist
        for memory, new, source in (
            (self.cluster_mean, new_mean, self.source_mean),
            (self.cluster_var, new_var, self.source_var),
        ):
            instead = memory[slots] if source is None else source.expand_as(new)
            memory[slots] = torch.where(finite, new, instead.to(new)).to(memory)


Group = tuple[Tensor, Tensor, Tensor]
"""Mean, variance and number of images of some groups."""


def _union(first: Group, second: Group) -> tuple[Tensor, Tensor]:
    """Return mean and variance of the union of two groups of images."""
    (mean, var, images), (other_mean, other_var, others) = first, second
    share = others / (images + others).clamp(min=1e-6)
    difference = other_mean - mean
    return mean + share * difference, torch.lerp(var, other_var, share) + share * (1 - share) * difference.square()
