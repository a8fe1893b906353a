"""Clusters of images: which images of a stream have the same corruption, recognised from their spectra alone.

The spectra of one cluster are close to a Gaussian. ``MixtureState`` is a mixture of such Gaussians, fitted to the most
recent images of a stream and updated by every batch:

1. Fit. One step of EM over the recent images; what is known about a cluster from earlier images is a prior of its
   centre.
2. Split. A cluster of n images with two parts, shares p and 1 - p, whose centres have the Mahalanobis distance D,
   becomes two if s = D^2 p (1 - p) > 4 + 200 / n. Content alone rarely reaches that.
3. Outliers. q is the squared distance of an image from its centre, relative to the median over the images. An image of
   the batch with q > 2.5 + 125 / n starts a cluster of its own.
4. Merge. Two clusters with D^2 < 9 become one.

Clusters vary differently: the log power of blurred images varies much more than that of noisy ones. Steps 2 to 4
therefore measure distances under the cluster's own covariance, in which the common one counts as 30 images. Step 1 does
not: wide clusters would take over the tails of all others.

Unusual content also forms clusters, and normalising such images by themselves removes the information about their
class. A rare cluster is therefore trusted according to its distance from the nearest larger one: its own statistics
have the weight 1 - ((1.5 + 125 / n) / (D^2 / median))^2, and those of the larger cluster the rest. A cluster of more
than a tenth of the images is trusted by s - 4 - 200 / n instead, if that is more. This tenth is of the cluster itself
and the images whose statistics it would otherwise have: if the nearest cluster is rare and not trusted, these are the
images of the large cluster that the nearest cluster is normalised with.

The counts of a cluster decay slowly, by half in 7,000 images, and a cluster without images is forgotten.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from midway.adaptation.batch_norm.gaussian_mixture import GaussianMixture, MixtureState
from midway.adaptation.batch_norm.spectra import COLOURS, FEATURES, FLOOR, GREY
from midway.adaptation.batch_norm.split_test import FEWEST, threshold, two_parts

RECENT = 1000
"""The number of spectra that the mixture is fitted to."""

FORGETTING = 0.9999
"""The factor of the counts for each image."""

SMALLEST = 64
"""The number of recent images from which on clusters are distinguished, and of new images between splits."""

MAX_SPLITS = 6
"""The largest number of clusters that are split at once."""

MAX_OUTLIERS = 4
"""The largest number of clusters that the outliers of a batch start."""

RARE = 0.05
"""The share of all images below which a cluster is rare."""

WIDER = 5.0
"""How much wider a rare cluster may be than the others before an image far from its centre starts another one."""

MERGED = 9.0
"""The squared Mahalanobis distance between two centres up to which the clusters become one."""


@dataclass
class Assignment:
    """The clusters of a batch.

    Attributes:
        probabilities: The probability that image i is of cluster k, (images, clusters).
        mixing: The share of cluster j in the statistics of cluster k, (clusters, clusters): the identity except for
            rare clusters.
        origins: Which earlier clusters j belong to cluster k now, (clusters, clusters) of zeros and ones: the counts of
            images in memory become ``origins @ counts``. Clusters that were split or are new start without memory,
            merged ones have that of both.
        outliers: Whether an image is of a rare cluster that is trusted by more than half, (images,).
    """

    probabilities: Tensor
    mixing: Tensor
    origins: Tensor
    outliers: Tensor


@torch.no_grad()
def assign_clusters(state: MixtureState, spectra: Tensor) -> tuple[Assignment, MixtureState]:
    """Return the clusters of a batch and the state after it.

    Example:
        >>> import torch
        >>> spectra = torch.randn(200, 31)
        >>> spectra[:100] += 5
        >>> clusters, state = assign_clusters(MixtureState.initial(), spectra)
        >>> clusters.probabilities.argmax(dim=1).unique(return_counts=True)[1].tolist()
        [100, 100]
    """
    with torch.autocast(spectra.device.type, enabled=False):
        batch_size = len(spectra)
        recent = _join_spectra(state.recent, spectra.to(state.centres))
        mixture = GaussianMixture(state, recent, batch_size)
        mixture.run_em()
        distinct, unsplit, median = _count_distinct(recent), state.unsplit + batch_size, float(FEATURES)
        if distinct >= SMALLEST:
            if unsplit >= SMALLEST:
                split_clusters(mixture)
                unsplit = 0
            median = add_outlier_clusters(mixture, batch_size, distinct)
        merge_clusters(mixture)
        counts = mixture.counts * FORGETTING**batch_size
        counts[counts < 0.3] = 0
        probabilities = mixture.probabilities[-batch_size:] * (counts > 0)
        probabilities /= probabilities.sum(dim=1, keepdim=True)
        mixing, trust = mix_clusters(mixture, counts, median, distinct)
        outlying = (trust > 0.5) & (counts < RARE * counts.sum())
        after = MixtureState(
            mixture.centres, counts, mixture.covariance, mixture.covariances, recent[-RECENT:], unsplit
        )
        return Assignment(probabilities, mixing, mixture.origins, outlying[probabilities.argmax(dim=1)]), after


def split_clusters(mixture: GaussianMixture) -> None:
    """Split clusters into two parts, the most distinct first, as long as the parts are far apart."""
    whole: set[int] = set()
    for _ in range(MAX_SPLITS):
        slot = mixture.free_slot()
        if slot is None or (found := _find_parts(mixture, whole)) is None:
            return
        cluster, part = found
        members = mixture.probabilities[:, cluster].clone()
        for k, share in ((slot, part), (cluster, 1 - part)):
            own = mixture.probabilities[:, k] = members * share
            mixture.start_cluster(k, own @ mixture.spectra / own.sum())
        mixture.run_em(2)


def _find_parts(mixture: GaussianMixture, whole: set[int]) -> tuple[int, Tensor] | None:
    """Return the cluster with the most distinct parts, and the share of one part in each image, or None.

    Clusters without two parts are added to the whole ones, which are skipped.
    """
    most, found = 0.0, None
    for k in mixture.alive.tolist():
        own = mixture.probabilities[:, k]
        inside = own > 0.5
        if k in whole or int(inside.sum()) < FEWEST:
            continue
        spectra = mixture.spectra[inside].float()
        excess, part = two_parts(spectra, mixture.covariance.float(), len(mixture.spectra))
        if excess <= 0:
            whole.add(k)
        elif excess > most:
            most, found = excess, (k, torch.zeros_like(own).masked_scatter(inside, part.to(own)))
    return found


def add_outlier_clusters(mixture: GaussianMixture, batch_size: int, distinct: int) -> float:
    """Start clusters with the images of the batch that are far from every cluster, the farthest first.

    Returns:
        The median of the squared distances of all images from their centres.
    """
    total, median = len(mixture.spectra), 0.0
    for _ in range(MAX_OUTLIERS):
        distance = (mixture.distances(mixture.spectra) * mixture.probabilities[:, mixture.alive]).sum(dim=1)
        kin = mixture.probabilities @ mixture.counts
        distance /= (1 - distance / total - 1 / kin.clamp(min=1.5)).clamp(min=0.05)  # without the image itself
        median = float(distance.median().clamp(min=1e-9))
        rare = (mixture.counts < RARE * mixture.counts.sum()).to(distance)
        q = distance / median / (1 + (WIDER - 1) * (mixture.probabilities @ rare))
        image = total - batch_size + int(q[-batch_size:].argmax())
        slot = mixture.free_slot()
        if q[image] <= 2.5 + 125 / distinct or slot is None:
            break
        mixture.start_cluster(slot, mixture.spectra[image])
        mixture.counts[slot], mixture.covariances[slot] = 1, mixture.covariance
        mixture.update_probabilities()
        mixture.probabilities[: total - batch_size, slot] = 0
        mixture.probabilities /= mixture.probabilities.sum(dim=1, keepdim=True)
        mixture.run_em()
    return median


def merge_clusters(mixture: GaussianMixture) -> None:
    """Unite clusters whose centres are close."""
    centres, counts, probabilities, origins = mixture.centres, mixture.counts, mixture.probabilities, mixture.origins
    while True:
        chance = FEATURES / counts.clamp(min=1e-9)  # how much the centres of few images differ by chance
        distance = mixture.centre_distances() - chance[:, None] - chance
        distance.fill_diagonal_(torch.inf)
        a, b = divmod(int(distance.argmin()), len(counts))
        if distance[a, b] > MERGED:
            return
        a, b = (a, b) if counts[a] >= counts[b] else (b, a)
        both = counts[a] + counts[b]
        centres[a] += (centres[b] - centres[a]) * counts[b] / both
        counts[a], counts[b] = both, 0
        for columns in (probabilities.T, origins):
            columns[a] += columns[b]
            columns[b] = 0


def mix_clusters(mixture: GaussianMixture, counts: Tensor, median: float, distinct: int) -> tuple[Tensor, Tensor]:
    """Return the share of each cluster in the statistics of each cluster, and how far each is trusted."""
    mixing, trust = torch.eye(len(counts), dtype=counts.dtype, device=counts.device), torch.ones_like(counts)
    distances, larger = mixture.centre_distances(), torch.zeros_like(counts, dtype=torch.bool)
    for k in counts.argsort(descending=True, stable=True)[: int((counts > 0).sum())].tolist():
        if larger.any():
            nearest = int(distances[k].masked_fill(~larger, torch.inf).argmin())
            distance = float(distances[k, nearest] - median / counts[k].clamp(min=1))
            trust[k] = 1 - min(1.0, (1.5 + 125 / distinct) * median / max(distance, 1e-9)) ** 2
            of_larger = (mixture.log_weights(mixture.centres[[k]], larger).softmax(dim=1) @ mixing)[0]
            # Instead of larger clusters that are not trusted, those whose statistics they have are counted.
            p = float(counts[k] / (counts[k] + of_larger @ counts))
            if p > 2 * RARE:
                trust[k] = max(float(trust[k]), min(1.0, distance * p * (1 - p) - threshold(distinct)))
            mixing[k] = torch.lerp(of_larger, mixing[k], trust[k])
        larger[k] = True
    return mixing, trust


def _count_distinct(spectra: Tensor) -> int:
    """Return the number of different spectra: copies of an image are one example of its cluster."""
    return len((spectra @ torch.linspace(1, 2, FEATURES, dtype=torch.float32).to(spectra)).float().unique())


def _join_spectra(recent: Tensor, batch: Tensor) -> Tensor:
    """Join the spectra and give grey images the colours of similar images: greyness is content, not a corruption."""
    x = torch.cat([recent, batch])
    grey = (x[:, COLOURS] < math.log(FLOOR) + 0.1).all(dim=1)
    if grey.any() and not grey.all():
        coloured = x[~grey]
        similar = torch.cdist(x[grey, GREY], coloured[:, GREY]).topk(min(8, len(coloured)), largest=False).indices
        x[grey, COLOURS] = coloured[similar, COLOURS].mean(dim=1)
    return x
