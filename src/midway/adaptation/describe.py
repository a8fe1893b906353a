"""Descriptions of the methods as plain data, for listings and documents."""

from __future__ import annotations

import inspect
import re

from midway.adaptation.adapt import preset
from midway.adaptation.base import Method
from midway.adaptation.problem import CIFAR_SIZE, IMAGENET_SIZE
from midway.adaptation.registry import find, hyperparameters, names


def overview() -> list[dict[str, str]]:
    """Return one row for each method: the paper's comparison of paradigms, what adapts, cost and requirements."""
    rows = []
    for name in names():
        about = find(name).about
        rows.append(
            {
                "name": name,
                "method": about.title,
                "paper": about.paper,
                "paradigm": about.paradigm,
                "uses other images": "yes" if about.uses_other_images else "no",
                "aligns each image": "yes" if about.aligns_each_image else "no",
                "adapts": about.adapts,
                "predicts": about.predicts,
                "passes per batch": about.passes,
                "needs": ", ".join(about.needs) or "-",
            }
        )
    return rows


def overview_markdown() -> str:
    """Return the overview as a Markdown table."""
    rows = overview()
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def summary_of(method: type[Method]) -> str:
    """Return the part of a method's docstring before its arguments."""
    return re.split(r"^(?:Paper: .*|(?:Args|Example):)$", _docstring(method), maxsplit=1, flags=re.MULTILINE)[0].strip()


def arguments_of(method: type[Method]) -> dict[str, str]:
    """Return the description of each argument in a method's docstring, on one line."""
    match = re.search(r"^Args:\n((?:    .*\n|\n)+)", _docstring(method) + "\n", flags=re.MULTILINE)
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", match[1], flags=re.MULTILINE) if match else []
    return {name: re.sub(r"\s+", " ", text) for name, text in entries}


def defaults_of(name: str) -> dict[str, str]:
    """Return a method's defaults as code; for those that depend on the problem, the values for common data sets."""
    sizes = (CIFAR_SIZE, CIFAR_SIZE._replace(classes=100), IMAGENET_SIZE)
    few, many, large = (find(name).defaults_for(size) for size in sizes)
    defaults = {key: repr(value) for key, value in hyperparameters(name).items()}
    for key, value in few.items():
        if value == many[key]:
            defaults[key] = f"{value!r} (CIFAR-size), {large[key]!r} (ImageNet-size)"
        else:
            defaults[key] = f"{value!r} (CIFAR-10), {many[key]!r} (CIFAR-100), {large[key]!r} (ImageNet)"
    return defaults


def tuned_of(name: str) -> dict[str, str]:
    """Return the tuned hyper-parameters of a method (``preset="tuned"``), rounded; empty if there are none."""
    try:
        tuned = preset(name, "tuned")
    except ValueError:
        return {}
    return {key: f"{value:.2g}" if isinstance(value, float) else repr(value) for key, value in tuned.items()}


def _docstring(method: type[Method]) -> str:
    return inspect.cleandoc(method.__doc__ or "").replace("``", "")
