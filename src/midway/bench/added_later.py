"""Hyper-parameters that are younger than stored results, whose cells are read as if they had had a value."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from midway.methods import find, hyperparameters, names

ADDED_LATER = (
    ("loss", "entropy"),
    ("batch_statistics", True),
    ("rotate", False),
    ("fill", "grey"),
    ("balance_classes", False),
    ("prototypes", None),
    ("largest_decrease", 2000.0),
    ("noise_level", "first"),
)
"""Hyper-parameters and the values with which they are not part of a key: earlier results, without them, keep theirs.

With most of these values nothing changes. The limit on the decrease of energies changes nothing on CIFAR-10; results on
other networks were made before it, and their digest of the code tells them apart.
"""


def with_added(method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a stored result with the hyper-parameters that its method did not have then.

    Example:
        >>> with_added("eata", {"lr": 0.001})["loss"]
        'entropy'
    """
    return {**_added_to(method), **settings}


@cache
def _added_to(method: str) -> dict[str, Any]:
    if method not in names() or not find(method).__module__.startswith("midway."):
        return {}  # of another package, whose hyper-parameters have a history of their own
    known = hyperparameters(method)
    return {key: value for key, value in ADDED_LATER if key in known}
