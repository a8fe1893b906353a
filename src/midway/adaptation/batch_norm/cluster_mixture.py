"""Kinds of images: which images of a stream have the same corruption, recognised from their spectra alone.

The spectra of one kind are close to a Gaussian. ``KnownKinds`` is a mixture of such Gaussians, fitted to the most
recent images of a stream and updated by every batch:

1. Fit. One step of EM over the recent images; what is known about a kind from earlier images is a prior of its centre.
2. Split. A kind of n images with two parts, shares p and 1 - p, whose centres have the Mahalanobis distance D, becomes
   two if s = D^2 p (1 - p) > 4 + 200 / n. Content alone rarely reaches that.
3. Outliers. q is the squared distance of an image from its centre, relative to the median over the images. An image of
   the batch with q > 2.5 + 125 / n starts a kind of its own.
4. Merge. Two kinds with D^2 < 9 become one.

Kinds vary differently: the log power of blurred images varies much more than that of noisy ones. Steps 2 to 4 therefore
measure distances under the kind's own covariance, in which the common one counts as 30 images. Step 1 does not: wide
kinds would take over the tails of all others.

Unusual content also forms kinds, and normalising such images by themselves removes the information about their class. A
rare kind is therefore trusted according to its distance from the nearest larger one: its own statistics have the weight
1 - ((1.5 + 125 / n) / (D^2 / median))^2, and those of the larger kind the rest. A kind of more than a tenth of the
images is trusted by s - 4 - 200 / n instead, if that is more. This tenth is of the kind itself and the images whose
statistics it would otherwise have: if the nearest kind is rare and not trusted, these are the images of the large kind
that the nearest kind is normalised with.

The counts of a kind decay slowly, by half in 7,000 images, and a kind without images is forgotten.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from midway.adaptation.batch_norm.spectra import COLOURS, FEATURES, FLOOR, GREY
from midway.adaptation.batch_norm.split_test import FEWEST, LEANING, shrunk, threshold, two_parts

LIMIT = 24
"""The largest number of kinds."""

RECENT = 1000
"""The number of spectra that the mixture is fitted to."""

FORGETTING = 0.9999
"""The factor of the counts for each image."""

SMALLEST = 64
"""The number of recent images from which on kinds are distinguished, and of new images after which one may be split."""

RARE = 0.05
"""The share of all images below which a kind is rare."""

WIDER = 5.0
"""How much wider a rare kind may be than the others before an image far from its centre starts another one."""


@dataclass
class KnownKinds:
    """What is known about the kinds in a stream. Slots without a kind have count 0.

    Attributes:
        centres: The mean spectrum of each kind, (kinds, features).
        counts: The number of images of each kind, forgetting slowly.
        covariance: The covariance within all kinds.
        covariances: The covariance of each kind, shrunk towards that within all kinds.
        recent: The spectra of the recent images, oldest first.
        unsplit: The number of images since kinds were last split.
    """

    centres: Tensor
    counts: Tensor
    covariance: Tensor
    covariances: Tensor
    recent: Tensor
    unsplit: int

    @classmethod
    def none(cls, device: torch.device | None = None, dtype: torch.dtype = torch.float64) -> KnownKinds:
        """Return the state before the first image."""
        zeros = torch.zeros(LIMIT, FEATURES, dtype=dtype, device=device)
        identity = torch.eye(FEATURES, dtype=dtype, device=device)
        return cls(zeros, zeros[:, 0].clone(), identity, identity.repeat(LIMIT, 1, 1), zeros[:0], 0)


@dataclass
class Assignment:
    """The kinds of a batch.

    Attributes:
        members: The probability that image i is of kind k, (images, kinds).
        mixing: The share of kind j in the statistics of kind k, (kinds, kinds): the identity except for rare kinds.
        moves: Which images in memory belong to which kind now, (kinds, kinds) of zeros and ones: the counts become
            ``moves @ counts``. Kinds that were split or are new start without memory, merged kinds have that of both.
        outliers: Whether an image is of a rare kind that is trusted by more than half, (images,).
    """

    members: Tensor
    mixing: Tensor
    moves: Tensor
    outliers: Tensor


@torch.no_grad()
def assign(known: KnownKinds, spectra: Tensor) -> tuple[Assignment, KnownKinds]:
    """Return the kinds of a batch and what is known after it.

    Example:
        >>> import torch
        >>> spectra = torch.randn(200, 31)
        >>> spectra[:100] += 5
        >>> kinds, known = assign(KnownKinds.none(), spectra)
        >>> kinds.members.argmax(dim=1).unique(return_counts=True)[1].tolist()
        [100, 100]
    """
    with torch.autocast(spectra.device.type, enabled=False):
        fit = _Fit(known, spectra.to(known.centres))
        if fit.distinct >= SMALLEST:
            if fit.unsplit >= SMALLEST:
                fit.split()
            fit.start_kinds_of_outliers()
        fit.merge()
        return fit.result()


class _Fit:
    """One update of the mixture: ``x`` are the recent spectra, ``r`` the probabilities of the kinds."""

    def __init__(self, known: KnownKinds, batch: Tensor) -> None:
        self.x = _with_colours(known.recent, batch)
        self.total, self.images = len(self.x), len(batch)
        # Copies of an image are one example of its kind.
        self.distinct = len((self.x @ torch.linspace(1, 2, FEATURES, dtype=torch.float32).to(self.x)).float().unique())
        self.centres, self.counts = known.centres.clone(), known.counts.clone()
        self.covariances, self.covariance = known.covariances.clone(), known.covariance
        self.unsplit, self.median = known.unsplit + self.images, float(FEATURES)
        self.moves = torch.eye(len(self.counts), dtype=self.x.dtype, device=self.x.device)
        if not self.counts.any():
            self.centres[0], self.counts[0] = self.x.mean(dim=0), 1
        self.r = self._probabilities()
        # The images before the recent ones are a prior of a centre: their number and their mean.
        in_recent = self.r[: self.total - self.images].sum(dim=0)
        self.prior_counts, self.prior_centres = (known.counts - in_recent).clamp(min=0), self.centres.clone()
        self._em(1)

    def _probabilities(self) -> Tensor:
        """The probability of each kind for each image."""
        return self._log_weights(self.x, self.counts > 0).softmax(dim=1)

    def _log_weights(self, x: Tensor, kinds: Tensor) -> Tensor:
        """The logarithms of the kinds' densities under the covariance within all kinds, up to a constant per image.

        Under their own covariances, wide kinds would take over the tails of all others.
        """
        origin = x.mean(dim=0)
        centres = self.centres - origin
        slopes = torch.linalg.solve(self.covariance, centres.T)
        share = (self.counts / self.counts.sum()).clamp(min=1e-3)
        logits = (x - origin) @ slopes - (centres * slopes.T).sum(dim=1) / 2 + share.log()
        weights: Tensor = logits.masked_fill(~kinds, -torch.inf)
        return weights

    def _whitening(self, kinds: Tensor) -> Tensor:
        """The inverse Cholesky factors of the covariances of some kinds."""
        factors = torch.linalg.cholesky(self.covariances[kinds])
        identity = torch.eye(FEATURES, dtype=factors.dtype, device=factors.device)
        inverse: Tensor = torch.linalg.solve_triangular(factors, identity, upper=False)
        return inverse

    def _distances_of(self, x: Tensor, kinds: Tensor) -> Tensor:
        """The squared Mahalanobis distances of spectra from some kinds under their own covariances, (images, kinds)."""
        whitening = self._whitening(kinds)
        rest = x - self.centres[kinds][:, None]
        distances: Tensor = (rest @ whitening.mT).square().sum(dim=2).T
        return distances

    def _em(self, times: int) -> None:
        for _ in range(times):
            self.counts = self.r.sum(dim=0) + self.prior_counts
            sums = self.r.T @ self.x + self.prior_counts[:, None] * self.prior_centres
            means = sums / self.counts.clamp(min=1e-9)[:, None]
            self.centres = torch.where(self.counts[:, None] > 0, means, self.centres)
            self._update_covariances()
            self.r = self._probabilities()

    def _update_covariances(self) -> None:
        """Update the covariance within all kinds, and that of each kind, in which the former counts as some images."""
        of = (self.counts > 0).nonzero().flatten()
        weights = self.r[:, of].T
        rest = self.x - self.centres[of][:, None]
        scatters = (rest * weights[..., None]).transpose(1, 2) @ rest
        self.covariance = shrunk(scatters.sum(dim=0), self.total)
        images = weights.sum(dim=1)[:, None, None]
        self.covariances[of] = (scatters + LEANING * self.covariance) / (images + LEANING)

    def _alive(self) -> list[int]:
        """The slots that have a kind."""
        slots: list[int] = (self.counts > 0).nonzero().flatten().tolist()
        return slots

    def _free_slot(self) -> int | None:
        """An unused slot, or that of a kind with less than one image left."""
        smallest = int(self.counts.argmin())
        return smallest if self.counts[smallest] < 1 else None

    def _occupy(self, slot: int, centre: Tensor) -> None:
        self.centres[slot] = self.prior_centres[slot] = centre
        self.prior_counts[slot] = 0
        self.moves[slot] = self.moves[:, slot] = 0

    def split(self, most: int = 6) -> None:
        """Divide kinds into two parts, the most distinct first, as long as the parts are far apart."""
        self.unsplit = 0
        whole: set[int] = set()
        for _ in range(most):
            slot = self._free_slot()
            candidates = [k for k in self._alive() if k not in whole]
            if slot is None or not candidates:
                return
            excess, kind, part = 0.0, -1, self.r[:, 0]
            for k in candidates:
                inside = self.r[:, k] > 0.5
                if int(inside.sum()) < FEWEST:
                    continue
                found, its_part = two_parts(self.x[inside].float(), self.covariance.float(), self.total)
                if found <= 0:
                    whole.add(k)
                elif found > excess:
                    excess, kind = found, k
                    part = torch.zeros_like(self.r[:, k]).masked_scatter(inside, its_part.to(self.r))
            if kind < 0:
                return
            members = self.r[:, kind].clone()
            for place, share in ((slot, part), (kind, 1 - part)):
                self.r[:, place] = members * share
                self._occupy(place, self.r[:, place] @ self.x / self.r[:, place].sum())
            self._em(2)

    def start_kinds_of_outliers(self, most: int = 4) -> None:
        """Start new kinds with the images that are far from every kind, the farthest first."""
        threshold = 2.5 + 125 / self.distinct
        for _ in range(most):
            of = (self.counts > 0).nonzero().flatten()
            distance = (self._distances_of(self.x, of) * self.r[:, of]).sum(dim=1)
            kin = self.r @ self.counts
            distance /= (1 - distance / self.total - 1 / kin.clamp(min=1.5)).clamp(min=0.05)  # without the image itself
            self.median = float(distance.median().clamp(min=1e-9))
            rare = (self.counts < RARE * self.counts.sum()).to(distance)
            q = distance / self.median / (1 + (WIDER - 1) * (self.r @ rare))
            image = self.total - self.images + int(q[-self.images :].argmax())
            slot = self._free_slot()
            if q[image] <= threshold or slot is None:
                return
            self._occupy(slot, self.x[image])
            self.counts[slot], self.covariances[slot] = 1, self.covariance
            self.r = self._probabilities()
            self.r[: self.total - self.images, slot] = 0
            self.r /= self.r.sum(dim=1, keepdim=True)
            self._em(1)

    def merge(self) -> None:
        """Unite kinds whose centres are close."""
        while True:
            chance = FEATURES / self.counts.clamp(min=1e-9)  # how much the centres of few images differ by chance
            distance = self._distances() - chance[:, None] - chance
            alive = self.counts > 0
            apart = ~(alive[:, None] & alive) | torch.eye(len(alive), dtype=torch.bool, device=alive.device)
            distance = distance.masked_fill(apart, torch.inf)
            a, b = divmod(int(distance.argmin()), len(self.counts))
            if distance[a, b] > 9:
                return
            a, b = (a, b) if self.counts[a] >= self.counts[b] else (b, a)
            both = self.counts[a] + self.counts[b]
            self.centres[a] += (self.centres[b] - self.centres[a]) * self.counts[b] / both
            self.counts[a], self.counts[b] = both, 0
            self.r[:, a] += self.r[:, b]
            self.r[:, b] = 0
            self.moves[a] += self.moves[b]
            self.moves[b] = 0

    def result(self) -> tuple[Assignment, KnownKinds]:
        """Return the kinds of the batch and what is known after it."""
        counts = self.counts * FORGETTING**self.images
        counts[counts < 0.3] = 0
        members = self.r[-self.images :] * (counts > 0)
        members /= members.sum(dim=1, keepdim=True)
        mixing, trust = self._mixing(counts)
        outlying = (trust > 0.5) & (counts < RARE * counts.sum())
        known = KnownKinds(self.centres, counts, self.covariance, self.covariances, self.x[-RECENT:], self.unsplit)
        return Assignment(members, mixing, self.moves, outlying[members.argmax(dim=1)]), known

    def _mixing(self, counts: Tensor) -> tuple[Tensor, Tensor]:
        """The share of each kind in the statistics of each kind, and how far each is trusted; larger kinds first."""
        mixing, trust = torch.eye(len(counts), dtype=counts.dtype, device=counts.device), torch.ones_like(counts)
        distances, larger = self._distances(), torch.zeros_like(counts, dtype=torch.bool)
        for k in counts.argsort(descending=True, stable=True)[: int((counts > 0).sum())].tolist():
            if larger.any():
                nearest = int(distances[k].masked_fill(~larger, torch.inf).argmin())
                distance = float(distances[k, nearest] - self.median / counts[k].clamp(min=1))
                trust[k] = 1 - min(1.0, (1.5 + 125 / self.distinct) * self.median / max(distance, 1e-9)) ** 2
                of_larger = (self._log_weights(self.centres[[k]], larger).softmax(dim=1) @ mixing)[0]
                # Instead of larger kinds that are not trusted, those whose statistics they have are counted.
                p = float(counts[k] / (counts[k] + of_larger @ counts))
                if p > 2 * RARE:
                    trust[k] = max(float(trust[k]), min(1.0, distance * p * (1 - p) - threshold(self.distinct)))
                mixing[k] = torch.lerp(of_larger, mixing[k], trust[k])
            larger[k] = True
        return mixing, trust

    def _distances(self) -> Tensor:
        """The squared Mahalanobis distances between the centres, under the covariance of the larger kind."""
        of = (self.counts > 0).nonzero().flatten()
        distances = self.counts.new_full((len(self.counts),) * 2, torch.inf)
        found = self._distances_of(self.centres[of], of)
        larger = self.counts[of] >= self.counts[of][:, None]
        distances[of[:, None], of] = torch.where(larger, found, found.T)
        return distances


def _with_colours(recent: Tensor, batch: Tensor) -> Tensor:
    """Join the spectra and give grey images the colours of similar images: greyness is content, not a corruption."""
    x = torch.cat([recent, batch])
    grey = (x[:, COLOURS] < math.log(FLOOR) + 0.1).all(dim=1)
    if grey.any() and not grey.all():
        coloured = x[~grey]
        similar = torch.cdist(x[grey, GREY], coloured[:, GREY]).topk(min(8, len(coloured)), largest=False).indices
        x[grey, COLOURS] = coloured[similar, COLOURS].mean(dim=1)
    return x
