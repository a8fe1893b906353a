"""Where Langevin chains start: from uniform noise, or from a replay buffer, in which they continue."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from midway.sampling.changes import Changes


class UniformNoise:
    """The starts of Langevin chains without memory: every chain is uniform noise, and none is stored.

    It has the methods of ``ReplayBuffer``. Algorithm 1 of the MITA paper starts its chains in this way.

    Args:
        low: Lower bound of the noise.
        high: Upper bound of the noise.

    Example:
        >>> import midway, torch
        >>> noise, generator = midway.sampling.UniformNoise(low=0), torch.Generator().manual_seed(0)
        >>> _, images = noise.draw(torch.zeros(4, 3, 8, 8), generator)
        >>> images.shape, bool((images >= 0).all())
        (torch.Size([4, 3, 8, 8]), True)
    """

    def __init__(self, *, low: float = -1.0, high: float = 1.0) -> None:
        if low >= high:
            raise ValueError(f"low must be below high, got {low} and {high}.")
        self.low, self.high = low, high

    def noise(self, like: Tensor, generator: torch.Generator) -> Tensor:
        """Return uniform noise of the shape and layout of images."""
        return torch.empty_like(like).uniform_(self.low, self.high, generator=generator)

    def draw(self, like: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return an index for each image of ``like``, which ``put`` ignores, and the images to start from."""
        return torch.arange(len(like), device=like.device), self.noise(like, generator)

    def put(self, indices: Tensor, images: Tensor) -> None:
        """Store nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: there is no state."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load nothing."""


class ReplayBuffer(UniformNoise):
    """The last images of Langevin chains, from which the next chains start; a part of them restarts from noise.

    Every entry starts as uniform noise, which is drawn when the entry is first selected: the memory of the buffer
    depends on what was sampled so far, not on its capacity. It takes the shape, dtype and device of the first images.

    Args:
        capacity: Number of chains (TEA: 10,000).
        reinit_probability: Share of the selected chains that restart from noise (TEA: 0.05).
        low: Lower bound of the noise (TEA: -1).
        high: Upper bound of the noise (TEA: 1).

    Example:
        >>> import midway, torch
        >>> buffer, generator = midway.sampling.ReplayBuffer(capacity=100), torch.Generator().manual_seed(0)
        >>> indices, images = buffer.draw(torch.zeros(4, 3, 8, 8), generator)
        >>> buffer.put(indices, images)
        >>> images.shape, len(buffer)
        (torch.Size([4, 3, 8, 8]), 4)
    """

    def __init__(
        self, *, capacity: int = 10_000, reinit_probability: float = 0.05, low: float = -1.0, high: float = 1.0
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}.")
        if not 0 <= reinit_probability <= 1:
            raise ValueError(f"reinit_probability must be between 0 and 1, got {reinit_probability}.")
        super().__init__(low=low, high=high)
        self.capacity = capacity
        self.reinit_probability = reinit_probability
        self._row = torch.full((capacity,), -1)  # index -> row of its image, -1 without a chain
        self._images: Tensor | None = None
        self._used = 0
        self._recording: list[_Overwritten] = []

    def __len__(self) -> int:
        """Number of entries with a chain."""
        return self._used

    def draw(self, like: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Select a chain for each image of ``like``; return the indices for ``put``, and the images to start from."""
        if self._images is not None and self._images.shape[1:] != like.shape[1:]:
            raise ValueError(
                f"the replay buffer contains images of shape {tuple(self._images.shape[1:])}, "
                f"got {tuple(like.shape[1:])}: reset the method before it receives images of another size."
            )
        count, device = len(like), like.device
        indices = torch.randint(self.capacity, (count,), generator=generator, device=device)
        noise = self.noise(like, generator)
        fresh = torch.rand(count, generator=generator, device=device, dtype=torch.float32) < self.reinit_probability
        rows = self._row.to(device)[indices]
        if self._images is None:
            return indices, noise
        self._images = self._images.to(like)
        known = (rows >= 0) & ~fresh
        stored = self._images[rows.clamp(min=0)]
        return indices, torch.where(known.view(-1, 1, 1, 1), stored, noise)

    def put(self, indices: Tensor, images: Tensor) -> None:
        """Store images at indices; if an index occurs twice, the later image is stored."""
        device = indices.device
        self._row = self._row.to(device)
        order = torch.arange(len(indices), device=device)
        last = torch.full((self.capacity,), -1, device=device).scatter_reduce(0, indices, order, "amax")
        indices = (last >= 0).nonzero().flatten()
        images = images.detach()[last[indices]]
        new = indices[self._row[indices] < 0]
        self._grow(len(new), images)
        self._row[new] = torch.arange(self._used, self._used + len(new), device=device)
        self._used += len(new)
        assert self._images is not None
        rows = self._row[indices]
        for changes in self._recording:
            changes.record(self._images, rows)
        self._images[rows] = images

    def _grow(self, more: int, like: Tensor) -> None:
        """Allocate rows for more images; the size at least doubles, so growth is cheap on average."""
        rows = 0 if self._images is None else len(self._images)
        if self._used + more <= rows:
            return
        size = min(self.capacity, max(2 * rows, self._used + more))
        grown = torch.empty_like(like[:1].expand(size, *like.shape[1:]), memory_format=torch.preserve_format)
        if self._images is not None:
            grown[: self._used] = self._images[: self._used]
        self._images = grown

    def begin_undo(self) -> _Overwritten:
        """Record the images that are overwritten from now on; ``undo`` of the result puts them back, ``end`` stops."""
        changes = _Overwritten(self)
        self._recording.append(changes)
        return changes

    def state_dict(self) -> dict[str, Any]:
        """Return the chains."""
        images = None if self._images is None else self._images[: self._used].clone()
        return {"row": self._row.clone(), "images": images, "used": self._used}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load what ``state_dict`` returned."""
        if len(state["row"]) != self.capacity:
            raise ValueError(f"the state is of a buffer of {len(state['row'])} chains, this one has {self.capacity}.")
        self._row = state["row"].clone()
        self._images = None if state["images"] is None else state["images"].clone()
        self._used = state["used"]


class _Overwritten(Changes):
    """An earlier state of a replay buffer, without a copy of all images: they are copied when they are overwritten."""

    def __init__(self, buffer: ReplayBuffer) -> None:
        self.buffer = buffer
        self.images, self.row, self.used = buffer._images, buffer._row.clone(), buffer._used
        self.overwritten: list[tuple[Tensor, Tensor]] = []

    def record(self, images: Tensor, rows: Tensor) -> None:
        """Copy rows before they are overwritten, unless the buffer has other storage by now."""
        if images is self.images:
            self.overwritten.append((rows, images[rows]))

    def undo(self) -> None:
        """Put everything back, bit for bit; recording goes on."""
        for rows, images in reversed(self.overwritten):
            assert self.images is not None
            self.images[rows] = images
        self.overwritten.clear()
        self.buffer._images, self.buffer._row, self.buffer._used = self.images, self.row.clone(), self.used

    def end(self) -> None:
        """Stop recording."""
        self.buffer._recording = [changes for changes in self.buffer._recording if changes is not self]
