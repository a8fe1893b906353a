"""What methods and wrappers share: a call checks the images, adapts, and returns finite logits or an error."""

from __future__ import annotations

import inspect
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
import torch
from torch import Tensor, nn

from midway.adaptation.batch_norm.cluster_state import trackers_of
from midway.adaptation.batch_norm.replaced_statistics import observers_of, statistics_of
from midway.adaptation.batch_norm.statistics import uses_batch_statistics
from midway.adaptation.capture import end_undo
from midway.adaptation.checks import check_hyperparameters, check_images, has_gradient, is_logits, refuse_meta_default
from midway.adaptation.nonfinite import Fallback, NonFiniteError
from midway.adaptation.parameters import first_weight, refuse_half_precision
from midway.adaptation.precision import without_autocast_cache
from midway.adaptation.state import Stateful
from midway.functional import at_least_float32


class _Sealed(ABCMeta):
    """Records the hyper-parameters and the source state once the last constructor in the chain has returned."""

    @property
    def __signature__(cls) -> inspect.Signature:
        """What ``help`` and editors show: the arguments of the constructor, not those of ``__call__`` below."""
        constructor = inspect.signature(cls.__init__)  # type: ignore[misc]
        return constructor.replace(parameters=list(constructor.parameters.values())[1:])

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        with torch.inference_mode(False):
            refuse_meta_default()
            kwargs = {name: _without_numpy(value) for name, value in kwargs.items()}
            check_hyperparameters(cls, kwargs)
            method = super().__call__(*args, **kwargs)
            bound = inspect.signature(type(method).__init__).bind(method, *args, **kwargs)
            bound.apply_defaults()
            given = list(bound.arguments.items())[2:]  # without self and the model
            method._given = {name: _described(value) for name, value in given}
            for observer in observers_of(method):  # of all its networks
                observer.managed = True
            if (statistics := statistics_of(method)) is not None:
                method._given |= {"statistics": statistics}
            parameters = method.named_parameters(remove_duplicate=False)
            method._trainable = frozenset(name for name, parameter in parameters if parameter.requires_grad)
            method._source = method.snapshot()
        return method


