"""The methods by name, for plans and the command line."""

from __future__ import annotations

import inspect
from operator import attrgetter
from typing import Any, TypeVar

from midway._registry import Registry
from midway.adaptation.about import About
from midway.adaptation.base import Method

METHODS: Registry[type[Method]] = Registry("method", group="methods", package="midway.methods")
"""The methods by the name in their ``about``."""

FOR_EVERY_METHOD = ("statistics", "views", "wrap", "preset", "on_nonfinite")
"""What ``midway.adapt`` accepts for every method besides its hyper-parameters: the statistics of BatchNorm layers, the
views to average over, a wrapper, a preset, and what to do if a prediction is not finite."""

STATISTICS, VIEWS, WRAP, PRESET, ON_NONFINITE = FOR_EVERY_METHOD

M = TypeVar("M", bound=type[Method])


def register(method: M) -> M:
    """Register a method under the name in its ``about``, as a class decorator; other packages may use it.

    Example:
        >>> from midway import methods
        >>> methods.register(methods.Tent) is methods.Tent
        True
    """
    if not isinstance(getattr(method, "about", None), About):
        raise TypeError(f'{method.__name__} must say what it is: about = midway.methods.About("its_name").')
    METHODS.add(method.about.name, method)
    return method


def names() -> list[str]:
    """Return the names of all methods, sorted by paradigm, year and title.

    Example:
        >>> from midway import methods
        >>> methods.names()[:3], methods.names()[-1]
        (['source', 'pl', 'bn'], 'mita')
    """
    return [method.about.name for method in sorted(METHODS.values(), key=attrgetter("about.position"))]


def find(name: str) -> type[Method]:
    """Return a method by name; the error for an unknown name lists the valid names and the nearest one.

    Example:
        >>> from midway import methods
        >>> methods.find("tent").about.title
        'TENT'
    """
    if not isinstance(name, str):
        raise TypeError(f"a method is given by its name, such as 'tent', got {name!r}.")
    return METHODS[name]


def hyperparameters(name: str) -> dict[str, Any]:
    """Return the hyper-parameters of a method and their defaults.

    Example:
        >>> from midway import methods
        >>> methods.hyperparameters("bn")
        {'prior': 0}
    """
    parameters = list(inspect.signature(find(name).__init__).parameters.values())
    return {parameter.name: parameter.default for parameter in parameters[2:]}  # without self and the model
