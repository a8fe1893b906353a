"""A seeded source of random numbers that follows the images to their device and is part of the state."""

from __future__ import annotations

from typing import Any

import torch


class Randomness:
    """The random numbers of one method: same seed and same device give the same bits.

    The generator is created when the first device is known. Its state can be saved and restored.

    Example:
        >>> import midway, torch
        >>> cpu = torch.device("cpu")
        >>> draws = [torch.rand(1, generator=midway.sampling.Randomness(seed=3).on(cpu)).item() for _ in range(2)]
        >>> draws[0] == draws[1]
        True
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.generator: torch.Generator | None = None

    def on(self, device: torch.device) -> torch.Generator:
        """Return the generator for a device; a change of device restarts from the seed."""
        if self.generator is None or self.generator.device != device:
            self.generator = torch.Generator(device).manual_seed(self.seed)
        return self.generator

    def state_dict(self) -> dict[str, Any]:
        """Return the seed and, if there is a generator, its state."""
        if self.generator is None:
            return {"seed": self.seed}
        return {"seed": self.seed, "device": str(self.generator.device), "state": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load what ``state_dict`` returned; the seed only, if this machine does not have the device."""
        self.seed = state["seed"]
        self.generator = None
        if "state" not in state:
            return
        try:
            self.on(torch.device(state["device"])).set_state(state["state"].cpu())
        except RuntimeError:  # the next call of ``on`` restarts from the seed
            self.generator = None
