"""The replay buffer: persistent chains that sampling starts from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class ReplayBuffer:
    """Images that Langevin chains left behind, to start from next time, refilled with uniform noise in part.

    Every place of the buffer starts as uniform noise. A place that no chain has visited needs no memory: its noise is
    drawn when it is first chosen. So the buffer costs what was sampled so far, whatever its capacity, and takes the
    size, channels, dtype and device of the first images it is asked to stand beside.

    Args:
        capacity: Number of chains (TEA: 10,000).
        reinit_probability: Share of the chosen chains that start from noise again (TEA: 0.05).
        low: Lower bound of the noise (TEA: -1).
        high: Upper bound of the noise (TEA: 1).

    Example:
        >>> import torch
        >>> from midway.sampling import ReplayBuffer
        >>> buffer, generator = ReplayBuffer(capacity=100), torch.Generator().manual_seed(0)
        >>> places, images = buffer.draw(torch.zeros(4, 3, 8, 8), generator)
        >>> images.shape, len(buffer)
        (torch.Size([4, 3, 8, 8]), 0)
        >>> buffer.put(places, images)
        >>> len(buffer)
        4
    """

    def __init__(
        self, *, capacity: int = 10_000, reinit_probability: float = 0.05, low: float = -1.0, high: float = 1.0
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}.")
        if not 0 <= reinit_probability <= 1:
            raise ValueError(f"reinit_probability must be between 0 and 1, got {reinit_probability}.")
        if low >= high:
            raise ValueError(f"low must be below high, got {low} and {high}.")
        self.capacity = capacity
        self.reinit_probability = reinit_probability
        self.low = low
        self.high = high
        self._row = torch.full((capacity,), -1)  # place -> row of its image, -1 while unvisited
        self._images: Tensor | None = None
        self._used = 0

    def __len__(self) -> int:
        """Number of places that chains have visited."""
        return self._used

    def draw(self, like: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Choose as many chains as there are images in ``like``.

        Returns:
            The places, to put the chains back to, and the images to start from.

        Raises:
            ValueError: The buffer holds images of another size.
        """
        if self._images is not None and self._images.shape[1:] != like.shape[1:]:
            raise ValueError(
                f"the replay buffer holds images of shape {tuple(self._images.shape[1:])}, "
                f"got {tuple(like.shape[1:])}: reset the method before images of another size."
            )
        count, device = len(like), like.device
        places = torch.randint(self.capacity, (count,), generator=generator, device=device)
        noise = self.noise(like, generator)
        fresh = torch.rand(count, generator=generator, device=device) < self.reinit_probability
        rows = self._row.to(device)[places]
        if self._images is None:
            return places, noise
        self._images = self._images.to(like)
        known = (rows >= 0) & ~fresh
        kept = self._images[rows.clamp(min=0)]
        return places, torch.where(known.view(-1, 1, 1, 1), kept, noise)

    def noise(self, like: Tensor, generator: torch.Generator) -> Tensor:
        """Return uniform noise of the shape and layout of images."""
        return torch.empty_like(like).uniform_(self.low, self.high, generator=generator)

    def put(self, places: Tensor, images: Tensor) -> None:
        """Leave images at places; where a place comes twice, the later image stays."""
        self._row = self._row.to(places.device)
        last = torch.arange(len(places), device=places.device)
        final = torch.full((self.capacity,), -1, device=places.device).scatter_reduce(0, places, last, "amax")
        places = (final >= 0).nonzero().flatten()
        images = images.detach()[final[places]]
        unseen = places[self._row[places] < 0]
        self._grow(len(unseen), images)
        self._row[unseen] = torch.arange(self._used, self._used + len(unseen), device=places.device)
        self._used += len(unseen)
        assert self._images is not None
        self._images[self._row[places]] = images

    def _grow(self, more: int, like: Tensor) -> None:
        """Make room for more images, doubling so that growth stays cheap."""
        have = 0 if self._images is None else len(self._images)
        if self._used + more <= have:
            return
        size = min(self.capacity, max(2 * have, self._used + more))
        grown = torch.empty_like(like[:1].expand(size, *like.shape[1:]), memory_format=torch.preserve_format)
        if self._images is not None:
            grown[: self._used] = self._images[: self._used]
        self._images = grown

    def state_dict(self) -> dict[str, Any]:
        """Return the visited chains."""
        images = None if self._images is None else self._images[: self._used].clone()
        return {"row": self._row.clone(), "images": images, "used": self._used}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""
        if len(state["row"]) != self.capacity:
            raise ValueError(f"the state is of a buffer of {len(state['row'])} chains, this one has {self.capacity}.")
        self._row = state["row"].clone()
        self._images = None if state["images"] is None else state["images"].clone()
        self._used = state["used"]
