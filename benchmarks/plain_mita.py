"""MITA as one would write it from the paper in an evening: the measure of Midway's own, in speed and in numbers.

Float32, default memory format, two separate models with a full buffer of chains each, both energies in one graph.
It draws its random numbers in the same order as ``midway.MITA``, so the two can be compared bit by bit where float
arithmetic allows.
"""

from __future__ import annotations

import copy
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
    """A replay buffer, all of it made at once; a place that was never visited is redrawn as fresh noise."""

    capacity: int
    reinit_probability: float
    images: Tensor | None = None
    visited: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.visited = torch.zeros(self.capacity, dtype=torch.bool)

    def draw(self, like: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Choose chains to go on with."""
        if self.images is None:
            self.images = torch.zeros(self.capacity, *like.shape[1:])
        places = torch.randint(self.capacity, (len(like),), generator=generator)
        noise = torch.empty_like(like).uniform_(-1, 1, generator=generator)
        fresh = torch.rand(len(like), generator=generator) < self.reinit_probability
        keep = self.visited[places] & ~fresh
        return places, torch.where(keep[:, None, None, None], self.images[places], noise)

    def put(self, places: Tensor, images: Tensor) -> None:
        """Leave the chains where they are now; the last one wins where a place comes twice."""
        assert self.images is not None
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
    """Algorithms 1 to 3 of the paper, one after the other."""

    def __init__(
        self,
        model: nn.Module,
        *,
        predictor_steps: int = 1,
        data_model_steps: int = 4,
        langevin_steps: int = 1,
        langevin_step_size: float = 0.2,
        langevin_noise: float = 0.01,
        shared_pass: bool = False,
        data_steps: int = 1,
        data_step_size: float = 0.02,
        gradient_filter: str | None = None,
        data_model: str = "persistent",
        lr: float = 1e-3,
        data_model_lr: float | None = None,
        buffer_size: int = 10_000,
        reinit_probability: float = 0.05,
        seed: int = 0,
        like: torch.memory_format = torch.contiguous_format,
    ) -> None:
        self.models = [copy.deepcopy(model).train(), copy.deepcopy(model).train()]
        self.fresh = data_model == "fresh"
        self.steps = [predictor_steps, data_model_steps - predictor_steps * self.fresh]
        self.optimizers = []
        for network, rate in zip(self.models, (lr, lr if data_model_lr is None else data_model_lr), strict=True):
            network.requires_grad_(False)
            norms = [m for m in network.modules() if "Norm" in type(m).__name__]
            affine = [p.requires_grad_(True) for m in norms for p in m.parameters(recurse=False)]
            self.optimizers.append(torch.optim.Adam(affine, lr=rate))
        self.chains = [Chains(buffer_size, reinit_probability) for _ in self.models]
        self.generator = torch.Generator().manual_seed(seed)
        self.langevin_steps, self.langevin_step_size = langevin_steps, langevin_step_size
        self.langevin_noise, self.shared_pass = langevin_noise, shared_pass
        self.data_steps, self.data_step_size, self.gradient_filter = data_steps, data_step_size, gradient_filter
        self.like = like  # the layout in which random numbers are laid out, for comparisons

    def model_ada(self, which: int, images: Tensor) -> None:
        """Algorithm 1."""
        model, optimizer, chains = self.models[which], self.optimizers[which], self.chains[which]
        for _ in range(self.steps[which]):
            places, x = chains.draw(images, self.generator)
            contrasted = x
            for _ in range(self.langevin_steps):
                contrasted = x
                x = x.detach().requires_grad_()
                gradient = torch.autograd.grad(energy(model, x).sum(), x)[0]
                noise = torch.empty_like(images).normal_(generator=self.generator)
                x = x - self.langevin_step_size / 2 * gradient + self.langevin_noise * noise
            chains.put(places, x)
            if not self.shared_pass:  # else the contrast sees the chains before their last step
                contrasted = x
            loss = energy(model, images).mean() - energy(model, contrasted.detach()).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def data_ada(self, images: Tensor) -> Tensor:
        """Algorithm 2."""
        x = images
        for _ in range(self.data_steps):
            x = x.detach().requires_grad_()
            gradient = torch.autograd.grad(energy(self.models[1], x).sum(), x)[0]
            if self.gradient_filter == "spectral":
                gradient = weighed(gradient, images)
            x = x - self.data_step_size / 2 * gradient
        return x.detach()

    def __call__(self, images: Tensor) -> Tensor:
        """Algorithm 3."""
        images = images.contiguous(memory_format=self.like)
        self.model_ada(0, images)
        if self.fresh:  # the data model goes on where the predictor is: weights, moments, chains
            self.models[1].load_state_dict(self.models[0].state_dict())
            rate = self.optimizers[1].param_groups[0]["lr"]
            self.optimizers[1].load_state_dict(copy.deepcopy(self.optimizers[0].state_dict()))
            self.optimizers[1].param_groups[0]["lr"] = rate
            self.chains[1] = self.chains[0]
        self.model_ada(1, images)
        moved = self.data_ada(images)
        with torch.no_grad():
            logits: Tensor = self.models[0](moved)
        return logits
