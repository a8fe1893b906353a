"""What results and streams are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from midway.bench import Result
from midway.report.standings import scenario_of
from midway.streams import SEVERITY


def tell_apart(results: Sequence[Result]) -> tuple[Result, ...]:
    """Add to a label the settings in which its results differ, where one label stands for several settings.

    A store may hold ``tent`` with two learning rates, from two plans: tables must not take them for two seeds.

    Example:
        >>> from midway.bench import Result
        >>> from midway.report.labels import tell_apart
        >>> def of(**settings):
        ...     return Result("tent", "tent", settings, "pure:fog", 8, 60.0, {}, {}, (), 0.1)
        >>> [result.label for result in tell_apart([of(lr=0.1, steps=1, seed=0), of(lr=0.2, steps=1, seed=1)])]
        ['tent (lr=0.1)', 'tent (lr=0.2)']
    """
    by_label: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        known = by_label.setdefault(result.label, [])
        if (settings := _settings(result)) not in known:
            known.append(settings)
    apart = []
    for result in results:
        known = by_label[result.label]
        names = dict.fromkeys(name for settings in known for name in settings)
        differing = [name for name in names if any(settings.get(name) != known[0].get(name) for settings in known)]
        mine = _settings(result)
        added = ", ".join(f"{name}={mine.get(name)}" if name else str(mine.get(name)) for name in differing)
        apart.append(replace(result, label=f"{result.label} ({added})") if added else result)
    return tuple(apart)


def _settings(result: Result) -> dict[str, Any]:
    """Return the method, which a wrapper changes, and its settings without the seed, which differs on purpose."""
    return {"": result.method} | {name: value for name, value in result.hyperparameters.items() if name != "seed"}


def words(name: str) -> str:
    """Write a name as people read it.

    Example:
        >>> from midway.report.labels import words
        >>> words("jpeg_compression"), words("glass_blur")
        ('JPEG compression', 'glass blur')
    """
    return name.replace("_", " ").replace("jpeg", "JPEG")


def stream_title(stream: str) -> str:
    """Write the name of a stream as people read it; names of the user's own stay as they are.

    Example:
        >>> from midway.report.labels import stream_title
        >>> stream_title("outlier:glass_blur/fog@0.005"), stream_title("pure:fog#3"), stream_title("Tuesday")
        ('outlier: 0.5% glass blur in fog', 'pure: fog, severity 3', 'Tuesday')
    """
    scenario = scenario_of(stream)
    if scenario is None:
        return stream
    shifts = list(map(words, scenario.shifts))
    strength = "" if scenario.severity == SEVERITY else f", severity {scenario.severity}"
    if scenario.kind in ("outlier", "mixture"):
        return f"{scenario.kind}: {100 * (scenario.amount or 0):.3g}% {shifts[0]} in {shifts[1]}{strength}"
    listed = ", ".join(shifts) if len(shifts) < 4 else f"{len(shifts)} shifts"
    number = "" if scenario.amount is None else f" ({scenario.amount:g})"
    return f"{scenario.kind}: {listed}{number}{strength}"
