"""What every method shares: checks before, exact state throughout, plain logits after."""

from __future__ import annotations

import copy
import inspect
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, final

import torch
from torch import Tensor, nn

from midway.adaptation.checks import check_answers, check_images, check_settings
from midway.adaptation.clustered import is_kindred, statistics_of
from midway.adaptation.copies import (
    in_evaluation_mode,
    independent_copy,
    kept_tensors,
    takes_channels_last,
    without_parallel,
)
from midway.adaptation.descent import descend
from midway.adaptation.normalization import uses_batch_statistics
from midway.adaptation.parameters import first_weight, refuse_half_precision
from midway.adaptation.precision import weights_cast_anew
from midway.adaptation.problem import Problem
from midway.adaptation.space import SearchSpace, search_over
from midway.adaptation.state import capture, put_back, same_structure, to_each_tensor


@dataclass(frozen=True)
class About:
    """What a method is, for tables and lists.

    Attributes:
        name: What ``midway.adapt`` and the command line call it.
        title: What tables call it.
        paper: Authors, venue, year.
        paradigm: ``"none"``, ``"batch"``, ``"instance"``, ``"purification"`` or ``"mutual"``.
        moves: What adapts.
        answers: Whether the logits come from before or after the update, or ``"-"`` where there is none.
        passes: Cost of a batch in forward (F) and backward (B) passes.
        needs: What it cannot do without, beyond the images.
        uses_other_images: An answer depends on the rest of the batch or on earlier batches.
        aligns_each_image: Each image is adapted to, or adapted, by itself.
        colour: Colour in figures on white, such as ``"#0059a0"``; empty for a spare one.
        marker: Marker in figures, as matplotlib names it; empty for a spare one.
    """

    name: str
    title: str
    paper: str
    paradigm: str
    moves: str
    answers: str
    passes: str
    needs: tuple[str, ...] = ()
    uses_other_images: bool = True
    aligns_each_image: bool = False
    colour: str = ""
    marker: str = ""


class _Sealed(ABCMeta):
    """Notes the hyper-parameters and the source state once the last constructor in the chain is done."""

    @property
    def __signature__(cls) -> inspect.Signature:
        """What ``help`` and editors show: the constructor's arguments, not those of ``__call__`` below."""
        constructor = inspect.signature(cls.__init__)  # type: ignore[misc]
        return constructor.replace(parameters=list(constructor.parameters.values())[1:])

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        with torch.inference_mode(False):
            check_settings(cls, kwargs)
            method = super().__call__(*args, **kwargs)
            bound = inspect.signature(type(method).__init__).bind(method, *args, **kwargs)
            bound.apply_defaults()
            given = list(bound.arguments.items())
            method._given = {name: _noted(value) for name, value in given[2:]}  # without self and the model
            model = getattr(method, "model", None)
            if isinstance(model, nn.Module) and (statistics := statistics_of(model)) is not None:
                method._given |= {"statistics": statistics}
            method._source = method.snapshot()
        return method


