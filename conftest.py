"""Property tests are repeatable and never timed, and tiny networks run on one thread: the machine may be busy."""

from __future__ import annotations

import torch
from hypothesis import settings

settings.register_profile("midway", deadline=None, derandomize=True)
settings.load_profile("midway")
torch.set_num_threads(1)


def pytest_configure() -> None:
    """Import the package before doctests import its modules by their paths, but after coverage has started."""
    import midway  # noqa: F401
