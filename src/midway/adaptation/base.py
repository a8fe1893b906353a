"""The base class of all methods: it owns the network that adapts and the hyper-parameters of the algorithm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from midway.adaptation.batch_norm.replaced_statistics import observers_of, statistics_of
from midway.adaptation.capture import capture
from midway.adaptation.checks import check_logits, refuse_log_probabilities, warn_of_probabilities
from midway.adaptation.classifier import AdaptiveClassifier
from midway.adaptation.copies import (
    clone_inputs,
    in_evaluation_mode,
    independent_copy,
    supports_channels_last,
    without_parallel,
)
from midway.adaptation.lock import one_at_a_time
from midway.adaptation.optimization import LazyOptimizer, optimizer_step
from midway.adaptation.problem import CIFAR_SIZE, Problem
from midway.adaptation.space import SearchSpace, search_over
from midway.functional import log_mean_softmax
from midway.models.outputs import return_logits


class Method(AdaptiveClassifier):
    """A classifier that adapts to the images it predicts: the base class of all methods.

    A call checks the images, lets the method adapt and returns logits. A subclass defines a constructor with
    keyword-only hyper-parameters, and ``step``. With ``add_state``, the constructor declares what changes from batch to
    batch besides trainable weights and buffers: optimisers, generators, moving averages, replay buffers, further
    networks. ``reset``, ``snapshot`` and ``state_dict`` are then exact; the contract of ``midway.testing`` checks this.

    Args:
        model: Any classifier from float images in [0, 1], (N, C, H, W), to logits (N, classes) or to an output that
            contains them, see ``midway.models.logits_of``. It is copied, never changed. The copy runs in evaluation
            mode (dropout off), in the channels-last layout if that is safe.

    Attributes:
        about: The record for tables and listings.
        search_space: The values that ``midway tune`` may try for the hyper-parameters.
        published: The paper's hyper-parameters where the defaults differ from them (``preset="published"``).
        printed: Those of the algorithm as printed, where published code differs (``preset="printed"``); or None.
        uses_source_statistics: The method mixes the source's statistics into BatchNorm layers in its own way.
        names_layers: Hyper-parameters that hold names of layers and therefore belong to one network.
        model: The copy that adapts.
        resolved: Values chosen for hyper-parameters that were left at None, see ``resolve``.

    Example:
        >>> import torch
        >>> from midway.methods import About, Method
        >>> class Soften(Method):
        ...     about = About("soften", "Soften", "-", "none", "nothing", "-", "1 F")
        ...     def __init__(self, model, *, factor=0.5):
        ...         super().__init__(model)
        ...         self.factor = factor
        ...     def step(self, images):
        ...         return self.factor * self.model(images)
        >>> Soften(torch.nn.Flatten())
        Soften(Flatten, factor=0.5)
        >>> Soften(torch.nn.Flatten())(torch.ones(1, 1, 1, 2))
        tensor([[0.5000, 0.5000]])
    """

    search_space: ClassVar[SearchSpace] = search_over()
    published: ClassVar[Mapping[str, Any]] = {}
    printed: ClassVar[Mapping[str, Any] | None] = None
    uses_source_statistics: ClassVar[bool] = False
    names_layers: ClassVar[tuple[str, ...]] = ()
    model: nn.Module
    _warned_of_probabilities = False

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        if not isinstance(model, nn.Module):
            raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}{_loaded_by_name(model)}.")
        model = without_parallel(model)
        if isinstance(model, AdaptiveClassifier):
            raise TypeError(f"model is already adapted by {type(model).__name__}: give the network that you adapted.")
        if self.uses_source_statistics and (given := statistics_of(model)) is not None:
            raise ValueError(
                f"{self.about.name} mixes in the source's statistics in its own way and does not support {given} "
                "statistics: give it the plain network, and no statistics=."
            )
        self.channels_last = supports_channels_last(model)
        self.model = in_evaluation_mode(independent_copy(model, self.memory_format)).requires_grad_(False)
        # Inside a compiled network: a copy of its shell, such as MITA's second model, would not call the hook.
        getattr(self.model, "_orig_mod", self.model).register_forward_hook(return_logits)
        for observer in observers_of(self.model):  # no pass in a constructor is a batch
            observer.managed = True
        self._checked_shapes: set[tuple[int, ...]] = set()
        self.resolved: dict[str, Any] = self.add_state("resolved", {})

    @property
    def memory_format(self) -> torch.memory_format:
        """The layout of the network and of its input."""
        return torch.channels_last if self.channels_last else torch.contiguous_format

    @one_at_a_time
    @torch.no_grad()
    def network_logits(self, images: Tensor) -> Tensor:
        """Return f(x) of the network in its current state, without gradients."""
        logits: Tensor = self.model(images)
        return logits

    def mirrored_logits(self, images: Tensor) -> Tensor:
        """Return the logits of the network, in its current state, for the mirror images of the last batch."""
        return self.network_logits(images.flip(-1))

    def mirrored_step(self, images: Tensor) -> Tensor:
        """Take the step, and return the logarithm of the mean probabilities of the images and their mirror images."""
        return log_mean_softmax([self.step(images), self.mirrored_logits(images)])

    def optimizer_step(self, loss: Tensor | Iterable[Tensor], optimizer: torch.optim.Optimizer | LazyOptimizer) -> bool:
        """Take one step on a loss, or on a sum of terms, unless it is not finite; return whether it was taken.

        ``diagnostics["skipped_steps"]`` counts the steps that were not. A lazy optimiser is created from the
        hyper-parameters ``optimizer`` and ``lr``.
        """
        if isinstance(optimizer, LazyOptimizer):
            optimizer = optimizer.get(self.hyperparameters["optimizer"], self.hyperparameters["lr"])
        taken = optimizer_step(loss, optimizer)
        self.count("skipped_steps", int(not taken))
        return taken

    # ---- hyper-parameters --------------------------------------------------------------------------------------------

    @classmethod
    def further_weights(cls, settings: Mapping[str, Any]) -> str | None:
        """Return a digest of trained weights that the method itself loads for these settings, or None."""
        return None

    @classmethod
    def defaults_for(cls, problem: Problem) -> dict[str, Any]:
        """Return the values of the hyper-parameters whose default is None, mostly the published ones."""
        return {}

    def resolve(self, images: Tensor, logits: Tensor | None = None) -> None:
        """Choose values for the hyper-parameters left at None, by the network and the first batch.

        Values that depend on the number of classes need the logits. The values are part of the state: a reset discards
        them, a saved state contains them.
        """
        given = self.hyperparameters
        if any(given[name] is None for name in self.defaults_for(CIFAR_SIZE)):
            defaults = self.defaults_for(Problem.of(self.model, images, logits))
            self.resolved |= {name: value for name, value in defaults.items() if given[name] is None}

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The constructor's arguments with their defaults, and the resolved values of those left at None."""
        return self._given | self.resolved

    def num_trainable(self) -> int:
        """Return the number of weights that are adapted by gradients."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)

    def __repr__(self) -> str:
        arguments = "".join(f", {key}={value!r}" for key, value in self.hyperparameters.items())
        return f"{type(self).__name__}({type(self.model).__name__}{arguments})"

    # ---- checks ------------------------------------------------------------------------------------------------------

    def _prepare(self, images: Tensor) -> Tensor:
        """Check before any change that the network accepts images of this shape, and convert their layout."""
        few = images[:2]
        layout = self.memory_format if images.ndim == 4 else torch.contiguous_format
        if few.shape not in self._checked_shapes:
            tensors = capture(self._state_tensors())
            try:
                logits = self._try(few, layout, len(images))
            finally:
                self.restore({"tensors": tensors, "values": {}})  # a network may write into its buffers
            self._warned_of_probabilities = self._warned_of_probabilities or warn_of_probabilities(logits, stacklevel=5)
            if self.about.uses_energy:
                refuse_log_probabilities(logits, self.about.title)
            self._checked_shapes.add(few.shape)
        return images.contiguous(memory_format=self.memory_format if images.ndim == 4 else torch.contiguous_format)

    def _try(self, few: Tensor, layout: torch.memory_format, batch_size: int) -> Tensor:
        """Return the logits of a few images; find out whether the network needs the plain layout or copied inputs."""
        probe = few.clone(memory_format=layout)
        version = probe._version
        try:
            logits = check_logits(self.model, probe, batch_size)
        except ValueError:
            if layout is torch.contiguous_format:
                raise
            self._set_layout(channels_last=False)  # a network may need the plain layout: x.view(len(x), -1)
            try:
                return self._try(few, torch.contiguous_format, batch_size)
            except ValueError as refusal:  # what the network says to its user, who knows nothing of layouts
                self._set_layout(channels_last=True)
                raise refusal from refusal.__cause__
        if probe._version != version:  # it changes its input in place, as F.normalize(..., inplace=True) does
            for network in self.children():
                if type(network) is type(self.model):
                    network.register_forward_pre_hook(clone_inputs, prepend=True)
        return logits

    def _set_layout(self, *, channels_last: bool) -> None:
        self.channels_last = channels_last
        for network in self.children():
            network.to(memory_format=self.memory_format)  # type: ignore[call-overload]


def _loaded_by_name(model: object) -> str:
    return ": midway.models.load returns networks by name" if isinstance(model, str) else ""
