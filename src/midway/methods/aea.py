"""AEA: adaptive energy alignment, energy without sampling (Choi et al., ICLR 2025)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, softplus

from midway.adaptation.about import About
from midway.adaptation.base import Method
from midway.adaptation.batch_norm.statistics import use_batch_statistics
from midway.adaptation.checks import check_range
from midway.adaptation.head import body_of, check_outputs, resolve_head
from midway.adaptation.losses import EntropyLoss, entropy_loss
from midway.adaptation.optimization import Predict
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.adaptation.registry import register
from midway.adaptation.selection import record_shares
from midway.adaptation.space import Integers, LogUniform, Uniform, search_over
from midway.functional import at_least_float32, free_energy


def energy_alignment(energies: Tensor, share: float) -> Tensor:
    """Return the mean of softplus(E(x) - E_low), E_low being the mean energy of the share with the lowest energies.

    Example:
        >>> import torch
        >>> from midway.methods.aea import energy_alignment
        >>> energy_alignment(torch.tensor([-3.0, -1.0]), share=0.5)  # the mean of softplus(0) and softplus(2)
        tensor(1.4100)
    """
    lowest = energies.detach().sort().values[: math.ceil(share * len(energies))]
    return softplus(energies - lowest.mean()).mean()


def logit_alignment(logits: Tensor, correlations: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """Return the mean of exp(max p - t) (1 - cos(f(x), row of its label)) over the confident images, and their mask.

    The rows are those of W W^T, the correlations of the classes in the head. Without confident images, the result is 0:
    a mean over no images would be NaN, and a step on it would destroy the weights.

    Example:
        >>> import torch
        >>> from midway.methods.aea import logit_alignment
        >>> logits = torch.tensor([[9.0, 0.0], [0.0, 0.0]])
        >>> logit_alignment(logits, torch.ones(2, 2), threshold=0.99)  # about exp(0.01) (1 - cos 45 degrees)
        (tensor(0.2958), tensor([ True, False]))
    """
    confidence, labels = logits.softmax(dim=1).max(dim=1)
    sure = confidence.detach() >= threshold
    distance = 1 - cosine_similarity(logits, correlations.to(logits)[labels], dim=1)
    terms = (confidence.detach() - threshold).exp() * distance  # the weight is a constant, as in the published code
    return (terms[sure].mean() if sure.any() else terms.new_zeros(())), sure


@register
class AEA(Method):
    """Adapts scales and shifts by entropy and by the energy of the images, without sampling.

    Two terms are added to the mean entropy. The first lowers the energy of the images towards the mean energy of the
    half of the batch with the lowest energies, which resemble the source's. TEA and MITA instead lower it relative to
    samples of the model, which takes many passes. The second turns the logits of confident images towards the
    correlations between their class and the others in the weights of the head. The method uses batch statistics and
    returns the logits from before the (last) update.

    Paper: Choi et al., ICLR 2025.

    Args:
        model: The classifier to adapt; it needs a linear head.
        energy_weight: Weight of the energy term (published: 1).
        logit_weight: Weight of the term of the logits (published: 25, searched between 1 and 30).
        threshold: Smallest confidence of an image in the term of the logits (published: 0.99, or 0.95).
        share: Share of the batch whose mean energy is the target (published: 0.5).
        trainable: ``"norm"`` scales and shifts (published), or ``"body"``, all weights but the head's.
        lr: Step size of SGD with Nesterov's momentum (published: 1e-3 for batches of 64).
        momentum: Momentum of SGD (published: 0.9).
        head: Name of the linear head, if it cannot be detected.
        steps: Updates per batch (published: 1).
        predict: ``"before"`` the last update (published) or ``"after"`` it, at the cost of one more pass.
        loss: ``"entropy"``, or ``"come"`` in its place (Zhang et al., ICLR 2025).

    Example:
        >>> import midway, torch
        >>> adapted = midway.AEA(midway.models.create("resnet20"))
        >>> adapted(torch.rand(8, 3, 32, 32)).shape, adapted.diagnostics["confident"]
        (torch.Size([8, 10]), 0)
    """

    about = About(
        name="aea",
        title="AEA",
        colour="#661100",
        marker="H",
        paper="Choi et al., ICLR 2025",
        paradigm="batch",
        adapts="norm scales and shifts",
        predicts="before",
        passes="1 F + 1 B",
        uses_energy=True,
        needs=("norm layers", "batch statistics", "linear head"),
        accepts_signals=True,
    )
    names_layers = ("head",)
    search_space = search_over(
        energy_weight=LogUniform(0.1, 10.0),
        logit_weight=LogUniform(1.0, 30.0),
        threshold=Uniform(0.5, 0.995),
        lr=LogUniform(1e-4, 1e-1),
        steps=Integers(1, 4),
    )

    def __init__(
        self,
        model: nn.Module,
        *,
        energy_weight: float = 1.0,
        logit_weight: float = 25.0,
        threshold: float = 0.99,
        share: float = 0.5,
        trainable: Literal["norm", "body"] = "norm",
        lr: float = 1e-3,
        momentum: float = 0.9,
        head: str | None = None,
        steps: int = 1,
        predict: Predict = "before",
        loss: EntropyLoss = "entropy",
    ) -> None:
        super().__init__(model)
        check_range(at_least=1, steps=steps)
        check_range(at_least=0, energy_weight=energy_weight, logit_weight=logit_weight, lr=lr)
        check_range(at_least=0, below=1, threshold=threshold)
        check_range(above=0, at_most=1, share=share)
        check_range(above=0, below=1, momentum=momentum)
        self.entropy = entropy_loss(loss)
        self.energy_weight, self.logit_weight = energy_weight, logit_weight
        self.threshold, self.share, self.steps, self.predict = threshold, share, steps, predict
        use_batch_statistics(self.model)
        self.head, layer = resolve_head(self, head)
        trained = norm_affine(self.model) if trainable == "norm" else body_of(self.model, layer)
        parameters = freeze_all_but(self.model, trained)
        optimizer = torch.optim.SGD(parameters, lr=lr, momentum=momentum, nesterov=True)
        self.optimizer = self.add_state("optimizer", optimizer)

    def step(self, images: Tensor) -> Tensor:
        """Minimise entropy, energy and the angle to the correlations of the classes, and return f(x)."""
        logits: Tensor
        for _ in range(self.steps):
            logits = self.model(images)
            exact = at_least_float32(logits)
            energies = free_energy(exact)
            alignment, sure = logit_alignment(exact, self._correlations(exact), self.threshold)
            record_shares(self, confident=sure)
            self.record(energy=energies.mean().item())
            energy = energy_alignment(energies, self.share)
            loss = self.entropy(exact).mean() + self.energy_weight * energy + self.logit_weight * alignment
            self.optimizer_step(loss, self.optimizer)
        return logits if self.predict == "before" else self.network_logits(images)

    def _correlations(self, logits: Tensor) -> Tensor:
        """Return W W^T of the head's weights, without its bias; the head is frozen."""
        layer = self.model.get_submodule(self.head)
        assert isinstance(layer, nn.Linear)
        check_outputs(self.head, layer, logits)
        rows = at_least_float32(layer.weight.detach())
        return rows @ rows.T
