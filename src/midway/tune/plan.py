"""The best settings as a plan for ``midway run``: defaults and tuned, on corruptions outside the search."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from midway.methods import find
from midway.streams import Scenario
from midway.streams.scenarios import nearest_whole
from midway.tune.result import StudyResult
from midway.tune.search import Search

HELD_OUT_SCENARIOS = (
    "pure:gaussian_noise",
    "pure:glass_blur",
    "pure:fog",
    "pure:jpeg_compression",
    "outlier:glass_blur/gaussian_noise@0.005",
    "outlier:elastic_transform/fog@0.005",
    "mixture:glass_blur/gaussian_noise@0.5",
    "mixture:elastic_transform/fog@0.5",
)
"""Streams that measure the gain: a noise, a blur, a weather and a digital corruption, and two pairs of the paper."""


def held_out_plan(search: Search, result: StudyResult) -> str:
    """Return the plan as TOML: the method with its defaults and with the best settings, once if they are equal.

    Args:
        search: The search; the plan has its network, data, images and seed.
        result: The result of the search.

    Raises:
        ValueError: No trial is complete.

    Example:
        >>> from midway.tune import Search, StudyResult, TrialRecord, held_out_plan
        >>> trials = (TrialRecord(0, "complete", {"lr": 0.001}, 70.0), TrialRecord(1, "complete", {"lr": 0.002}, 71.0))
        >>> plan = held_out_plan(Search(method="tent"), StudyResult("tent", "tent-0", {}, {"lr": 0.001}, trials, {}))
        >>> print(plan.splitlines()[-4:])
        ['[[method]]', 'name = "tent"', 'label = "tent, tuned"', 'lr = 0.002']
    """
    best, default = result.best, result.default
    against = "" if default is None else f", with the defaults {default.accuracy:.2f} %"
    lines = [
        f"# {search.method}, study {result.study}: trial {best.number} is the best of {len(result.trials)}.",
        f"# Mean accuracy over the {len(best.by_stream)} streams of the search: {best.accuracy:.2f} %{against}.",
        "# The search used none of the corruptions below: `midway run` with this file measures the gain.",
    ]
    if default is not None and best.settings == default.settings:
        lines.append("# The defaults are the best so far.")
    too_rare = [text for text in HELD_OUT_SCENARIOS if _lacks_first_shift(Scenario.parse(text), search.images)]
    if too_rare:
        lines.append(f"# With {search.images} images there are no outliers in {', '.join(too_rare)}: left out.")
    module = find(search.method).__module__
    plan: dict[str, Any] = {
        "import": None if module.partition(".")[0] == "midway" else module,
        "networks": search.network,
        "data": search.data,
        "root": search.root,
        "scenarios": [text for text in HELD_OUT_SCENARIOS if text not in too_rare],
        "seeds": search.seed,
        "batch_sizes": search.batch_size,
        "images": search.images,
        "precision": search.precision,
        "device": search.device,
        "threads": search.threads,
    }
    rows = {f"{search.method}, defaults": dict(search.held)}
    if default is None or best.settings != default.settings:
        rows[f"{search.method}, tuned"] = {**search.held, **best.settings}
    if any(value is None for settings in rows.values() for value in settings.values()):  # TOML has no None
        plan["methods"] = ", ".join(_call(search.method, settings | {"label": row}) for row, settings in rows.items())
    lines += [f"{key} = {to_toml(value)}" for key, value in plan.items() if value is not None]
    if "methods" not in plan:
        for row, settings in rows.items():
            table = {"name": search.method, "label": row, **settings}
            lines += ["", "[[method]]", *(f"{name} = {to_toml(value)}" for name, value in table.items())]
    return "\n".join(lines) + "\n"


def _lacks_first_shift(scenario: Scenario, images: int | None) -> bool:
    """Tell whether a stream of this many images would have none of its first shift."""
    return images is not None and scenario.amount is not None and nearest_whole(scenario.amount * images) == 0


def _call(method: str, settings: Mapping[str, Any]) -> str:
    return f"{method}({', '.join(f'{name}={value!r}' for name, value in settings.items())})"


def to_toml(value: Any) -> str:
    """Return a plain value as TOML.

    Raises:
        TypeError: TOML has no such value.

    Example:
        >>> from midway.tune import to_toml
        >>> to_toml(1e-5), to_toml("body"), to_toml((0.9, 2)), to_toml(True)
        ('1e-05', '"body"', '[0.9, 2]', 'true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(to_toml, value))}]"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    raise TypeError(f"TOML has no {value!r}.")
