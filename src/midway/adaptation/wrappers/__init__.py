"""Methods around methods, one file each: their base class and registry."""

from __future__ import annotations

import ast
import copy
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from midway._registry import Registry
from midway.adaptation.classifier import AdaptiveClassifier


class Wrapper(AdaptiveClassifier):
    """A classifier around a method, or around another wrapper, that changes when or how the method adapts.

    A subclass defines ``step`` with ``self.method``, a copy that starts from its source. The inner method keeps its own
    state, hyper-parameters and diagnostics; the wrapper declares only its own state.
    """

    def __init__(self, method: AdaptiveClassifier) -> None:
        super().__init__()
        if not isinstance(method, AdaptiveClassifier):
            raise TypeError(f"{type(self).__name__} wraps a method, such as Tent(model), got {type(method).__name__}.")
        self.method = self.add_state("method", copy.deepcopy(method))
        self.method.reset()
        self.fallback, self.method.fallback = self.method.fallback, None  # this object is the one that predicts
        name, inner = type(self).__name__.lower(), method.about
        self.about = replace(inner, name=f"{name}({inner.name})", title=f"{inner.title}, {name}")

    @property
    def model(self) -> nn.Module:
        """The network that adapts, which belongs to the inner method."""
        return self.method.model

    @property
    def memory_format(self) -> torch.memory_format:
        """The layout of the network and of its input."""
        return self.method.memory_format

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The hyper-parameters of the inner method and of the wrapper."""
        return self.method.hyperparameters | self._given

    @property
    def diagnostics(self) -> dict[str, Any]:
        """The diagnostics of the inner method and of the wrapper."""
        return self.method.diagnostics | self.records

    @property
    def takes_batches(self) -> bool:
        """Whether the inner method takes the images of a call as a batch."""
        return self.method.takes_batches

    def network_logits(self, images: Tensor) -> Tensor:
        """Return the logits of the inner method's network in its current state, without gradients."""
        return self.method.network_logits(images)

    def num_trainable(self) -> int:
        """Return the number of weights that the inner method adapts by gradients."""
        return self.method.num_trainable()

    def _prepare(self, images: Tensor) -> Tensor:
        return self.method._prepare(images)

    def __repr__(self) -> str:
        arguments = "".join(f", {key}={value!r}" for key, value in self._given.items())
        return f"{type(self).__name__}({self.method!r}{arguments})"


WRAPPERS: Registry[type[Wrapper]] = Registry("wrapper", group="wrappers", package="midway.adaptation.wrappers")
"""The wrappers by the name that ``wrap=`` of ``midway.adapt`` takes: that of the class, in lower case."""


def read_wrapper(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the settings of a wrapper that is written like ``"window"`` or ``"window(size=64)"``.

    Example:
        >>> from midway.adaptation.wrappers import read_wrapper
        >>> read_wrapper("window(size=64)"), read_wrapper("episodic")
        (('window', {'size': 64}), ('episodic', {}))
    """
    try:
        parsed = ast.parse(text, mode="eval").body
        call = parsed if isinstance(parsed, ast.Call) else ast.Call(parsed, [], [])
        settings = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        name = call.func.id if isinstance(call.func, ast.Name) and not call.args else ""
    except (SyntaxError, ValueError):
        name, settings = "", {}
    if name not in WRAPPERS:
        names = ", ".join(map(repr, sorted(WRAPPERS)))
        raise ValueError(f"wrap must be {names}, one of them with settings, such as 'window(size=64)', got {text!r}.")
    return name, settings


W = TypeVar("W", bound=type[Wrapper])


def register_wrapper(wrapper: W) -> W:
    """Register a wrapper, as a class decorator; other packages may use it."""
    WRAPPERS.add(wrapper.__name__.lower(), wrapper)
    return wrapper
