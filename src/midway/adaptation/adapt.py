"""``midway.adapt``: a method by name, with statistics, a wrapper or a preset (a named set of hyper-parameters)."""

from __future__ import annotations

import tomllib
import warnings
from functools import cache
from importlib import resources
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from midway._suggest import unknown
from midway.adaptation.batch_norm.by_name import BY_NAME, with_statistics
from midway.adaptation.batch_norm.replaced_statistics import statistics_of
from midway.adaptation.classifier import AdaptiveClassifier
from midway.adaptation.nonfinite import Fallback
from midway.adaptation.registry import FOR_EVERY_METHOD, ON_NONFINITE, STATISTICS, VIEWS, WRAP, find, hyperparameters
from midway.adaptation.wrappers import WRAPPERS, read_wrapper
from midway.adaptation.wrappers.mirrored import Mirrored

PRESETS = ("published", "printed", "tuned")


def adapt(model: nn.Module, method: str | None = None, **settings: Any) -> AdaptiveClassifier:
    """Wrap a classifier in a method by name, or in the method that does best over all kinds of streams.

    Args:
        model: Any classifier from images in [0, 1] to logits. It is copied, never changed.
        method: A name that ``midway methods`` lists. None: BN with clustered statistics. A network without BatchNorm is
            left as it is, with a warning. ``docs/recommend.md`` says why; ``midway.recommend`` chooses by your images.
        **settings: Hyper-parameters of the method; the others keep their defaults. Every method also accepts ``wrap``,
            a wrapper (``"episodic"``, ``"guarded"``, ``"periodic"``, ``"window"`` or ``"window(size=64)"``; see
            ``midway.Episodic`` and others), and ``views="mirror"`` (see ``midway.Mirrored``). All but MEMO, TTT, DUA,
            NOTE, RoTTA, DELTA and BN with a prior accept ``statistics``: ``"clustered"``, ``"clustered-batch"`` without
            memory (see ``midway.clustered``), ``"alpha"`` (alpha-BN), and ``"unmix"`` or ``"unmix-128"`` (UnMix-TNS
            with 16 or 128 components). All accept ``preset="published"``, MITA ``preset="printed"``, and methods that
            were searched ``preset="tuned"`` (see ``midway.methods.preset``). If a prediction contains NaN or Inf, the
            state is restored to that before the batch, and a ``NonFiniteError`` is raised. With
            ``on_nonfinite="source"``, the network as given predicts the batch instead, and
            ``diagnostics["source_predictions"]`` counts such batches.

    Example:
        >>> import midway
        >>> midway.adapt(midway.models.create("resnet20"), "tent", lr=1e-4)
        Tent(CifarResNet, optimizer=None, lr=0.0001, betas=(0.9, 0.999), steps=1, predict='before', loss='entropy')
        >>> midway.adapt(midway.models.create("resnet20"))
        BN(CifarResNet, prior=0, statistics='clustered')
    """
    if method is None:
        method, defaults = default_method(model)
        settings = defaults | settings
    known = {*hyperparameters(method), *FOR_EVERY_METHOD}
    settings = with_preset(method, settings)
    for name in settings:
        if name not in known:
            raise TypeError(unknown(f"hyper-parameter of {method}", name, known))
    wrap = settings.pop(WRAP, None)
    wrapper, of_wrapper = (None, {}) if wrap is None else read_wrapper(str(wrap))
    statistics = settings.pop(STATISTICS, None)
    if statistics is not None and (not isinstance(statistics, str) or statistics not in BY_NAME):
        raise ValueError(
            f"statistics must be {', '.join(map(repr, BY_NAME))}, or None for the method's own, got {statistics!r}."
        )
    on_nonfinite = settings.pop(ON_NONFINITE, None)
    if on_nonfinite not in (None, "raise", "source"):
        raise ValueError(f"on_nonfinite must be 'raise' (the default) or 'source', got {on_nonfinite!r}.")
    given = model
    if statistics is not None and not isinstance(model, AdaptiveClassifier):  # the method refuses an adapted model
        model = with_statistics(model, statistics)
    mirrored = settings.get(VIEWS) == "mirror"
    if mirrored or VIEWS not in hyperparameters(method):  # MEMO has a number of views
        views = settings.pop(VIEWS, None)
        if not mirrored and views is not None:
            raise ValueError(f"views must be 'mirror', or None for the image alone, got {views!r}.")
    inner = find(method)(model, **settings)
    adapted = Mirrored(inner) if mirrored else inner
    outermost = adapted if wrapper is None else WRAPPERS[wrapper](adapted, **of_wrapper)
    if on_nonfinite == "source":
        outermost.fallback = Fallback(given, adapted.memory_format)
    return outermost


def default_method(model: nn.Module) -> tuple[str, dict[str, Any]]:
    """Return the method and the settings that ``adapt`` uses if no method is named."""
    if not isinstance(model, nn.Module) or statistics_of(model) is not None:
        return "bn", {}
    if any(isinstance(layer, _BatchNorm) for layer in model.modules()):
        return "bn", {STATISTICS: "clustered"}
    warnings.warn(
        "the network has no BatchNorm layer, and no method was better than Source on one: it stays as it is. "
        "Name a method, such as sar, or let midway.recommend choose by your images.",
        stacklevel=3,
    )
    return "source", {}


def preset(method: str, name: str) -> dict[str, Any]:
    """Return the hyper-parameters of a method in a preset.

    Args:
        method: Name of the method.
        name: ``"published"``, the hyper-parameters of the published code (``docs/methods.md`` lists those that differ
            from the defaults, and why); ``"printed"``, those of the paper's algorithms as printed, where the code
            differs (MITA only); or ``"tuned"``, the best values of a search with the same number of trials for every
            method on the same stream of CIFAR-10 (``docs/tuning.md``), for problems of that size and streams of about
            fifty batches.

    Example:
        >>> from midway.methods import preset
        >>> preset("tent", "published"), sorted(preset("tent", "tuned"))
        ({}, ['lr', 'steps'])
    """
    if name not in PRESETS:
        raise ValueError(unknown("preset", str(name), PRESETS))
    if name == "published":
        published = find(method).published
        if not published and not find(method).__module__.startswith("midway."):
            raise ValueError(f"{method} has no published settings: its class may have some, published = {{...}}.")
        return dict(published)
    if name == "printed":
        if (printed := find(method).printed) is None:
            raise ValueError(f'{method} has no preset "printed", which is of mita: use "published".')
        return dict(printed)
    tuned = _tuned()
    if method not in tuned:
        raise ValueError(
            f"there are no tuned hyper-parameters of {method}: only {', '.join(tuned)} were searched; omit preset for "
            f"its defaults, or search with `midway tune {method}`."
        )
    return dict(tuned[method])


def with_preset(method: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Replace ``preset`` by the hyper-parameters in it; those given explicitly take precedence."""
    given = {key: value for key, value in settings.items() if key != "preset"}
    return given if settings.get("preset") is None else {**preset(method, settings["preset"]), **given}


@cache
def _tuned() -> dict[str, dict[str, Any]]:
    return tomllib.loads(resources.files("midway.adaptation").joinpath("tuned.toml").read_text(encoding="utf-8"))
