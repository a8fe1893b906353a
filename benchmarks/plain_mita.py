"""MITA as one would write it from the paper in an evening: the measure of Midway's own, in speed and in numbers.

Default memory format, two separate models, with a full buffer of chains each if they have one, both energies in one
graph. The defaults are the paper's algorithms as printed. It draws its random numbers in the same order as
``midway.MITA``, so the two can be compared number by number.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.fft import dctn, idctn
from torch import Tensor, nn


def energy(model: nn.Module, x: Tensor) -> Tensor:
    """E(x) = -log sum_y exp f(x)[y] (eq. 7)."""
    result: Tensor = -torch.logsumexp(model(x), dim=1)
    return result


@dataclass
class Chains:
    """A replay buffer, all of it made at once; a place that was never visited is redrawn as fresh noise.

    Without places every chain is noise, as printed.
    """

    capacity: int
    reinit_probability: float
    images: Tensor | None = None
    visited: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.visited = torch.zeros(self.capacity, dtype=torch.bool)

    def draw(self, like: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Choose chains to go on with."""
        if not self.capacity:
            return torch.zeros(0, dtype=torch.long), torch.empty_like(like).uniform_(-1, 1, generator=generator)
        if self.images is None:
            self.images = torch.zeros(self.capacity, *like.shape[1:], dtype=like.dtype)
        places = torch.randint(self.capacity, (len(like),), generator=generator)
        noise = torch.empty_like(like).uniform_(-1, 1, generator=generator)
        fresh = torch.rand(len(like), generator=generator) < self.reinit_probability
        keep = self.visited[places] & ~fresh
        return places, torch.where(keep[:, None, None, None], self.images[places], noise)

    def put(self, places: Tensor, images: Tensor) -> None:
        """Leave the chains where they are now; the last one wins where a place comes twice."""
        if self.images is None:
            return
        for place, image in zip(places.tolist(), images.detach(), strict=True):
            self.images[place] = image
        self.visited[places] = True


def weighed(gradient: Tensor, images: Tensor) -> Tensor:
    """Weigh a gradient by the power of the images beside that of natural ones, image by image, with SciPy."""
    height, width = images.shape[2:]
    power = np.zeros((height, width))
    for image in images.detach().numpy():
        for channel in image:
            power += dctn(channel - channel.mean(), norm="ortho") ** 2 / (len(images) * len(image))
    natural = np.array(
        [[1 / ((u / height) ** 2 + (v / width) ** 2) if u or v else 0 for v in range(width)] for u in range(height)]
    )
    natural *= 0.25**2 / natural.mean()
    natural[0, 0] = natural.max()
    share = np.minimum(1, power / natural)
    share[0, 0] = min(1, power.sum() / natural.sum())
    made = [
        [idctn(share * dctn(channel, norm="ortho"), norm="ortho") for channel in image] for image in gradient.numpy()
    ]
    return torch.tensor(np.array(made), dtype=gradient.dtype)


