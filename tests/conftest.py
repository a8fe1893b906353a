"""Property tests are repeatable and never timed: the machine may be busy."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("midway", deadline=None, derandomize=True)
settings.load_profile("midway")
