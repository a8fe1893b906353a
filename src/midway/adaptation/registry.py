"""Methods by name, for configuration files and the command line."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from torch import nn

from midway.adaptation.base import Method
from midway.adaptation.clustered import kindred
from midway.adaptation.episodic import Episodic
from midway.adaptation.guarded import Guarded
from midway.adaptation.presets import with_preset
from midway.adaptation.wrappers import Wrapper
from midway.suggest import unknown

_METHODS: dict[str, type[Method]] = {}
M = TypeVar("M", bound=type[Method])

STATISTICS, WRAP, PRESET = FOR_EVERY_METHOD = ("statistics", "wrap", "preset")
"""What every method can be given besides its own hyper-parameters: whose statistics BatchNorm layers use, what is
wrapped round it, and settings by the name of a set."""

WRAPPERS: dict[str, type[Wrapper]] = {"episodic": Episodic, "guarded": Guarded}


def register(method: M) -> M:
    """Make a method known by the name in its ``about``; a class decorator, open to other packages.

    Example:
        >>> from midway import methods
        >>> methods.register(methods.Tent) is methods.Tent
        True
    """
    name = method.about.name
    known = _METHODS.get(name, method)
    if (known.__module__, known.__qualname__) != (method.__module__, method.__qualname__):  # a notebook cell runs twice
        raise ValueError(f"the name '{name}' is taken by {known.__module__}.{known.__qualname__}.")
    _METHODS[name] = method
    return method


def names() -> list[str]:
    """Return the names of all registered methods, in the order of registration.

    Example:
        >>> from midway import methods
        >>> methods.names()[:3]
        ['source', 'bn', 'tent']
    """
    return list(_METHODS)


def find(name: str) -> type[Method]:
    """Return the method of a name.

    Raises:
        ValueError: There is none; the message lists the valid names and the nearest match.

    Example:
        >>> from midway import methods
        >>> methods.find("tent").about.title
        'TENT'
    """
    if not isinstance(name, str):
        raise TypeError(f"a method is given by its name, such as 'tent', got {name!r}.")
    if name not in _METHODS:
        raise ValueError(unknown("method", name, _METHODS))
    return _METHODS[name]


def hyperparameters(name: str) -> dict[str, Any]:
    """Return the hyper-parameters of a method and their defaults.

    Example:
        >>> from midway import methods
        >>> methods.hyperparameters("bn")
        {'prior': 0}
    """
    parameters = list(inspect.signature(find(name).__init__).parameters.values())
    return {parameter.name: parameter.default for parameter in parameters[2:]}  # without self and the model


def adapt(model: nn.Module, method: str, **settings: Any) -> Method:
    """Wrap a classifier in a method by name.

    Args:
        model: Any classifier from images in [0, 1] to logits. It is copied, never changed.
        method: A name that ``midway methods`` lists.
        **settings: Hyper-parameters of the method; the rest keep their defaults. Every method also takes
            ``wrap="episodic"`` or ``wrap="guarded"`` (see ``midway.Episodic``, ``midway.Guarded``); all but MEMO, DUA
            and BN with a prior take ``statistics="kindred"``: BatchNorm layers then normalise each image by its kin, in
            place of the method's own statistics (see ``midway.kindred``); and all but MEMO take ``preset="tuned"``:
            what a search found, in place of the defaults (see ``midway.methods.preset``).

    Raises:
        ValueError: The method is unknown, or the statistics or the preset are.
        TypeError: A hyper-parameter is unknown. Both messages list the valid names and the nearest match.

    Example:
        >>> import midway
        >>> midway.adapt(midway.models.create("resnet20"), "tent", lr=1e-4)
        Tent(CifarResNet, optimizer=None, lr=0.0001, betas=(0.9, 0.999), steps=1, predict='before')
    """
    known = {*hyperparameters(method), *FOR_EVERY_METHOD}
    settings = with_preset(method, settings)
    for setting in settings:
        if setting not in known:
            raise TypeError(unknown(f"hyper-parameter of {method}", setting, known))
    wrap = settings.pop(WRAP, None)
    if wrap is not None and (not isinstance(wrap, str) or wrap not in WRAPPERS):
        raise ValueError(f"wrap must be 'episodic', 'guarded' or None, got {wrap!r}.")
    statistics = settings.pop(STATISTICS, None)
    if statistics not in (None, "kindred"):
        raise ValueError(f"statistics must be 'kindred', or None for the method's own, got {statistics!r}.")
    if statistics is not None and not isinstance(model, Method):  # an adapted model is refused below
        model = kindred(model)
    adapted = find(method)(model, **settings)
    return adapted if wrap is None else WRAPPERS[wrap](adapted)
