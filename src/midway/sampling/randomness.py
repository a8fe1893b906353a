"""A seeded source of random numbers that follows the images to their device and is part of the state."""

from __future__ import annotations

from typing import Any

import torch


class Randomness:
    """Random numbers of one owner: same seed, same device, same bits.

    The generator is made when the first device is known. Its state can be saved and put back.

    Example:
        >>> import torch
        >>> from midway.sampling import Randomness
        >>> one, two = Randomness(seed=3), Randomness(seed=3)
        >>> cpu = torch.device("cpu")
        >>> bool(torch.rand(1, generator=one.on(cpu)) == torch.rand(1, generator=two.on(cpu)))
        True
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.generator: torch.Generator | None = None

    def on(self, device: torch.device) -> torch.Generator:
        """Return the generator for a device; moving to another device starts from the seed again."""
        if self.generator is None or self.generator.device != device:
            self.generator = torch.Generator(device).manual_seed(self.seed)
        return self.generator

    def state_dict(self) -> dict[str, Any]:
        """Return the seed and, once there is one, the generator's state."""
        if self.generator is None:
            return {"seed": self.seed}
        return {"seed": self.seed, "device": str(self.generator.device), "state": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave; of a device that is not here, the seed alone."""
        self.seed = state["seed"]
        self.generator = None
        if "state" not in state:
            return
        try:
            self.on(torch.device(state["device"])).set_state(state["state"].cpu())
        except RuntimeError:  # as for any move to another device
            self.generator = None