class PlainMITA:
    """Algorithms 1 to 3 of the paper, one after the other; the arguments are those of ``midway.MITA``."""

    def __init__(
        self,
        model: nn.Module,
        *,
        data_model: str = "persistent",
        predictor_share: float = 1.0,
        predictor_steps: int = 1,
        data_model_steps: int = 4,
        samples: int = 0,
        langevin_steps: int = 1,
        langevin_step_size: float = 0.2,
        langevin_noise: float | None = None,
        shared_pass: bool = False,
        buffer_size: int = 0,
        reinit_probability: float = 0.05,
        data_steps: int = 1,
        data_step_size: float = 0.03,
        shared_gradient: bool = False,
        gradient_filter: str | None = None,
        largest_decrease: float | None = None,
        by_uncertainty: bool = False,
        balance_classes: bool = False,
        keep_confidence: bool = False,
        lr: float = 1e-3,
        data_model_lr: float | None = None,
        source_share: float = 0.0,
        seed: int = 0,
        like: torch.memory_format = torch.contiguous_format,
    ) -> None:
        self.source = [parameter.detach().clone() for parameter in model.parameters()]
        self.models = [copy.deepcopy(model).train(), copy.deepcopy(model).train()]
        self.single, self.predictor_share = data_model == "single", predictor_share
        self.fresh = data_model == "fresh"
        self.steps = [0 if self.single else predictor_steps, data_model_steps - predictor_steps * self.fresh]
        self.optimizers = []
        for network, rate in zip(self.models, (lr, lr if data_model_lr is None else data_model_lr), strict=True):
            network.requires_grad_(False)
            norms = [m for m in network.modules() if "Norm" in type(m).__name__]
            affine = [p.requires_grad_(True) for m in norms for p in m.parameters(recurse=False)]
            self.optimizers.append(torch.optim.Adam(affine, lr=rate))
        self.chains = [Chains(buffer_size, reinit_probability) for _ in self.models]
        self.generator = torch.Generator().manual_seed(seed)
        self.langevin_steps, self.langevin_step_size = langevin_steps, langevin_step_size
        self.langevin_noise = langevin_step_size**0.5 if langevin_noise is None else langevin_noise
        self.shared_pass, self.samples, self.source_share = shared_pass, samples, source_share
        self.shared_gradient, self.keep_confidence = shared_gradient, keep_confidence
        self.by_uncertainty, self.balance_classes = by_uncertainty, balance_classes
        self.data_steps, self.data_step_size, self.gradient_filter = data_steps, data_step_size, gradient_filter
        self.largest_decrease = largest_decrease
        self.like = like  # the layout in which random numbers are laid out, for comparisons

    def model_ada(self, which: int, images: Tensor) -> tuple[Tensor, Tensor] | None:
        """Algorithm 1; return f(x) and dE/dx of the images before the last update, if something asks for them."""
        model, optimizer, chains = self.models[which], self.optimizers[which], self.chains[which]
        before = None
        for _ in range(self.steps[which]):
            if self.shared_gradient or self.keep_confidence or self.by_uncertainty:
                x = images.clone().requires_grad_()
                logits = model(x)
                before = logits.detach(), torch.autograd.grad(-logits.logsumexp(1).sum(), x)[0]
            some = images[: self.samples] if self.samples else images
            places, x = chains.draw(some, self.generator)
            contrasted = x
            for _ in range(self.langevin_steps):
                contrasted = x
                x = x.detach().requires_grad_()
                gradient = torch.autograd.grad(energy(model, x).sum(), x)[0]
                noise = torch.empty_like(some).normal_(generator=self.generator)
                x = x - self.langevin_step_size / 2 * gradient + self.langevin_noise * noise
            chains.put(places, x)
            if not self.shared_pass:  # else the contrast sees the chains before their last step
                contrasted = x
            logits = model(images)
            weights = balanced(logits.detach()) if self.balance_classes else torch.ones(len(images))
            loss = (-weights * logits.logsumexp(1)).mean() - energy(model, contrasted.detach()).mean()
            optimizer.zero_grad()
            loss.backward()
            scale = share_of_step(before[0]) if self.by_uncertainty and before else 1.0
            start = [parameter.detach().clone() for parameter in model.parameters()]
            optimizer.step()
            for parameter, value in zip(model.parameters(), start, strict=True):
                parameter.data = value + scale * (parameter.data - value)
            self.pull(model, self.source_share)
        return before

    @torch.no_grad()
    def pull(self, model: nn.Module, share: float) -> None:
        """Move the weights a share of the way to the source."""
        for weight, source in zip(model.parameters(), self.source, strict=True):
            weight.copy_((1 - share) * weight + share * source)

    def data_ada(self, images: Tensor, update: tuple[Tensor, Tensor] | None) -> Tensor:
        """Algorithm 2."""
        x, size = images, self.data_step_size
        for step in range(self.data_steps):
            x = x.detach().requires_grad_()
            logits = self.models[1](x)
            gradient = torch.autograd.grad(-logits.logsumexp(1).sum(), x)[0]
            if self.shared_gradient and update and step == 0:
                logits, gradient = update
            if self.by_uncertainty and step == 0:
                size *= share_of_step(logits)
            along = weighed(gradient, images) if self.gradient_filter == "spectral" else gradient
            moves = size / 2 * along
            if self.largest_decrease is not None:
                for image, (slope, move) in enumerate(zip(gradient, moves, strict=True)):
                    if slope.flatten() @ move.flatten() > self.largest_decrease:
                        moves[image] = move * self.largest_decrease / (slope.flatten() @ move.flatten())
            x = x - moves
        return x.detach()

    def __call__(self, images: Tensor) -> Tensor:
        """Algorithm 3."""
        images = images.contiguous(memory_format=self.like)
        before = self.model_ada(0, images)
        if self.fresh:  # the data model goes on where the predictor is: weights, moments, chains
            self.models[1].load_state_dict(self.models[0].state_dict())
            rate = self.optimizers[1].param_groups[0]["lr"]
            self.optimizers[1].load_state_dict(copy.deepcopy(self.optimizers[0].state_dict()))
            self.optimizers[1].param_groups[0]["lr"] = rate
            self.chains[1] = self.chains[0]
        of_data_model = self.model_ada(1, images)
        if self.single:  # the predictor is between the source and the data model
            before = of_data_model
            self.models[0].load_state_dict(self.models[1].state_dict())
            self.pull(self.models[0], 1 - self.predictor_share)
        moved = self.data_ada(images, of_data_model)
        with torch.no_grad():
            logits: Tensor = self.models[0](moved)
        if self.keep_confidence and before is not None:
            logits = torch.stack([exchanged(*rows) for rows in zip(before[0], logits, strict=True)])
        return logits


def share_of_step(logits: Tensor) -> float:
    """By the uncertainty of the batch."""
    uncertainty = 1 - float(torch.softmax(logits, dim=1).max(dim=1).values.mean())
    classes = logits.shape[1]
    return min(1.0, (uncertainty / 0.2) ** 2) * (math.log(10) / math.log(classes) if classes > 10 else 1.0) ** 2


def balanced(logits: Tensor) -> Tensor:
    """The weight of each image, from the share of its classes in the batch."""
    p = torch.softmax(logits, dim=1).tolist()
    shares = [sum(row[y] for row in p) / len(p) for y in range(len(p[0]))]
    weights = [sum(row[y] / (share + 1 / len(p)) for y, share in enumerate(shares)) for row in p]
    return logits.new_tensor([len(p) * weight / sum(weights) for weight in weights])


def exchanged(confident: Tensor, answer: Tensor) -> Tensor:
    """Give one image the answer's class and its own sorted values."""
    values = confident.tolist()
    top, wanted = values.index(max(values)), int(answer.argmax())
    values[top], values[wanted] = values[wanted], values[top]
    return confident.new_tensor(values)
