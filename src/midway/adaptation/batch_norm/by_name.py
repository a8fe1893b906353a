"""The values of the setting ``statistics``: functions that replace the statistics of a network, in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import nn

from midway.adaptation.batch_norm.alpha import use_alpha_statistics
from midway.adaptation.batch_norm.clustered import use_clustered_statistics
from midway.adaptation.batch_norm.replaced_statistics import ReplacedBatchNorm, plain_copy
from midway.adaptation.batch_norm.unmix import MIXED_COMPONENTS, use_unmix_statistics

BY_NAME: dict[str, Callable[..., Sequence[ReplacedBatchNorm]]] = {
    "clustered": use_clustered_statistics,
    "clustered-batch": partial(use_clustered_statistics, memory=False),
    "alpha": use_alpha_statistics,
    "unmix": use_unmix_statistics,
    f"unmix-{MIXED_COMPONENTS}": partial(use_unmix_statistics, components=MIXED_COMPONENTS),
}


def with_statistics(model: nn.Module, name: str, **settings: Any) -> nn.Module:
    """Return a copy of a classifier with other statistics, which any method can adapt.

    Example:
        >>> import midway
        >>> midway.BN(with_statistics(midway.models.create("resnet20"), "unmix", components=32))
        BN(CifarResNet, prior=0, statistics='unmix-32')
    """
    model = plain_copy(model)
    BY_NAME[name](model, **settings)
    return model


def module_of(name: str) -> str:
    """Return the module that computes statistics, whose code is part of the digest of a result.

    Example:
        >>> module_of("unmix-128")
        'midway.adaptation.batch_norm.unmix'
    """
    function = BY_NAME[name]
    return function.func.__module__ if isinstance(function, partial) else function.__module__
