"""LAME: Laplacian adjusted maximum-likelihood estimation (Boudiaf et al., CVPR 2022)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from midway.adaptation.about import About
from midway.adaptation.base import Method
from midway.adaptation.checks import check_range
from midway.adaptation.head import features_and_logits, resolve_head
from midway.adaptation.registry import register
from midway.adaptation.space import Choice, Integers, preset_values, search_over
from midway.functional import at_least_float32

Affinity = Literal["knn", "rbf", "linear"]
SMALLEST_PROBABILITY = 1e-10
TOLERANCE = 1e-8


@register
class LAME(Method):
    """Makes predictions consistent with those of similar images of the batch; the network does not change.

    On a graph of affinities between features, a few cheap iterations compute probabilities that agree with the
    network's and with those of the neighbours. The method uses the source's statistics and returns log-probabilities.
    Batches are independent.

    Paper: Boudiaf et al., CVPR 2022.

    Args:
        model: The classifier; it needs a linear head, whose input is the features.
        affinity: ``"knn"``: 1 for the nearest neighbours, else 0; ``"rbf"``: exp(-d^2 / 2 s^2), where s is the mean
            distance to the k-th nearest image, counting the image itself (published); ``"linear"``: the inner product.
            Features have length 1. The default is not the published one: on shuffled streams, ``"rbf"`` treats all
            images as similar, and whole batches get one class.
        neighbours: k (published: 5).
        iterations: Largest number of fixed-point iterations (published: 100); they stop when the objective is constant.
        head: Name of the linear head, if it cannot be detected.

    Example:
        >>> import midway, torch
        >>> adapted = midway.LAME(midway.models.create("resnet20"))
        >>> adapted(torch.rand(8, 3, 32, 32)).exp().sum(dim=1).round(decimals=3)
        tensor([1., 1., 1., 1., 1., 1., 1., 1.])
    """

    about = About(
        name="lame",
        title="LAME",
        colour="#332288",
        marker="d",
        paper="Boudiaf et al., CVPR 2022",
        paradigm="batch",
        adapts="the predictions",
        predicts="-",
        passes="1 F",
        needs=("linear head",),
        accepts_signals=True,
    )
    names_layers = ("head",)
    search_space = search_over(affinity=Choice("knn", "rbf", "linear"), neighbours=Integers(1, 20, log=True))

    published = preset_values(affinity="rbf")

    def __init__(
        self,
        model: nn.Module,
        *,
        affinity: Affinity = "knn",
        neighbours: int = 5,
        iterations: int = 100,
        head: str | None = None,
    ) -> None:
        super().__init__(model)
        check_range(at_least=1, neighbours=neighbours, iterations=iterations)
        self.affinity, self.neighbours, self.iterations = affinity, neighbours, iterations
        self.head, _ = resolve_head(self, head)

    def step(self, images: Tensor) -> Tensor:
        """Smooth f(x) over the graph of the batch."""
        features, logits = features_and_logits(self.model, self.head, images)
        graph = affinities(at_least_float32(features), self.affinity, self.neighbours)
        smoothed, iterations = smooth(at_least_float32(logits).softmax(dim=1), graph, self.iterations)
        self.record(iterations=iterations)
        return smoothed


def affinities(features: Tensor, kind: Affinity, neighbours: int) -> Tensor:
    """Return the affinity of each image (row) to every other image (column), (N, N)."""
    directions = normalize(features, dim=1)
    if kind == "linear":
        return directions @ directions.T
    distances = torch.cdist(directions, directions, compute_mode="donot_use_mm_for_euclid_dist")
    count = len(features)
    if kind == "rbf":
        kth = distances.kthvalue(min(neighbours, count), dim=1).values  # the image itself is the first
        return torch.exp(-distances.square() / (2 * kth.mean().square()).clamp(min=1e-12))
    nearest = distances.fill_diagonal_(torch.inf).topk(min(neighbours, count - 1), largest=False).indices
    return torch.zeros_like(distances).scatter_(1, nearest, 1.0)


def smooth(probabilities: Tensor, graph: Tensor, iterations: int = 100) -> tuple[Tensor, int]:
    """Return the logarithm of the fixed point of z_i ~ p_i exp(sum_j w_ij z_j), starting at p, and the iterations.

    Each iteration minimises a bound on sum_i KL(z_i || p_i) - sum_ij w_ij z_i . z_j; they stop (after three at the
    earliest) when the bound changes by at most a part in 10^8, as published.
    """
    log_p = (probabilities + SMALLEST_PROBABILITY).log()
    log_z = log_p.log_softmax(dim=1)
    before = float("inf")
    for iteration in range(iterations):
        pull = graph @ log_z.exp()
        log_z = (log_p + pull).log_softmax(dim=1)
        objective = (log_z.exp() * (log_z - log_p - pull)).sum(dtype=torch.float64).item()
        if iteration > 1 and abs(objective - before) <= TOLERANCE * abs(before):
            break
        before = objective
    return log_z, iteration + 1
