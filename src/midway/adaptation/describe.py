"""What the methods say of themselves, as plain data for lists and documents."""

from __future__ import annotations

import inspect
import re

from midway.adaptation.base import Method
from midway.adaptation.presets import preset
from midway.adaptation.problem import CIFAR_SIZE, IMAGENET_SIZE
from midway.adaptation.registry import find, hyperparameters, names

COLUMNS = (
    "name",
    "method",
    "paper",
    "paradigm",
    "uses other images",
    "aligns each image",
    "moves",
    "answer",
    "passes a batch",
    "needs",
)


def overview() -> list[dict[str, str]]:
    """Return one row a method: the paper's comparison of paradigms, what moves, what it costs and needs.

    Example:
        >>> from midway.adaptation.describe import overview
        >>> tent = overview()[2]
        >>> tent["method"], tent["paradigm"], tent["uses other images"], tent["aligns each image"]
        ('TENT', 'batch', 'yes', 'no')
    """
    rows = []
    for name in names():
        about = find(name).about
        values = (
            name,
            about.title,
            about.paper,
            about.paradigm,
            "yes" if about.uses_other_images else "no",
            "yes" if about.aligns_each_image else "no",
            about.moves,
            about.answers,
            about.passes,
            ", ".join(about.needs) or "-",
        )
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def overview_markdown() -> str:
    """Return the overview as a Markdown table."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *(tuple(row.values()) for row in overview())]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def summary_of(method: type[Method]) -> str:
    """Return what a method's docstring says before its arguments."""
    return re.split(r"^(?:Paper: .*|(?:Args|Example):)$", _docstring(method), maxsplit=1, flags=re.MULTILINE)[0].strip()


def arguments_of(method: type[Method]) -> dict[str, str]:
    """Return what a method's docstring says of each argument, on one line.

    Example:
        >>> from midway import methods
        >>> from midway.adaptation.describe import arguments_of
        >>> arguments_of(methods.Tent)["steps"]
        'Updates a batch (the paper: 1).'
    """
    found = re.search(r"^Args:\n((?:    .*\n|\n)+)", _docstring(method) + "\n", flags=re.MULTILINE)
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", found.group(1), flags=re.MULTILINE) if found else []
    return {name: re.sub(r"\s+", " ", text) for name, text in entries}


def defaults_of(name: str) -> dict[str, str]:
    """Return a method's defaults, as code; where they follow the size of the problem, those for the usual ones.

    Example:
        >>> from midway.adaptation.describe import defaults_of
        >>> defaults_of("eata")["redundancy"]
        '0.4 (CIFAR-10), 0.1 (CIFAR-100), 0.05 (ImageNet)'
    """
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
    """Return what a search found for a method (``preset="tuned"``), short enough to read; nothing if there was none.

    Example:
        >>> from midway.adaptation.describe import tuned_of
        >>> tuned_of("memo")
        {}
    """
    try:
        found = preset(name, "tuned")
    except ValueError:
        return {}
    return {key: f"{value:.2g}" if isinstance(value, float) else repr(value) for key, value in found.items()}


def _docstring(method: type[Method]) -> str:
    return inspect.cleandoc(method.__doc__ or "").replace("``", "")
