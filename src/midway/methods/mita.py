"""MITA: model and data meet in the middle (Yuan et al., 2024)."""

from __future__ import annotations

import copy
from typing import Literal

import torch
from torch import Tensor, nn

from midway.adaptation.base import About, Method
from midway.adaptation.normalization import use_batch_statistics
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.adaptation.precision import Precision, use_bf16
from midway.adaptation.space import Choice, Integers, LogUniform, search_over
from midway.methods.tea import EnergyModel, ModelAda
from midway.sampling import Measure, NaturalMeasure, Randomness, ReplayBuffer, Walk, langevin

DataModel = Literal["persistent", "fresh", "same"]


def data_ada(
    energy: EnergyModel, images: Tensor, *, steps: int, step_size: float, measure: Measure | None = None
) -> Walk:
    """Algorithm 2: pull the data to the model, Td noiseless Langevin steps from the images themselves (eq. 10)."""
    return langevin(energy, images, steps=steps, step_size=step_size, noise=0, measure=measure)


class MITA(Method):
    """Model and images move towards each other, both downhill on the model's energy (Algorithm 3).

    The predictor theta' is adapted to the batch by N steps of contrastive divergence, which keeps its sense of classes.
    A second model, the data model, is adapted longer (N~ steps): it knows better what the images look like. The images
    take Td steps down the data model's energy, and the predictor answers the moved images. Model adaptation always
    sees the original images, so moving them changes neither model's path.

    The defaults come from the tuning corruptions and differ from the paper's letter: the data model is adapted further
    by one larger step instead of several small ones, the chains' last step shares the pass of the update, and images
    move by what they have (``data_measure``). ``midway.adapt(model, "mita", preset="published")`` is the letter.

    Paper: Yuan et al., 2024.

    Args:
        model: The classifier to adapt.
        predictor_steps: N, updates of the predictor a batch.
        data_model_steps: N~, updates of the data model a batch (the paper: more than N, at the same step size).
        langevin_steps: T, steps of the chains in each update.
        langevin_step_size: Alpha; a move is alpha / 2 times the gradient.
        langevin_noise: Standard deviation of the chains' noise; None is the paper's sqrt(alpha).
        langevin_clip: Largest entry of the chains' gradient; None does not clip.
        shared_pass: Let the chains' last step use the pass that the update needs anyway, one forward and backward
            pass an update less; the update then sees the chains before that step (the paper: False).
        data_steps: Td, moves of the images.
        data_step_size: Alpha_d, for images in [0, 1].
        data_measure: ``"natural"``: at each frequency an image moves as far as the images of its batch have power there
            beside natural ones (``midway.sampling.NaturalMeasure``). ``"pixels"``: everywhere alike, as in the paper;
            images of low contrast or without fine detail then drown in what the gradient adds.
        data_model: ``"persistent"``: the data model lives from batch to batch with its own weights, optimiser and
            chains, as in the paper. ``"fresh"``: it starts from the predictor in every batch, takes the N~ - N further
            steps on the predictor's chains and is thrown away. ``"same"``: it is the predictor (the paper's MITA_Same).
        adapt_data: False leaves the images as they are (MITA without D, which is TEA).
        adapt_model: False moves the images down the source's energy and lets the source answer (MITA without M).
        lr: Step size of Adam.
        data_model_lr: Step size of Adam for the data model; None is ``lr``, as in the paper.
        betas: Averaging of Adam's moments.
        buffer_size: Number of chains of each model.
        reinit_probability: Share of chains that start afresh.
        precision: ``"float32"``, ``"bf16"``, or ``"auto"``: bf16 where the machine is fast at it.
        seed: Seed of chains and noise.

    Attributes:
        adapted_images: The last batch as the predictor saw it.

    Example:
        >>> import midway, torch
        >>> adapted = midway.MITA(midway.models.create("resnet20"))
        >>> images = torch.rand(8, 3, 32, 32)
        >>> adapted(images).shape
        torch.Size([8, 10])
        >>> (adapted.adapted_images - images).abs().max() > 0
        tensor(True)
    """

    about = About(
        name="mita",
        title="MITA",
        colour="#d55e00",
        marker="*",
        paper="Yuan et al., 2024",
        paradigm="mutual",
        moves="norm scales and shifts, images",
        answers="after",
        passes="(N + N~) (T + 1) + Td + 1 F, (N + N~) (T + 1) + Td B",
        needs=("norm layers", "batch statistics"),
        aligns_each_image=True,
    )
    evolving = ("predictor_ada", "data_model_ada", "randomness", "adapted_images")
    search_space = search_over(
        predictor_steps=Integers(1, 4),
        data_model_steps=Integers(1, 4),
        data_model=Choice("persistent", "fresh"),
        langevin_steps=Integers(1, 20, log=True),
        langevin_step_size=LogUniform(0.02, 2.0),
        langevin_noise=LogUniform(1e-3, 0.1),
        data_steps=Integers(1, 4),
        data_step_size=LogUniform(3e-3, 0.3),
        lr=LogUniform(1e-4, 1e-2),
        data_model_lr=LogUniform(1e-4, 3e-2),
        reinit_probability=LogUniform(0.01, 0.5),
    )

    def __init__(
        self,
        model: nn.Module,
        *,
        predictor_steps: int = 1,
        data_model_steps: int = 1,
        langevin_steps: int = 1,
        langevin_step_size: float = 0.2,
        langevin_noise: float | None = 0.01,
        langevin_clip: float | None = None,
        shared_pass: bool = True,
        data_steps: int = 1,
        data_step_size: float = 0.06,
        data_measure: Literal["natural", "pixels"] = "natural",
        data_model: DataModel = "persistent",
        adapt_data: bool = True,
        adapt_model: bool = True,
        lr: float = 1e-3,
        data_model_lr: float | None = 3e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        buffer_size: int = 10_000,
        reinit_probability: float = 0.05,
        precision: Precision = "float32",
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        if data_model not in ("persistent", "fresh", "same"):
            raise ValueError(f"data_model must be 'persistent', 'fresh' or 'same', got {data_model!r}.")
        if predictor_steps < 1 or data_model_steps < 1 or data_steps < 1:
            raise ValueError(
                "predictor_steps, data_model_steps and data_steps must be at least 1, got "
                f"{predictor_steps}, {data_model_steps} and {data_steps}; "
                "turn parts off with adapt_model and adapt_data."
            )
        if data_measure not in ("natural", "pixels"):
            raise ValueError(f"data_measure must be 'natural' or 'pixels', got {data_measure!r}.")
        if data_step_size < 0:
            raise ValueError(f"data_step_size must be 0 or more, got {data_step_size}.")
        if data_model == "fresh" and data_model_steps <= predictor_steps:
            raise ValueError(
                f"a fresh data model goes on from the predictor: data_model_steps ({data_model_steps}) "
                f"must be more than predictor_steps ({predictor_steps})."
            )
        use_bf16(precision, torch.device("cpu"))  # an unknown precision is refused here, not at the first batch
        self.predictor_steps, self.data_model_steps = predictor_steps, data_model_steps
        self.data_steps, self.data_step_size = data_steps, data_step_size
        self.measured = data_measure == "natural"
        self.fresh = data_model == "fresh"
        self.adapt_data = adapt_data
        self.adapted_images: Tensor | None = None
        self.randomness = Randomness(seed)
        if adapt_model:
            use_batch_statistics(self.model)
            freeze_all_but(self.model, norm_affine(self.model))
        two_models = adapt_model and adapt_data and data_model != "same"
        self.data_model = _twin(self.model) if two_models else self.model
        self.predictor_energy = EnergyModel(self.model, precision)
        self.data_energy = EnergyModel(self.data_model, precision)

        def model_ada(energy: EnergyModel, chains: ReplayBuffer, lr: float) -> ModelAda:
            return ModelAda(
                energy,
                [p for p in energy.network.parameters() if p.requires_grad],
                lr=lr,
                betas=betas,
                langevin_steps=langevin_steps,
                langevin_step_size=langevin_step_size,
                langevin_noise=langevin_noise,
                langevin_clip=langevin_clip,
                shared_pass=shared_pass,
                buffer=chains,
                randomness=self.randomness,
            )

        chains = ReplayBuffer(capacity=buffer_size, reinit_probability=reinit_probability)
        self.predictor_ada = model_ada(self.predictor_energy, chains, lr) if adapt_model else None
        own_chains = chains if self.fresh else copy.deepcopy(chains)
        own_lr = lr if data_model_lr is None else data_model_lr
        self.data_model_ada = model_ada(self.data_energy, own_chains, own_lr) if two_models else None

    def step(self, images: Tensor) -> Tensor:
        """Algorithm 3: both models adapt to x, x moves to the data model, the predictor answers x'."""
        if self.predictor_ada is not None:  # theta' = ModelAda(theta, x), N steps
            for _ in range(self.predictor_steps):
                self.predictor_ada.step(images).note(self)
        if self.data_model_ada is not None:  # theta~' = ModelAda(theta~, x), N~ steps
            if self.fresh:
                self._start_from_the_predictor()
            for _ in range(self.data_model_steps - self.predictor_steps * self.fresh):
                self.data_model_ada.step(images).note(self, of="data_model_")
        self.adapted_images = self._move(images) if self.adapt_data else images.clone()
        with torch.no_grad():
            return self.predictor_energy.logits(self.adapted_images)

    def _move(self, images: Tensor) -> Tensor:
        """Move the images: x' = DataAda(theta~', x)."""
        measure = NaturalMeasure(images) if self.measured else None
        moved, stalled = data_ada(
            self.data_energy, images, steps=self.data_steps, step_size=self.data_step_size, measure=measure
        )
        self.count("stalled_moves", int(stalled.sum()))
        self.diagnostics["data_move"] = (moved - images).flatten(1).norm(dim=1).mean().item()
        return moved

    def _start_from_the_predictor(self) -> None:
        """Give the data model the predictor's weights and moments; the chains are the predictor's own."""
        assert self.predictor_ada is not None
        assert self.data_model_ada is not None
        with torch.no_grad():
            for mine, theirs in zip(self.data_model.parameters(), self.model.parameters(), strict=True):
                if mine.requires_grad:
                    mine.copy_(theirs)
        moments = copy.deepcopy(self.predictor_ada.optimizer.state_dict()["state"])
        optimizer = self.data_model_ada.optimizer
        optimizer.load_state_dict(optimizer.state_dict() | {"state": moments})


def _twin(model: nn.Module) -> nn.Module:
    """Copy what moves and share what is frozen: the second model costs only its scales and shifts."""
    frozen = {id(parameter): parameter for parameter in model.parameters() if not parameter.requires_grad}
    return copy.deepcopy(model, memo=frozen)
