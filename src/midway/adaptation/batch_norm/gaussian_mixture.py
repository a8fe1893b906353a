"""A mixture of Gaussians in the spectra of images, one for each cluster, fitted by EM."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from midway.adaptation.batch_norm.spectra import FEATURES
from midway.adaptation.batch_norm.split_test import LEANING, shrunk

MAX_CLUSTERS = 24
"""The largest number of clusters."""


@dataclass
class MixtureState:
    """What is known about the clusters in a stream. Slots without a cluster have count 0.

    Attributes:
        centres: The mean spectrum of each cluster, (clusters, features).
        counts: The number of images of each cluster, decaying slowly.
        covariance: The covariance within all clusters.
        covariances: The covariance of each cluster, shrunk towards that within all clusters.
        recent: The spectra of the recent images, oldest first.
        unsplit: The number of images since clusters were last split.
    """

    centres: Tensor
    counts: Tensor
    covariance: Tensor
    covariances: Tensor
    recent: Tensor
    unsplit: int

    @classmethod
    def initial(cls, device: torch.device | None = None) -> MixtureState:
        """Return the state before the first image."""
        zeros = torch.zeros(MAX_CLUSTERS, FEATURES, dtype=torch.float64, device=device)
        identity = torch.eye(FEATURES, dtype=torch.float64, device=device)
        return cls(zeros, zeros[:, 0].clone(), identity, identity.repeat(MAX_CLUSTERS, 1, 1), zeros[:0], 0)


class GaussianMixture:
    """A mixture that starts from a state and is fitted to the recent spectra, the last of which are the batch.

    Attributes:
        spectra: The recent spectra, (images, features).
        probabilities: The probability of each cluster for each image, (images, clusters).
        centres, counts, covariance, covariances: The parameters, as in ``MixtureState``.
        prior_counts, prior_centres: The number of images of each cluster before the recent ones, and their mean.
        origins: Which earlier clusters each cluster consists of, as in ``Assignment``.
    """

    def __init__(self, state: MixtureState, spectra: Tensor, batch_size: int) -> None:
        self.spectra = spectra
        self.centres, self.counts = state.centres.clone(), state.counts.clone()
        self.covariance, self.covariances = state.covariance, state.covariances.clone()
        self.origins = torch.eye(len(state.counts), dtype=spectra.dtype, device=spectra.device)
        if not self.counts.any():
            self.centres[0], self.counts[0] = spectra.mean(dim=0), 1
        self.update_probabilities()
        in_recent = self.probabilities[: len(spectra) - batch_size].sum(dim=0)
        self.prior_counts, self.prior_centres = (state.counts - in_recent).clamp(min=0), self.centres.clone()

    @property
    def alive(self) -> Tensor:
        """The slots that have a cluster."""
        return (self.counts > 0).nonzero().flatten()

    def free_slot(self) -> int | None:
        """Return an unused slot, or that of a cluster with less than one image left, or None."""
        smallest = int(self.counts.argmin())
        return smallest if self.counts[smallest] < 1 else None

    def start_cluster(self, slot: int, centre: Tensor) -> None:
        """Start a cluster without earlier images in a slot."""
        self.centres[slot] = self.prior_centres[slot] = centre
        self.prior_counts[slot] = 0
        self.origins[slot] = self.origins[:, slot] = 0

    def run_em(self, steps: int = 1) -> None:
        """Take steps of EM: update counts, centres and covariances, then the probabilities."""
        for _ in range(steps):
            self.counts = self.probabilities.sum(dim=0) + self.prior_counts
            sums = self.probabilities.T @ self.spectra + self.prior_counts[:, None] * self.prior_centres
            means = sums / self.counts.clamp(min=1e-9)[:, None]
            self.centres = torch.where(self.counts[:, None] > 0, means, self.centres)
            self._update_covariances()
            self.update_probabilities()

    def update_probabilities(self) -> None:
        """Update the probability of each cluster for each image."""
        self.probabilities = self.log_weights(self.spectra, self.counts > 0).softmax(dim=1)

    def _update_covariances(self) -> None:
        """Update the covariance within all clusters, and that of each, in which the former counts as some images."""
        alive = self.alive
        weights = self.probabilities[:, alive].T
        rest = self.spectra - self.centres[alive][:, None]
        scatters = (rest * weights[..., None]).transpose(1, 2) @ rest
        self.covariance = shrunk(scatters.sum(dim=0), len(self.spectra))
        images = weights.sum(dim=1)[:, None, None]
        self.covariances[alive] = (scatters + LEANING * self.covariance) / (images + LEANING)

    def log_weights(self, x: Tensor, clusters: Tensor) -> Tensor:
        """Return the log densities of some clusters under the covariance within all, up to a constant per image.

        Under their own covariances, wide clusters would take over the tails of all others.
        """
        origin = x.mean(dim=0)
        centres = self.centres - origin
        slopes = torch.linalg.solve(self.covariance, centres.T)
        share = (self.counts / self.counts.sum()).clamp(min=1e-3)
        logits = (x - origin) @ slopes - (centres * slopes.T).sum(dim=1) / 2 + share.log()
        weights: Tensor = logits.masked_fill(~clusters, -torch.inf)
        return weights

    def distances(self, x: Tensor) -> Tensor:
        """Return the squared Mahalanobis distances of spectra under the covariance of each cluster, (images, alive)."""
        alive = self.alive
        factors = torch.linalg.cholesky(self.covariances[alive])
        identity = torch.eye(FEATURES, dtype=factors.dtype, device=factors.device)
        whitening = torch.linalg.solve_triangular(factors, identity, upper=False)
        rest = x - self.centres[alive][:, None]
        distances: Tensor = (rest @ whitening.mT).square().sum(dim=2).T
        return distances

    def centre_distances(self) -> Tensor:
        """Return the squared Mahalanobis distances between the centres, under the covariance of the larger cluster."""
        alive = self.alive
        distances = self.counts.new_full((len(self.counts),) * 2, torch.inf)
        of_alive = self.distances(self.centres[alive])
        larger = self.counts[alive] >= self.counts[alive][:, None]
        distances[alive[:, None], alive] = torch.where(larger, of_alive, of_alive.T)
        return distances
