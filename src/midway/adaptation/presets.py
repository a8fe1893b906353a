"""Presets: sets of hyper-parameters by name."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from midway.adaptation.registry import find
from midway.suggest import unknown

PRESETS = ("published", "tuned")


def preset(method: str, name: str) -> dict[str, Any]:
    """Return the hyper-parameters of a method in a preset.

    Args:
        method: Name of the method.
        name: ``"published"``, the hyper-parameters of the paper, which for all methods but MITA are the defaults; or
            ``"tuned"``, the best values of a search with the same number of trials for every method on the same
            streams of CIFAR-10 (``docs/tuning.md``), for problems of that size and streams of about 2,000 images.

    Example:
        >>> from midway.methods import preset
        >>> preset("tent", "published"), sorted(preset("tent", "tuned"))
        ({}, ['lr', 'steps'])
    """
    if name not in PRESETS:
        raise ValueError(unknown("preset", str(name), PRESETS))
    if name == "published":
        return dict(find(method).published)
    tuned = _tuned()
    if method not in tuned:
        raise ValueError(f"there are no tuned hyper-parameters of {method}, only of {', '.join(tuned)}: omit preset.")
    return dict(tuned[method])


def with_preset(method: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Replace ``preset`` by the hyper-parameters in it; those given explicitly take precedence."""
    given = {key: value for key, value in settings.items() if key != "preset"}
    return given if settings.get("preset") is None else {**preset(method, settings["preset"]), **given}


@cache
def _tuned() -> dict[str, dict[str, Any]]:
    return tomllib.loads(resources.files("midway.adaptation").joinpath("tuned.toml").read_text(encoding="utf-8"))
