"""Predictions for a batch: complete and finite, or an error that leaves the state as it was before the batch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from midway.adaptation.batch_norm.replaced_statistics import observers_of
from midway.adaptation.checks import is_logits
from midway.adaptation.copies import in_evaluation_mode, independent_copy, without_parallel
from midway.adaptation.state import end_undo
from midway.functional import at_least_float32, free_energy
from midway.models.outputs import logits_of

if TYPE_CHECKING:
    from midway.adaptation.base import Method

OnNonfinite = Literal["raise", "source"]
"""What a method does if its prediction contains NaN or Inf."""


class NonFiniteError(ValueError):
    """The prediction for a batch contains NaN or Inf; the state is as before the batch."""


def answered(method: Method, images: Tensor) -> Tensor:
    """Let a method adapt to checked images and return its logits, detached and at least float32.

    If that fails, or if the logits are not finite, the state is restored exactly. Logits that are not finite raise
    NonFiniteError or, with ``on_nonfinite="source"``, are replaced by those of the source.
    """
    if not method.checked_gradient and method.num_trainable() and (reason := _without_gradient(method, images)):
        raise ValueError(reason)
    method.checked_gradient = True
    before = method.begin_undo()
    try:
        return _answered(method, images, before)
    finally:
        end_undo(before)


def _answered(method: Method, images: Tensor, before: Mapping[str, Any]) -> Tensor:
    """Return the logits, or restore the state from before the batch."""
    try:
        logits = method.adapt_to(images)
        if not is_logits(logits, images):
            shown = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise TypeError(
                f"{type(method).__name__}.step must return logits ({len(images)}, classes) for {len(images)} images, "
                f"it returned {shown}."
            )
    except BaseException as error:
        method.restore(before)
        if isinstance(error, RuntimeError | AssertionError) and (reason := _without_gradient(method, images, True)):
            raise ValueError(reason) from error
        raise
    logits = at_least_float32(logits.detach())
    if logits.isfinite().all():
        return logits
    method.restore(before)
    for source in method.fallback:
        source.to(memory_format=method.memory_format)  # type: ignore[call-overload]  # that of the images
        with torch.no_grad():
            answer = at_least_float32(logits_of(source(images)))
        if answer.isfinite().all():
            method.count("source_answers")
            return answer
    reason = _not_finite(method, images, logits)
    method.restore(before)  # a forward pass may have changed buffers
    raise NonFiniteError(reason)


def source_copy(model: nn.Module, method: Method) -> nn.Module:
    """Return a copy of a network as given, which predicts in place of a method."""
    source = in_evaluation_mode(independent_copy(without_parallel(model), method.memory_format)).requires_grad_(False)
    for observer in observers_of(source):  # it predicts with what it knows as given, and learns nothing
        observer.managed = True
    return source


def _without_gradient(method: Method, images: Tensor, by_images: bool = False) -> str:
    """Return why a network cannot be differentiated with respect to its weights or the images; empty if it can."""
    floating = [parameter for parameter in method.model.parameters() if parameter.is_floating_point()]
    weights = [parameter for parameter in floating if parameter.requires_grad]
    frozen = [] if weights else floating  # MEMO adapts copies of frozen weights
    few = images[:2].detach().clone().requires_grad_(by_images)
    before = method.snapshot()
    try:
        with warnings.catch_warnings(), torch.enable_grad():
            warnings.simplefilter("ignore")
            for parameter in frozen:
                parameter.requires_grad_()
            logits = logits_of(method.model(few))
            wanted = [few] if by_images else weights or frozen
            gradients = torch.autograd.grad(logits.sum(), wanted, allow_unused=True) if logits.requires_grad else ()
    except Exception:
        return ""  # for another reason, which the step will show
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)
        method.restore(before)
    if any(gradient is not None for gradient in gradients):
        return ""
    return (
        f"the logits of the network carry no gradient{' of the images' if by_images else ''}, and "
        f"{method.about.title} adapts by gradients: remove detach(), no_grad() or quantisation from its forward pass, "
        "or use a method without gradients, such as bn, t3a or lame."
    )


def _not_finite(method: Method, images: Tensor, logits: Tensor) -> str:
    """Return which predictions are not finite and why: the weights, the network, or the adaptation."""
    bad = (~logits.isfinite()).any(dim=1).nonzero().flatten().tolist()
    tensors = {**dict(method.model.named_parameters()), **dict(method.model.named_buffers())}
    weight = next((name for name, value in tensors.items() if not value.isfinite().all()), None)
    if weight is not None:
        cause = f"{weight} of the network contains NaN or Inf: load other weights"
    elif not method.network_logits(images).isfinite().all():
        cause = "so does the network itself: check its layers and the images"
    else:
        cause = "the network itself does not: lower the step size, or reset the method"
    remedy = "" if method.fallback else '; midway.adapt(..., on_nonfinite="source") answers it with the source'
    return (
        f"{method.about.title} answers {len(bad)} of {len(logits)} images with NaN or Inf, the first has index "
        f"{bad[0]}; {cause}. The state is as before this batch{remedy}."
    )


def warn_of_probabilities(logits: Tensor, stacklevel: int) -> bool:
    """Warn if the outputs of a network are probabilities, and return whether they are."""
    sums = logits.detach().float().sum(dim=1)
    tolerance = 1e-3 if logits.dtype in (torch.float32, torch.float64) else 2e-2
    if not (bool((logits >= 0).all()) and bool(((sums - 1).abs() <= tolerance).all())):
        return False
    warnings.warn(
        "the network returns probabilities (rows that are not negative and sum to one), and methods need logits: "
        "every entropy and energy would be wrong. Remove the softmax at its end, for example model[:-1] of a "
        "torch.nn.Sequential. (Without access to the network, probabilities.log() are logits for all methods but TEA, "
        "MITA and AEA.)",
        stacklevel=stacklevel + 1,
    )
    return True


def refuse_log_probabilities(method: Method, logits: Tensor) -> None:
    """Refuse a network whose outputs are log-probabilities for a method that adapts by the energy of images."""
    energies = free_energy(logits.detach().float())
    tolerance = 1e-4 if logits.dtype in (torch.float32, torch.float64) else 2e-2
    if method.about.uses_energy and bool((energies.abs() <= tolerance).all()):
        raise ValueError(
            f"the network returns log-probabilities, whose energy is 0 for every image, and {method.about.title} "
            "adapts by energies: return the logits themselves, without log_softmax."
        )
