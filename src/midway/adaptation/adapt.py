"""``midway.adapt``: a method by name, with statistics, a wrapper or a preset."""

from __future__ import annotations

from typing import Any

from torch import nn

from midway.adaptation.base import Method
from midway.adaptation.clustered import clustered
from midway.adaptation.presets import with_preset
from midway.adaptation.registry import FOR_EVERY_METHOD, STATISTICS, WRAP, find, hyperparameters
from midway.adaptation.wrappers import WRAPPERS
from midway.suggest import unknown


def adapt(model: nn.Module, method: str, **settings: Any) -> Method:
    """Wrap a classifier in a method by name.

    Args:
        model: Any classifier from images in [0, 1] to logits. It is copied, never changed.
        method: A name that ``midway methods`` lists.
        **settings: Hyper-parameters of the method; the others keep their defaults. Every method also accepts ``wrap``,
            the name of a wrapper (``"episodic"``, ``"guarded"``; see ``midway.Episodic``, ``midway.Guarded``); all but
            MEMO, DUA and BN with a prior accept ``statistics="clustered"`` (see ``midway.clustered``); and all accept
            ``preset="published"``, all but MEMO ``preset="tuned"`` (see ``midway.methods.preset``).

    Example:
        >>> import midway
        >>> midway.adapt(midway.models.create("resnet20"), "tent", lr=1e-4)
        Tent(CifarResNet, optimizer=None, lr=0.0001, betas=(0.9, 0.999), steps=1, predict='before')
    """
    known = {*hyperparameters(method), *FOR_EVERY_METHOD}
    settings = with_preset(method, settings)
    for name in settings:
        if name not in known:
            raise TypeError(unknown(f"hyper-parameter of {method}", name, known))
    wrap = settings.pop(WRAP, None)
    if wrap is not None and (not isinstance(wrap, str) or wrap not in WRAPPERS):
        raise ValueError(f"wrap must be {', '.join(map(repr, sorted(WRAPPERS)))} or None, got {wrap!r}.")
    statistics = settings.pop(STATISTICS, None)
    if statistics not in (None, "clustered"):
        raise ValueError(f"statistics must be 'clustered', or None for the method's own, got {statistics!r}.")
    if statistics is not None and not isinstance(model, Method):  # the method refuses an adapted model
        model = clustered(model)
    adapted = find(method)(model, **settings)
    return adapted if wrap is None else WRAPPERS[wrap](adapted)