class AdaptiveClassifier(Stateful, metaclass=_Sealed):
    """A classifier that adapts to the images it predicts: a ``Method``, or a wrapper around one.

    A call checks the images, adapts and returns logits. ``reset``, ``snapshot`` and ``state_dict`` are exact. New
    methods are subclasses of ``Method``, new wrappers of ``midway.adaptation.wrappers.Wrapper``.

    Attributes:
        about: The record for tables and listings.
        model: The copy of the network that adapts.
        fallback: The network that predicts in place of NaN or Inf; None raises NonFiniteError.

    Example:
        >>> import midway
        >>> adapted = midway.adapt(midway.models.create("resnet20"), "tent", wrap="episodic")
        >>> isinstance(adapted, midway.AdaptiveClassifier), isinstance(adapted, midway.Method)
        (True, False)
    """

    if TYPE_CHECKING:  # a method has a submodule of this name, a wrapper a property

        @property
        def model(self) -> nn.Module:
            """The network that adapts."""

    def __init__(self) -> None:
        super().__init__()
        self.fallback: Fallback | None = None
        self._checked_gradient = self._warned_of_single_image = False
        self.records: dict[str, Any] = self.add_state("records", {})

    @property
    @abstractmethod
    def memory_format(self) -> torch.memory_format:
        """The layout of the network and of its input."""

    @property
    @abstractmethod
    def hyperparameters(self) -> dict[str, Any]:
        """The constructor's arguments with their defaults, and the values chosen for those left at None."""

    @abstractmethod
    def num_trainable(self) -> int:
        """Return the number of weights that are adapted by gradients."""

    @abstractmethod
    def step(self, images: Tensor) -> Tensor:
        """Adapt to a batch of checked images and return its logits. Gradients are enabled."""

    @abstractmethod
    def network_logits(self, images: Tensor) -> Tensor:
        """Return f(x) of the network in its current state, without gradients."""

    @abstractmethod
    def _prepare(self, images: Tensor) -> Tensor:
        """Check before any change that the network accepts images of this shape, and convert their layout."""

    @property
    def adapts_to(self) -> int | None:
        """How many images after a reset are adapted to; None for all. Later ones cost a forward pass."""
        return None

    @property
    def takes_batches(self) -> bool:
        """Whether the images of a call are a batch; False if batches are formed from them in ``step``."""
        return True

    # ---- prediction --------------------------------------------------------------------------------------------------

    @final  # type: ignore[misc]
    def forward(self, images: Tensor) -> Tensor:
        """Adapt to float images (N, C, H, W) in [0, 1] and return detached logits (N, classes), at least float32.

        Methods whose ``about.accepts_signals`` is True also take signals (N, C, L) of any range. Images of another
        type, shape, device or range raise TypeError or ValueError, and a prediction with NaN or Inf raises
        NonFiniteError. The state is then unchanged. Calls from several threads run one after the other.
        """
        with self._lock:
            self._check_images(images)
            with torch.inference_mode(False), torch.enable_grad(), without_autocast_cache():
                images = images.as_subclass(Tensor).detach()
                images = self._prepare(images.clone() if images.is_inference() else images)
                self._restore_flags()
                if not self._checked_gradient and self.num_trainable():
                    self._check_gradient(images)
                self._checked_gradient = True
                return self._predict_or_undo(images)

    def adapt_to(self, images: Tensor) -> Tensor:
        """Take the step, in which replaced statistics treat these images as the batch, and record their kinds."""
        if not self.takes_batches:
            return self.step(images)
        with ExitStack() as batch:
            for observer in observers_of(self):
                batch.enter_context(observer.during(images))
            logits = self.step(images)
        for tracker in trackers_of(self):
            labels = tracker.labels()
            self.record(kinds=labels, num_kinds=len(set(labels)), outliers=tracker.num_outliers())
        return logits

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Restore a snapshot; during a batch, replaced statistics then begin the batch again."""
        super().restore(snapshot)
        for observer in observers_of(self):
            observer.restart_batch()

    def _predict_or_undo(self, images: Tensor) -> Tensor:
        """Adapt to checked images and return finite logits; if that fails, restore the state exactly."""
        before = self.begin_undo()
        try:
            logits = self.adapt_to(images)
            if not is_logits(logits, images):
                shown = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
                raise TypeError(
                    f"{type(self).__name__}.step must return logits ({len(images)}, classes) for {len(images)} images, "
                    f"it returned {shown}."
                )
            logits = at_least_float32(logits.detach())
            finite = bool(logits.isfinite().all())
        except BaseException as error:
            self.restore(before)
            if isinstance(error, RuntimeError | AssertionError):
                self._check_gradient(images, of_images=True, cause=error)
            raise
        else:
            return logits if finite else self._undo_nonfinite(images, logits, before)
        finally:
            end_undo(before)

    def _undo_nonfinite(self, images: Tensor, logits: Tensor, before: Mapping[str, Any]) -> Tensor:
        """Restore the state, and return the logits of the fallback; raise NonFiniteError if they are not finite."""
        self.restore(before)
        if self.fallback is not None:
            replacement = self.fallback.logits(images, self.memory_format)
            if replacement.isfinite().all():
                self.count("source_predictions")
                return replacement
        error = self._nonfinite_error(images, logits)
        self.restore(before)  # a forward pass may have changed buffers
        raise error

    def _nonfinite_error(self, images: Tensor, logits: Tensor) -> NonFiniteError:
        """Return an error that says which predictions are not finite and why: the weights, network or adaptation."""
        bad = (~logits.isfinite()).any(dim=1).nonzero().flatten().tolist()
        tensors = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        weight = next((name for name, value in tensors.items() if not value.isfinite().all()), None)
        if weight is not None:
            cause = f"{weight} of the network contains NaN or Inf: load other weights"
        elif not self.network_logits(images).isfinite().all():
            cause = "so does the network itself: check its layers and the images"
        else:
            cause = "the network itself does not: lower the step size, or reset the method"
        remedy = "" if self.fallback else '; midway.adapt(..., on_nonfinite="source") answers it with the source'
        return NonFiniteError(
            f"{self.about.title} answers {len(bad)} of {len(logits)} images with NaN or Inf, the first has index "
            f"{bad[0]}; {cause}. The state is as before this batch{remedy}."
        )

    # ---- checks ------------------------------------------------------------------------------------------------------

    def _check_images(self, images: Tensor) -> None:
        check_images(images, self.model, signals=self.about.accepts_signals)
        single_image = self.takes_batches and len(images) == 1 and statistics_of(self.model) is None
        single_image = single_image and uses_batch_statistics(self.model)
        if single_image and not self._warned_of_single_image:
            self._warned_of_single_image = True
            warnings.warn(
                f"{self.about.title} normalises with the statistics of the batch, and this batch is a single image: "
                'give larger batches, or statistics="clustered", which rely on the source and on earlier images.',
                stacklevel=5,  # the line that calls the method, through Module.__call__
            )

    def _check_gradient(self, images: Tensor, *, of_images: bool = False, cause: BaseException | None = None) -> None:
        """Refuse a network that cannot be differentiated with respect to its weights or to the images."""
        before = self.snapshot()
        try:
            differentiable = has_gradient(self.model, images[:2], of_images=of_images)
        finally:
            self.restore(before)
        if not differentiable:
            raise ValueError(
                f"the logits of the network carry no gradient{' of the images' if of_images else ''}, and "
                f"{self.about.title} adapts by gradients: remove detach(), no_grad() or quantisation from its forward "
                "pass, or use a method without gradients, such as bn, t3a or lame."
            ) from cause

    # ---- diagnostics -------------------------------------------------------------------------------------------------

    @property
    def diagnostics(self) -> dict[str, Any]:
        """What was recorded: values of the last batch, and counters since the last reset."""
        return dict(self.records)

    def record(self, **values: Any) -> None:
        """Write values into the diagnostics."""
        self.records |= values

    def count(self, event: str, times: int = 1) -> None:
        """Add to a counter in the diagnostics."""
        if times:
            self.records[event] = self.records.get(event, 0) + times

    # ---- behaviour as a module ---------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Set the flag only: the network keeps the mode that the method chose, so ``eval()`` changes no prediction."""
        self.training = mode
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Do nothing: the method decides what is trainable, and no gradient leaves it."""
        return self

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        if self.num_trainable():
            wanted = fn(torch.empty(0, device=first_weight(self, torch.empty(0)).device))
            refuse_half_precision({"the trainable part": nn.Parameter(wanted, requires_grad=False)})
        if self.fallback is not None:
            self.fallback.network._apply(fn)
        return super()._apply(fn, recurse)


def _without_numpy(value: Any) -> Any:
    """Replace scalars of NumPy by those of Python: a saved state has plain values."""
    if isinstance(value, tuple | list):
        return type(value)(map(_without_numpy, value))
    return value.item() if isinstance(value, np.generic) else value


def _described(value: Any) -> Any:
    """Replace a tensor or a network among the hyper-parameters by a description; the method has its own copy."""
    if isinstance(value, Tensor):
        return _TensorOf(tuple(value.shape))
    if isinstance(value, nn.Module) or hasattr(value, "unet"):  # a pipeline of diffusers
        return _NetworkOf(type(value).__name__)
    return value


@dataclass(frozen=True)
class _NetworkOf:
    """Replaces a network among the hyper-parameters."""

    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class _TensorOf:
    """Replaces a tensor among the hyper-parameters; the images themselves are not stored."""

    shape: tuple[int, ...]

    def __repr__(self) -> str:
        return f"tensor of {self.shape}"
