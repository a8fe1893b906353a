"""The values of the setting ``statistics``: functions from a network to a copy of it with other statistics."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import nn

from midway.adaptation.batch_norm.alpha import alpha_statistics
from midway.adaptation.batch_norm.clustered import clustered
from midway.adaptation.batch_norm.unmix import MIXED_COMPONENTS, unmix_statistics

BY_NAME: dict[str, Callable[[nn.Module], nn.Module]] = {
    "clustered": clustered,
    "clustered-batch": partial(clustered, memory=False),
    "alpha": alpha_statistics,
    "unmix": unmix_statistics,
    f"unmix-{MIXED_COMPONENTS}": partial(unmix_statistics, components=MIXED_COMPONENTS),
}


def module_of(name: str) -> str:
    """Return the module that computes statistics, whose code is part of the digest of a result.

    Example:
        >>> module_of("unmix-128")
        'midway.adaptation.batch_norm.unmix'
    """
    function = BY_NAME[name]
    return function.func.__module__ if isinstance(function, partial) else function.__module__
