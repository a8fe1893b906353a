"""Sets of settings that come with the package, to be asked for by name."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from midway.suggest import unknown

PRESETS = ("published", "tuned")

PUBLISHED: dict[str, dict[str, Any]] = {
    "mita": {
        "data_model_steps": 4,
        "data_model_lr": None,
        "shared_pass": False,
        "data_measure": "pixels",
        "data_step_size": 0.03,
    }
}
"""Where the defaults are not those of the paper, what is.

MITA's paper says that the data model takes more steps than the predictor, at the same rate, and leaves open how many
and how far images move: here 4 steps and 0.03, round values that were not searched. T = 1 is in its complexity
table, and is also the default.
"""


def preset(method: str, name: str) -> dict[str, Any]:
    """Return a method's settings in a preset.

    Args:
        method: Name of the method.
        name: ``"published"``, the settings of the paper, which for all methods but MITA are the defaults; or
            ``"tuned"``, what a search found that gave every method as many trials on the same streams of CIFAR-10
            (``docs/tuning.md``). They are for problems of that size and streams as short, some 2,000 images.

    Raises:
        ValueError: There is no such preset, or the method is not in it.

    Example:
        >>> from midway.adaptation.presets import preset
        >>> preset("tent", "published"), preset("mita", "published")["data_measure"]
        ({}, 'pixels')
        >>> sorted(preset("tent", "tuned"))
        ['lr', 'steps']
    """
    if name not in PRESETS:
        raise ValueError(unknown("preset", str(name), PRESETS))
    if name == "published":
        return dict(PUBLISHED.get(method, {}))
    found = _tuned()
    if method not in found:
        raise ValueError(f"there are no tuned settings of {method}, only of {', '.join(found)}: leave preset out.")
    return dict(found[method])


def with_preset(method: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Replace ``preset`` among settings by what it stands for; what is said besides it wins.

    Raises:
        ValueError: There is no such preset, or the method is not in it.

    Example:
        >>> from midway.adaptation.presets import with_preset
        >>> with_preset("tent", {"preset": "tuned", "lr": 1e-4})["lr"]
        0.0001
    """
    own = {key: value for key, value in settings.items() if key != "preset"}
    return own if settings.get("preset") is None else {**preset(method, settings["preset"]), **own}


@cache
def _tuned() -> dict[str, dict[str, Any]]:
    return tomllib.loads(resources.files("midway.adaptation").joinpath("tuned.toml").read_text(encoding="utf-8"))
