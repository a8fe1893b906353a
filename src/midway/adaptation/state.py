"""Declared state: what changes from batch to batch. Reset, snapshots, copies and saved states follow from it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn

from midway.adaptation.about import About
from midway.adaptation.capture import apply_to_tensors, begin_undo, capture, restore
from midway.adaptation.copies import graph_tensors
from midway.adaptation.lock import CallLock, one_at_a_time

T = TypeVar("T")


class Stateful(nn.Module):
    """A module that declares its state and returns to any earlier one exactly.

    ``add_state`` declares an attribute. Trainable parameters and buffers of submodules are state without a declaration;
    a declared submodule contributes its frozen parameters too. Other frozen parameters never change and are not copied.
    """

    about: About
    _given: dict[str, Any]
    _source: dict[str, Any]
    _trainable: frozenset[str] | None = None
    """Names of the trainable parameters, once the constructor has returned: flags may be changed from outside."""

    def __init__(self) -> None:
        super().__init__()
        self._states: list[str] = []
        self._lock = CallLock()  # a method is one object with one state: threads take turns

    def add_state(self, name: str, value: T) -> T:
        """Set an attribute, declare that it changes from batch to batch, and return its value.

        The value is a tensor, a module (all its parameters and buffers become state, trainable or not), an optimiser, a
        generator, an object with ``state_dict`` and ``load_state_dict``, a plain value, or a container of these. It is
        copied before every batch, unless it has ``begin_undo`` (``midway.sampling.changes.Changes``).
        """
        if "_source" in self.__dict__:
            raise RuntimeError(f"the state '{name}' is declared too late: call add_state in the constructor.")
        if name in self._states:
            raise ValueError(f"the state '{name}' is declared twice.")
        capture(value)  # a TypeError if the value cannot be state
        self._states.append(name)
        setattr(self, name, value)
        return value

    @one_at_a_time
    @torch.inference_mode(False)
    def reset(self, *, keep: Sequence[str] = ()) -> None:
        """Return to the source, bit for bit: weights, statistics, optimisers, averages, random state; not ``keep``."""
        values = {name: value for name, value in self._source["values"].items() if name not in keep}
        self.restore({"tensors": self._source["tensors"], "values": values})

    @one_at_a_time
    @torch.inference_mode(False)
    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state."""
        return {"tensors": capture(self._state_tensors()), "values": capture(self._state_values())}

    @one_at_a_time
    @torch.inference_mode(False)
    def begin_undo(self) -> dict[str, Any]:
        """Return a snapshot for ``restore`` in which objects with ``begin_undo`` record their changes from now on.

        That costs less than a copy of a large state. It is valid for this object, until ``end_undo``.
        """
        return {"tensors": capture(self._state_tensors()), "values": begin_undo(self._state_values())}

    @one_at_a_time
    @torch.inference_mode(False)
    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Restore a snapshot of this method, which stays usable; others are refused without a change of the state."""
        self._check_snapshot(snapshot)
        now, then = self._state_tensors(), snapshot["tensors"]
        with torch.no_grad():
            for name in now.keys() | then.keys():
                tensor, value = now.get(name), then.get(name)
                if tensor is not None and value is not None and tensor.shape == value.shape:
                    tensor.copy_(value)
                else:
                    self._exchange_buffer(name, capture(value))
        self._restore_values(snapshot["values"])

    def _check_snapshot(self, snapshot: Mapping[str, Any]) -> None:
        if not isinstance(snapshot, Mapping) or not {"tensors", "values"} <= snapshot.keys():
            raise TypeError("restore takes what snapshot() returned; load_state_dict takes what state_dict() returned.")
        now, then = self._state_tensors(), snapshot["tensors"]
        modules = dict(self.named_modules())
        for name in now.keys() | then.keys():
            tensor, value = now.get(name), then.get(name)
            owner, _, key = name.rpartition(".")
            exchanged = tensor is None or value is None or tensor.shape != value.shape
            if exchanged and (owner not in modules or key not in modules[owner]._buffers):
                raise ValueError(f"the snapshot is of another method, network or setting: '{name}' differs.")
        if foreign := sorted(snapshot["values"].keys() - self._state_values().keys()):
            raise ValueError(f"the snapshot is of another method or setting: it has '{foreign[0]}'.")

    def _restore_values(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, restore(getattr(self, name), value))

    def _exchange_buffer(self, name: str, value: Tensor | None) -> Tensor | None:
        """Replace a buffer, in networks whose buffers appear, disappear or change size, and return the old one."""
        owner, _, key = name.rpartition(".")
        buffers = self.get_submodule(owner)._buffers
        before, buffers[key] = buffers[key], value
        return before

    def _state_values(self) -> dict[str, Any]:
        """Return the declared values; the tensors of declared modules are in ``_state_tensors``."""
        values = {name: getattr(self, name) for name in self._states}
        return {
            name: value
            for name, value in values.items()
            if isinstance(value, Stateful) or not isinstance(value, nn.Module | nn.Parameter)
        }

    def _state_tensors(self, *, every_name: bool = False) -> dict[str, Tensor]:
        """Return buffers, trainable parameters and the parameters of declared modules, by one or by every name."""
        declared, others = set[int](), set[int]()
        for name, child in self.named_children():
            (declared if name in self._states else others).update(map(id, child.parameters()))
        declared |= {id(parameter) for name, parameter in self._parameters.items() if name in self._states}
        declared -= others  # a frozen weight that a declared module shares with the network stays frozen
        parameters = self.named_parameters(remove_duplicate=not every_name)
        trainable = self._trainable
        tensors = {
            name: p.detach()
            for name, p in parameters
            if (p.requires_grad if trainable is None else name in trainable) or id(p) in declared
        }
        tensors |= dict(self.named_buffers(remove_duplicate=not every_name))
        nested = tuple(f"{name}." for name, _ in self._nested())  # they capture their own
        return {name: tensor for name, tensor in tensors.items() if not name.startswith(nested)}

    def _restore_flags(self) -> None:
        """Make exactly those parameters trainable that the constructor chose, whatever a module around this one did."""
        if self._trainable is not None:
            for name, parameter in self.named_parameters(remove_duplicate=False):
                if parameter.requires_grad != (name in self._trainable):
                    parameter.requires_grad_(name in self._trainable)

    def _nested(self) -> Iterator[tuple[str, Stateful]]:
        return ((name, child) for name, child in self.named_children() if isinstance(child, Stateful))

    # ---- saved states ------------------------------------------------------------------------------------------------

    @one_at_a_time
    @torch.inference_mode(False)
    def get_extra_state(self) -> dict[str, Any]:
        """Return what ``state_dict`` holds besides weights: the declared values, and the source for ``reset``."""
        nested = dict(self._nested())  # each has an extra state of its own
        return {
            "method": self.about.name,
            "hyperparameters": {name: repr(value) for name, value in self._given.items()},
            "now": {name: capture(value) for name, value in self._state_values().items() if name not in nested},
            "source": capture(self._source),
        }

    @one_at_a_time
    @torch.inference_mode(False)
    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Load what ``get_extra_state`` returned."""
        self._restore_values(state["now"])
        self._source = capture(state["source"])

    @one_at_a_time
    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the complete state, in copies; only frozen weights are shared with the method."""
        with torch.inference_mode(False):
            state = super().state_dict(*args, **kwargs)
            prefix = kwargs.get("prefix", "")
            for name in self._state_tensors(every_name=True):  # a module may have several
                if prefix + name in state:  # buffers that are not persistent are absent
                    state[prefix + name] = state[prefix + name].clone()
        return state

    @one_at_a_time
    @torch.inference_mode(False)
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load the state of another instance of this method with the same network and settings, all or nothing."""
        if assign:
            raise ValueError("assign=True would separate the optimiser from the weights it updates: leave it out.")
        before = capture(dict(super().state_dict()))
        empty = self._empty_buffers()
        created = {
            name: self._exchange_buffer(name, torch.empty_like(value))
            for name, value in state_dict.items()
            if name not in before and name in empty
        }
        try:
            self._check_state(state_dict)
            return super().load_state_dict(state_dict, strict=strict)
        except Exception:
            for name, value in created.items():
                self._exchange_buffer(name, value)
            super().load_state_dict(before)
            raise

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Check the state before a part of it is loaded, also if a module around this one loads it."""
        self._check_state({k.removeprefix(prefix): value for k, value in state_dict.items() if k.startswith(prefix)})
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def _empty_buffers(self) -> set[str]:
        return {
            f"{prefix}.{key}".lstrip(".")
            for prefix, module in self.named_modules()
            for key, value in module._buffers.items()
            if value is None
        }

    def _check_state(self, theirs: Mapping[str, Any]) -> None:
        if "_extra_state" not in theirs:
            what = "these are plain network weights" if theirs else "the state is empty"
            raise ValueError(f"{what}: load weights into the network and wrap that, or give a method's state_dict().")
        extra = theirs["_extra_state"]
        if extra["method"] != self.about.name:
            raise ValueError(f"the state is of {extra['method']}, this is {self.about.name}.")
        mine = {name: repr(value) for name, value in self._given.items()}
        for name in dict.fromkeys([*mine, *extra["hyperparameters"]]):
            if (given := extra["hyperparameters"].get(name)) != mine.get(name):
                raise ValueError(f"the state is of {name}={given}, this method has {name}={mine.get(name)}.")
        shapes, their_shapes = (
            {key: getattr(value, "shape", None) for key, value in state.items()}
            for state in (super().state_dict(), theirs)
        )
        if shapes != their_shapes:
            differing = sorted(shapes.keys() ^ their_shapes.keys())[:3]
            detail = f"keys differ ({', '.join(differing)}, ...)" if differing else "shapes differ"
            raise ValueError(f"the state does not fit {self!r}: {detail}.")
        self._check_network(theirs)
        for name, child in self._nested():
            prefix = f"{name}."
            child._check_state({k.removeprefix(prefix): v for k, v in theirs.items() if k.startswith(prefix)})

    def _check_network(self, theirs: Mapping[str, Any]) -> None:
        """Raise if a state is of a network with other weights, frozen ones or those before adaptation."""
        source = self._source["tensors"]
        weights, adapts = super().state_dict(), self._state_tensors(every_name=True)
        at_source = theirs["_extra_state"]["source"]["tensors"]
        pairs = {name: (tensor, at_source.get(name)) for name, tensor in source.items()}
        nested = tuple(f"{name}." for name, _ in self._nested())  # they check their own
        frozen = [name for name in weights.keys() - adapts.keys() if not name.startswith(nested)]
        pairs |= {name: (weights[name], theirs[name]) for name in frozen}
        for name, (mine, other) in pairs.items():
            comparable = isinstance(mine, Tensor) and isinstance(other, Tensor) and mine.dtype == other.dtype
            if comparable and not torch.equal(other.to(mine.device), mine):
                raise ValueError(f"the state is of a network with other weights: {name} differs.")

    @one_at_a_time
    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        clone = self.__class__.__new__(self.__class__)
        memo[id(self)] = clone
        with torch.inference_mode(False):
            memo.update(graph_tensors(self))
            clone.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return clone

    @torch.inference_mode(False)
    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Convert the declared values and the source when the module moves to a device or dtype."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, value in self._state_values().items():
            setattr(self, name, apply_to_tensors(value, fn))
        self._source = apply_to_tensors(self._source, fn)
        return self