class Method(nn.Module, metaclass=_Sealed):
    """A classifier that adapts to the images it is asked about.

    Calling it validates the images, lets the method adapt and answers with logits. A subclass writes a constructor
    with keyword-only hyper-parameters and ``step``; it lists in ``evolving`` the attributes that change from batch to
    batch besides the tensors of its modules (optimisers, generators, moving averages, replay buffers). In return it
    gets exact ``reset``, ``snapshot`` and ``state_dict``, and the contract of ``midway.testing`` checks them. What
    ``midway tune`` may try for its hyper-parameters stands in ``search_space``. A method that mixes the source's
    statistics into those of BatchNorm layers says so in ``uses_source_statistics``. Hyper-parameters that hold names
    of the network's layers stand in ``names_layers``: they cannot be tried out on another network.

    Args:
        model: Any classifier from float images in [0, 1], (N, C, H, W), to logits (N, classes). It is copied, never
            changed. The copy runs in evaluation mode (dropout off), channels-last where that is safe.

    Attributes:
        model: The copy that adapts.
        settled: What hyper-parameters left at None came to: see ``settle``.
        diagnostics: What the method noted: sizes of the last batch, and counters since the last reset, such as
            ``skipped_steps``.

    Example:
        >>> import torch
        >>> from midway.methods import About, Method
        >>> class Doubt(Method):
        ...     '''Answers with half of the source's confidence.'''
        ...     about = About("doubt", "Doubt", "-", "none", "nothing", "-", "1 F")
        ...     def __init__(self, model, *, factor=0.5):
        ...         super().__init__(model)
        ...         self.factor = factor
        ...     def step(self, images):
        ...         return self.factor * self.model(images)
        >>> doubt = Doubt(torch.nn.Flatten())
        >>> doubt
        Doubt(Flatten, factor=0.5)
        >>> doubt(torch.ones(1, 1, 1, 2))
        tensor([[0.5000, 0.5000]])
    """

    about: ClassVar[About]
    evolving: ClassVar[tuple[str, ...]] = ()
    search_space: ClassVar[SearchSpace] = search_over()
    uses_source_statistics: ClassVar[bool] = False
    names_layers: ClassVar[tuple[str, ...]] = ()
    _given: dict[str, Any]
    _source: dict[str, Any]

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        if not isinstance(model, nn.Module):
            raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}.")
        model = without_parallel(model)
        if isinstance(model, Method):
            raise TypeError(f"model is already adapted by {type(model).__name__}: give the plain network, model.model.")
        if self.uses_source_statistics and is_kindred(model):
            raise ValueError(
                f"{self.about.name} mixes in the source's statistics in its own way, so kindred statistics are not "
                "for it: give it the plain network, and no statistics=."
            )
        self.channels_last = takes_channels_last(model)
        self.model = in_evaluation_mode(independent_copy(model, self.memory_format)).requires_grad_(False)
        self.diagnostics: dict[str, float] = {}
        self.settled: dict[str, Any] = {}
        self._tried_shapes: set[tuple[int, ...]] = set()
        self._warned_of_single_images = False

    @property
    def memory_format(self) -> torch.memory_format:
        """The layout of the network and of the images it gets."""
        return torch.channels_last if self.channels_last else torch.contiguous_format

    @property
    def adapts_to(self) -> int | None:
        """How many images after a reset it adapts to, later ones costing a forward pass; None: every image."""
        return None

    @abstractmethod
    def step(self, images: Tensor) -> Tensor:
        """Adapt to a batch of valid images and return its logits. Gradients are on; nothing else is promised."""

    @final  # type: ignore[misc]
    def forward(self, images: Tensor) -> Tensor:
        """Adapt to the images and answer them.

        Args:
            images: Float tensor (N, C, H, W) in [0, 1], on the device of the model.

        Returns:
            Logits (N, classes), float32, detached, in the order of the images.

        Raises:
            TypeError: Not a tensor of the model's floating-point type.
            ValueError: Wrong shape, empty, NaN or Inf, values far outside [0, 1], or another device. The state of the
                method is then as before.
        """
        self._validate(images)
        with torch.inference_mode(False), torch.enable_grad(), weights_cast_anew():
            images = images.detach().clone() if images.is_inference() else images.detach()
            self._try_out(images)
            logits = self.step(images.contiguous(memory_format=self.memory_format))
        if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(images):
            shown = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise TypeError(
                f"{type(self).__name__}.step must return logits ({len(images)}, classes) for {len(images)} images, "
                f"it returned {shown}."
            )
        return logits.detach().float()

    @classmethod
    def defaults_for(cls, problem: Problem) -> dict[str, Any]:
        """Return the published values of those hyper-parameters whose default, None, leaves them to the problem."""
        return {}

    def settle(self, images: Tensor, logits: Tensor) -> None:
        """Give hyper-parameters left at None their values by the size of the problem; the first batch decides.

        They are part of the state: a reset forgets them, a saved state brings them along.
        """
        for name, value in self.defaults_for(Problem.of(images, logits)).items():
            if self.hyperparameters[name] is None:
                self.settled[name] = value

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The constructor's arguments, defaults included, and what those left at None came to."""
        return self._given | self.settled

    def descend(self, loss: Tensor | Iterable[Tensor], optimizer: torch.optim.Optimizer) -> bool:
        """Take one optimiser step down a loss, or down a sum of terms, unless it is not finite.

        A step that would poison the weights is not taken but counted in ``diagnostics["skipped_steps"]``.

        Returns:
            Whether the step was taken.
        """
        taken = descend(loss, optimizer)
        if not taken:
            self.count("skipped_steps")
        return taken

    def count(self, event: str, times: int = 1) -> None:
        """Add to a counter in the diagnostics."""
        if times:
            self.diagnostics[event] = self.diagnostics.get(event, 0) + times

    # ---- state -------------------------------------------------------------------------------------------------------

    @torch.inference_mode(False)
    def reset(self) -> None:
        """Go back to the source: weights, statistics, optimiser, averages, random state, bit for bit."""
        self.restore(self._source)

    @torch.inference_mode(False)
    def snapshot(self) -> dict[str, Any]:
        """Return a copy of all that changes as the method adapts (frozen weights are not copied)."""
        evolving = {name: capture(getattr(self, name)) for name in ("diagnostics", "settled", *self.evolving)}
        return {"tensors": capture(self._moving_tensors()), "evolving": evolving}

    @torch.inference_mode(False)
    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go back to a snapshot."""
        tensors, then = self._moving_tensors(), snapshot["tensors"]
        with torch.no_grad():
            for name in tensors.keys() | then.keys():
                now, value = tensors.get(name), then.get(name)
                if now is not None and value is not None and now.shape == value.shape:
                    now.copy_(value)
                else:
                    self._exchange_buffer(name, capture(value))
        for name, value in snapshot["evolving"].items():
            put_back(self, name, value)

    def _exchange_buffer(self, name: str, value: Tensor | None) -> Tensor | None:
        """Exchange a buffer, of a network whose buffers come, go or change their size, and return the old one."""
        owner, _, key = name.rpartition(".")
        buffers = self.get_submodule(owner)._buffers
        before, buffers[key] = buffers[key], value
        return before

    @torch.inference_mode(False)
    def get_extra_state(self) -> dict[str, Any]:
        """What ``state_dict`` holds besides weights: the evolving attributes, and the source for ``reset``."""
        return {
            "method": self.about.name,
            "hyperparameters": {name: repr(value) for name, value in self._given.items()},
            "now": self.snapshot()["evolving"],
            "source": capture(self._source),
        }

    @torch.inference_mode(False)
    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take over what ``get_extra_state`` gave."""
        for name, value in state["now"].items():
            put_back(self, name, value)
        self._source = capture(state["source"])

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return everything: weights, statistics, optimiser, averages, random state; adapting on does not change it.

        Like torch's own, except that the tensors that move are copies. Frozen weights are shared with the method.
        """
        with torch.inference_mode(False):
            state = super().state_dict(*args, **kwargs)
            prefix = kwargs.get("prefix", "")
            for name in self._moving_tensors():
                if prefix + name in state:  # buffers that are not persistent are no part of it
                    state[prefix + name] = state[prefix + name].clone()
        return state

    @torch.inference_mode(False)
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Take over everything from another instance of this method on the same network, all or nothing.

        Raises:
            ValueError: The state is another method's, another network's or of other hyper-parameters; this one is
                then as before.
        """
        if assign:
            raise ValueError("assign=True would part the optimiser from the weights it moves: leave it out.")
        before = capture(dict(super().state_dict()))
        came = {
            name: self._exchange_buffer(name, torch.empty_like(value))
            for name, value in state_dict.items()
            if name not in before and name in self._empty_buffers()
        }
        try:
            self._check_state(state_dict)
            return super().load_state_dict(state_dict, strict=strict)
        except Exception:
            for name, value in came.items():
                self._exchange_buffer(name, value)
            super().load_state_dict(before)
            raise

    def _empty_buffers(self) -> set[str]:
        return {
            f"{prefix}.{key}".lstrip(".")
            for prefix, module in self.named_modules()
            for key, value in module._buffers.items()
            if value is None
        }

    def _check_state(self, theirs: Mapping[str, Any]) -> None:
        if "_extra_state" not in theirs:
            what = "these are plain network weights" if theirs else "there is nothing in this state"
            raise ValueError(f"{what}: load weights into the network, then wrap that; or give a method's state_dict().")
        extra = theirs["_extra_state"]
        if extra["method"] != self.about.name:
            raise ValueError(f"the state is of {extra['method']}, this is {self.about.name}.")
        mine = {name: repr(value) for name, value in self._given.items()}
        theirs_given = extra["hyperparameters"]
        for name in [*mine, *(name for name in theirs_given if name not in mine)]:
            if (given := theirs_given.get(name)) != mine.get(name):
                raise ValueError(f"the state is of {name}={given}, this method has {name}={mine.get(name)}.")
        state = super().state_dict()
        if not same_structure(state, theirs):
            differing = sorted(key for key in state.keys() ^ theirs.keys())[:3]
            detail = f"keys differ ({', '.join(differing)}, ...)" if differing else "shapes differ"
            raise ValueError(f"the state does not fit {self!r}: {detail}.")

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        clone = self.__class__.__new__(self.__class__)
        memo[id(self)] = clone
        with torch.inference_mode(False):
            memo.update(kept_tensors(self))
            clone.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return clone

    def train(self, mode: bool = True) -> Self:
        """Note the mode; the network inside stays as the method set it up, so ``eval()`` changes no answer."""
        self.training = mode
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Do nothing: what moves is the method's own business, and no gradient leaves it."""
        return self

    def __repr__(self) -> str:
        settings = "".join(f", {key}={value!r}" for key, value in self.hyperparameters.items())
        return f"{type(self).__name__}({type(self.model).__name__}{settings})"

    def count_moving(self) -> int:
        """Return how many numbers in the weights adapt by a gradient.

        Example:
            >>> import midway
            >>> midway.Tent(midway.models.create("resnet20")).count_moving()
            1568
        """
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)

    def _moving_tensors(self) -> dict[str, Tensor]:
        moving = {name: p.detach() for name, p in self.named_parameters() if p.requires_grad}
        return moving | dict(self.named_buffers())

    @torch.inference_mode(False)
    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Move the evolving tensors and the source along when the module moves to a device or dtype."""
        if self.count_moving():
            wanted = fn(torch.empty(0, device=first_weight(self, torch.empty(0)).device))
            refuse_half_precision({"what moves": nn.Parameter(wanted, requires_grad=False)})
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name in self.evolving:
            setattr(self, name, to_each_tensor(getattr(self, name), fn))
        self._source = to_each_tensor(self._source, fn)
        return self

    # ---- checks ------------------------------------------------------------------------------------------------------

    def _validate(self, images: Tensor) -> None:
        check_images(images, self.model)
        lonely = len(images) == 1 and uses_batch_statistics(self.model) and not is_kindred(self.model)
        if lonely and not self._warned_of_single_images:
            self._warned_of_single_images = True
            warnings.warn(
                f"{self.about.title} normalises by the statistics of the batch, and this batch is a single image: "
                "give larger batches, or mix in the source's statistics, for example BN(model, prior=16).",
                stacklevel=4,
            )

    def _try_out(self, images: Tensor) -> None:
        """See once for each shape whether the network takes such images, before anything moves."""
        few = images[:2]
        if few.shape in self._tried_shapes:
            return
        try:
            check_answers(self.model, few.contiguous(memory_format=self.memory_format), len(images))
        except ValueError as refusal:
            if not self.channels_last:
                raise
            self._lay_out(channels_last=False)  # a network may take only the plain layout: x.view(len(x), -1)
            try:
                check_answers(self.model, few.contiguous())
            except ValueError:
                self._lay_out(channels_last=True)
                raise refusal from refusal.__cause__
        self._tried_shapes.add(few.shape)

    def _lay_out(self, *, channels_last: bool) -> None:
        self.channels_last = channels_last
        for network in self.children():
            network.to(memory_format=self.memory_format)  # type: ignore[call-overload]


@dataclass(frozen=True)
class _TensorOf:
    """Stands for a tensor among the hyper-parameters: the images themselves are not kept."""

    shape: tuple[int, ...]

    def __repr__(self) -> str:
        return f"tensor of {self.shape}"


def _noted(value: Any) -> Any:
    return _TensorOf(tuple(value.shape)) if isinstance(value, Tensor) else value
