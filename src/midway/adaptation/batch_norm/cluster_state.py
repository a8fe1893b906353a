"""The kinds of images that a network has seen, and the plan of a pass: which images share their statistics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from midway.adaptation.batch_norm.cluster_mixture import RECENT, Assignment, assign_clusters
from midway.adaptation.batch_norm.gaussian_mixture import MAX_CLUSTERS, MixtureState
from midway.adaptation.batch_norm.replaced_statistics import Observer
from midway.adaptation.batch_norm.spectra import FEATURES, spectra

ENOUGH = 64.0
"""The number of images up to which the memory completes those of the batch, and which it averages over."""

_STATE = ("centres", "counts", "covariance", "covariances")


@dataclass
class Plan:
    """How the layers compute the statistics of one pass, for the ``kinds`` that occur in it.

    Attributes:
        members: The probability of each kind for each image, (images, kinds).
        mixing: The share of each kind in the statistics of each kind.
        kinds: The slots of the kinds.
        remembered: The number of images in memory of each of these kinds, before this batch.
        transfer: The weights with which the memories of all slots make up those before this batch, since kinds may have
            been split or merged; None for a pass that is not remembered.
        spectra: The spectra of the images.
        outliers: Which images are of a rare kind.
        learn: Whether the layers remember the statistics of the images.
        layers: The memory of each layer before this batch.
    """

    members: Tensor
    mixing: Tensor
    kinds: Tensor
    remembered: Tensor
    transfer: Tensor | None
    spectra: Tensor
    outliers: Tensor
    learn: bool = True
    layers: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)


class Kinds(Observer):
    """The kinds of images that a network with clustered statistics has seen; all its layers share one instance.

    A new batch updates the kinds and the memory. Further passes over the batch (also mirrored or slightly changed) use
    its kinds. Passes over other images, such as samples of the model, are divided into kinds on their own and are not
    remembered. Between batches, the network of a method predicts with what it remembers, and remembers nothing new.
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
        self.memory = memory
        known = MixtureState.initial()
        for name in _STATE:
            self.register_buffer(name, getattr(known, name))
        self.register_buffer("recent", torch.zeros(RECENT if memory else 0, FEATURES, dtype=torch.float64))
        self.register_buffer("filled", torch.zeros((), dtype=torch.long))
        self.register_buffer("unsplit", torch.zeros((), dtype=torch.long))
        self.register_buffer("remembered", torch.zeros(MAX_CLUSTERS, dtype=torch.float64))
        self.batch: Plan | None = None
        self.present: Plan | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Omit the current batch: a copy starts with the next one."""
        return {**self.__dict__, "images": None, "batch": None, "present": None}

    def begin(self) -> None:
        """Let the batch update the kinds; passes over it use its kinds."""
        assert self.images is not None
        self.batch = self._observe(spectra(self.images))

    def begin_again(self) -> None:
        """Forget the current batch, or find its kinds again if it is not over: the state has changed."""
        self.batch = self.present = None if self.images is None else self._observe(spectra(self.images))

    def enter(self, model: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Choose the plan of a pass from its images (a forward pre-hook of the network)."""
        images = inputs[0]
        batch = self.batch if self.images is not None or not self.managed else None
        if batch is not None and is_close(images, self.images):
            self.present = batch
            return
        found = spectra(images)
        if batch is not None and is_close(found, batch.spectra):
            self.present = batch
        elif self.managed and self.images is None:
            self.present = self._observe(found, learn=False)
        elif self.managed:
            self.present = self._plan(
                assign_clusters(MixtureState.initial(images.device), found)[0], found, learn=False
            )
        else:
            self.present = self.batch = self._observe(found)

    def _observe(self, found: Tensor, *, learn: bool = True) -> Plan:
        if not self.memory:
            return self._plan(assign_clusters(MixtureState.initial(found.device), found)[0], found, learn=False)
        recent = self.recent[RECENT - int(self.filled) :]
        state = {name: getattr(self, name).double() for name in _STATE}
        known = MixtureState(**state, recent=recent.double(), unsplit=int(self.unsplit))
        assignment, known = assign_clusters(known, found)
        plan = self._plan(assignment, found, learn=True)
        if not learn:
            plan.learn = False
            return plan
        for name in _STATE:
            getattr(self, name).copy_(getattr(known, name))
        self.filled.fill_(len(known.recent))
        self.unsplit.fill_(known.unsplit)
        self.recent[RECENT - len(known.recent) :] = known.recent.to(self.recent)
        batch = assignment.probabilities.sum(dim=0)
        self.remembered.copy_((assignment.origins @ self.remembered.double()).clamp(max=ENOUGH) + batch)
        self.remembered.mul_(self.counts > 0)
        return plan

    def _plan(self, found: Assignment, of: Tensor, *, learn: bool) -> Plan:
        moved = found.origins * self.remembered.double() if learn else torch.zeros_like(found.origins)
        remembered = moved.sum(dim=1)
        transfer = (moved / remembered.clamp(min=1e-9)[:, None]).float() if learn else None
        present = found.probabilities.sum(dim=0) > 1e-3
        kinds = (present | (found.mixing[present] > 1e-3).any(dim=0)).nonzero().flatten()
        members, mixing = found.probabilities[:, kinds], found.mixing[kinds][:, kinds]
        members, mixing = (each / each.sum(dim=1, keepdim=True).clamp(min=1e-9) for each in (members, mixing))
        remembered = remembered[kinds].clamp(max=ENOUGH).float()
        return Plan(members.float(), mixing.float(), kinds, remembered, transfer, of, found.outliers)

    def of_images(self) -> list[int]:
        """Return the kind of each image of the last batch, as the number of its slot."""
        if self.batch is None:
            return []
        return self.batch.kinds[self.batch.members.argmax(dim=1)].tolist()

    def outliers(self) -> int:
        """Return how many images of the last batch are of a rare kind."""
        return 0 if self.batch is None else int(self.batch.outliers.sum())


def shares_of_images(model: nn.Module) -> Tensor | None:
    """Return the share of each image of the batch in the statistics of each image, (images, images).

    None for a model without clustered statistics: all images have equal shares.
    """
    for kinds in kinds_of(model):
        if kinds.batch is not None:
            members, mixing = kinds.batch.members, kinds.batch.mixing
            shares = members @ mixing @ (members / members.sum(dim=0).clamp(min=1e-6)).T
            return shares / shares.sum(dim=1, keepdim=True).clamp(min=1e-6)
    return None


def kinds_of(model: nn.Module) -> list[Kinds]:
    """Return the kinds of a model, or of the networks of a method."""
    return [module for module in model.modules() if isinstance(module, Kinds)]


def is_close(some: Tensor, others: Tensor | None) -> bool:
    """Return whether images, or their spectra, differ by less than 0.1 on average."""
    if others is None or some.shape != others.shape:
        return False
    return some is others or bool((some.detach() - others).abs().mean() < 0.1)


def one_kind(images: Tensor) -> Plan:
    """Return the plan of a pass whose images are not known: all are of one kind."""
    ones = images.new_ones(len(images), 1)
    nothing = torch.zeros(1, dtype=torch.long, device=images.device)
    return Plan(ones, ones[:1], nothing, ones[0] * 0, None, ones, ones[:, 0] == 0)
