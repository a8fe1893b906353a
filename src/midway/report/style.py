"""Names, order and colours of methods and scenarios in tables, pages and figures; they follow from the registries."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from midway import methods
from midway.streams import Scenario
from midway.streams.scenario import SEVERITY

# Colour on white, colour on a dark page, marker. After Okabe and Ito, and Tol: colour-blind readers can distinguish
# them; the few that are similar differ in marker. The first colours are for the registered methods in their order.
PALETTE = (
    ("#6e6e6e", "#a8a8a8", "o"),
    ("#3a9bd9", "#7cc7f2", "s"),
    ("#0059a0", "#5b9fe8", "^"),
    ("#44aa99", "#5cc2b1", "v"),
    ("#d68f00", "#f0b429", "X"),
    ("#117733", "#5dbb7a", "D"),
    ("#999933", "#c2c25a", "P"),
    ("#7a4a2b", "#c39b7b", "<"),
    ("#aa4499", "#d588c8", ">"),
    ("#332288", "#9a8ee8", "d"),
    ("#cc6677", "#e58f9d", "p"),
    ("#882255", "#d9739f", "h"),
    ("#d55e00", "#ff8f45", "*"),
)
SPARE = (
    ("#000000", "#ffffff", "8"),
    ("#5f6b2d", "#b5c46e", "H"),
    ("#00797a", "#58cfd0", "8"),
    ("#a6261d", "#f08a80", "H"),
    ("#7f5fa8", "#c3aee6", "8"),
)
TINTS = (0.2, 0.27, 0.34, 0.41, 0.48)
"""Shares of white in the colours of variants of a method."""

PATTERNS: tuple[tuple[tuple[float, ...], str], ...] = (
    ((), ""),
    ((4.0, 1.5), "////"),
    ((1.5, 1.2), "...."),
    ((5.0, 1.5, 1.5, 1.5), "\\\\\\\\"),
    ((7.0, 2.0), "----"),
    ((1.5, 2.5), "xxxx"),
    ((7.0, 1.5, 1.5, 1.5, 1.5, 1.5), "||||"),
    ((3.0, 3.0), "++++"),
)
"""Dash and hatch: those of a method, then those of its variants."""


@dataclass(frozen=True)
class PlotStyle:
    """How a method is drawn and named.

    Attributes:
        title: Its name in figures and pages.
        colour: The colour on white.
        colour_on_dark: The colour on a dark page.
        marker: The marker, by matplotlib's name.
        dash: Lengths of dashes and gaps; empty for a solid line.
        hatch: The hatch of its bars, by matplotlib's name; empty for none.
    """

    title: str
    colour: str
    colour_on_dark: str
    marker: str
    dash: tuple[float, ...] = ()
    hatch: str = ""


def plot_styles(labels: Mapping[str, str]) -> dict[str, PlotStyle]:
    """Return the style of every label, in the order of the registry of methods.

    The colour depends on the label alone: a method has the same colour everywhere, and its variants have tints of it.
    Labels with similar colours differ in dash and hatch.

    Args:
        labels: Label -> name of its method.

    Example:
        >>> from midway.report.style import plot_styles
        >>> styles = plot_styles({"tent_slow": "tent", "tent": "tent", "source": "source"})
        >>> [(style.title, style.colour) for style in styles.values()]
        [('Source', '#6e6e6e'), ('TENT', '#0059a0'), ('TENT slow', '#699dc7')]
    """
    known = [*methods.names(), *sorted(set(labels.values()) - set(methods.names()))]
    ordered = sorted(labels, key=lambda label: (known.index(labels[label]), label != labels[label], label))
    used: dict[str, set[int]] = {}  # colour before tinting -> indices of patterns
    styles: dict[str, PlotStyle] = {}
    for label in ordered:
        name = labels[label]
        index = known.index(name)
        built_in = name in methods.names() and index < len(PALETTE)
        colour, on_dark, marker = PALETTE[index] if built_in else SPARE[_hash(name, len(SPARE))]
        white, pattern = 0.0, 0
        if label != name:
            variant = _hash(label, len(TINTS))
            white, pattern = TINTS[variant], variant + 1
        taken = used.setdefault(colour, set())
        turns = [*range(pattern, len(PATTERNS)), *range(1, pattern)]
        pattern = next((each for each in turns if each not in taken), pattern)
        taken.add(pattern)
        dash, hatch = ((4.0, 2.0), "") if label == "source" else PATTERNS[pattern]
        styles[label] = PlotStyle(
            method_title(label, name), _tint(colour, white), _tint(on_dark, white), marker, dash, hatch
        )
    return styles


def method_title(label: str, name: str) -> str:
    """Return the title of a label: the title of its method and what the label adds.

    Example:
        >>> from midway.report.style import method_title
        >>> method_title("tea_equal_budget", "tea"), method_title("my tent", "tent")
        ('TEA equal budget', 'my tent')
        >>> method_title("tent (lr=0.1)", "tent"), method_title("tea(steps=4)", "tea")
        ('TENT (lr=0.1)', 'TEA(steps=4)')
    """
    if name not in methods.names() or not (label == name or label.startswith((f"{name}_", f"{name} (", f"{name}("))):
        return label
    added = label.removeprefix(name)
    return methods.find(name).about.title + (added.replace("_", " ") if added.startswith("_") else added)


def words(name: str) -> str:
    """Return the name of a shift or a group as plain words.

    Example:
        >>> from midway.report.style import words
        >>> words("jpeg_compression"), words("glass_blur")
        ('JPEG compression', 'glass blur')
    """
    return name.replace("_", " ").replace("jpeg", "JPEG")


def scenario_title(scenario: Scenario) -> str:
    """Return a scenario as plain words.

    Example:
        >>> from midway.report.style import scenario_title
        >>> from midway.streams import Scenario
        >>> [scenario_title(Scenario.parse(text)) for text in ("outlier:glass_blur/fog@0.005", "pure:fog#3")]
        ['outlier: 0.5% glass blur in fog', 'pure: fog, severity 3']
    """
    shifts = list(map(words, scenario.shifts))
    severity = "" if scenario.severity == SEVERITY else f", severity {scenario.severity}"
    if scenario.kind in ("outlier", "mixture"):
        return f"{scenario.kind}: {100 * (scenario.amount or 0):.3g}% {shifts[0]} in {shifts[1]}{severity}"
    listed = ", ".join(shifts) if len(shifts) < 4 else f"{len(shifts)} shifts"
    amount = "" if scenario.amount is None else f" ({scenario.amount:g})"
    return f"{scenario.kind}: {listed}{amount}{severity}"


def _hash(text: str, below: int) -> int:
    """Return the same integer for the same text on every machine."""
    return (zlib.crc32(text.encode()) >> 16) % below


def _tint(colour: str, white: float) -> str:
    parts = [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
    return "#" + "".join(f"{round(part + (255 - part) * white):02x}" for part in parts)
