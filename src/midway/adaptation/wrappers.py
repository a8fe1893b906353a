"""Methods around methods: what composes is no flag in every method."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from midway.adaptation.base import About, Method
from midway.adaptation.state import capture, put_back


class Wrapper(Method):
    """A method that hands its images to another one and does something about it.

    A subclass writes ``step`` over ``self.method``. State, hyper-parameters and diagnostics of the inner method stay
    its own; ``evolving`` lists what the wrapper itself remembers.

    Args:
        method: The method to wrap. It is copied, never changed, and the copy starts from its source.
    """

    def __init__(self, method: Method) -> None:
        nn.Module.__init__(self)
        if not isinstance(method, Method):
            raise TypeError(f"{type(self).__name__} wraps a method, such as Tent(model), got {type(method).__name__}.")
        self.method = copy.deepcopy(method)
        self.method.reset()
        self.settled = {}
        self.events: dict[str, float] = {}
        self._tried_shapes = set()
        self._warned_of_single_images = False

    @property
    def about(self) -> About:  # type: ignore[override]
        """What the inner method is, under the wrapper's name."""
        kind, inner = type(self).__name__.lower(), self.method.about
        return replace(inner, name=f"{kind}({inner.name})", title=f"{inner.title}, {kind}")

    @property
    def model(self) -> nn.Module:  # type: ignore[override]
        """The network that adapts."""
        return self.method.model

    @property
    def memory_format(self) -> torch.memory_format:
        """The layout that the inner method wants its images in."""
        return self.method.memory_format

    @property
    def diagnostics(self) -> dict[str, float]:  # type: ignore[override]
        """What the inner method noted, and the wrapper's own counters."""
        return self.method.diagnostics | self.events

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Those of the inner method and the wrapper's own."""
        return self.method.hyperparameters | super().hyperparameters

    def count_moving(self) -> int:
        """Return what the inner method counts."""
        return self.method.count_moving()

    def count(self, event: str, times: int = 1) -> None:
        """Add to a counter of the wrapper."""
        self.events[event] = self.events.get(event, 0) + times

    @torch.inference_mode(False)
    def snapshot(self) -> dict[str, Any]:
        """Return a copy of all that changes, in the wrapper and in the method within."""
        evolving = {name: capture(getattr(self, name)) for name in ("events", *self.evolving)}
        return {"method": self.method.snapshot(), "evolving": evolving}

    @torch.inference_mode(False)
    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go back to a snapshot."""
        self.method.restore(snapshot["method"])
        for name, value in snapshot["evolving"].items():
            put_back(self, name, value)

    def _check_state(self, theirs: Mapping[str, Any]) -> None:
        super()._check_state(theirs)
        prefix = "method."
        self.method._check_state({k.removeprefix(prefix): v for k, v in theirs.items() if k.startswith(prefix)})

    def _try_out(self, images: Tensor) -> None:
        self.method._try_out(images)

    def _moving_tensors(self) -> dict[str, Tensor]:
        return {}  # they are the inner method's

    def __repr__(self) -> str:
        settings = "".join(f", {key}={value!r}" for key, value in super().hyperparameters.items())
        return f"{type(self).__name__}({self.method!r}{settings})"
