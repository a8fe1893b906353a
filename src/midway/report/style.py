"""Names, order and colours of methods and scenarios in tables, pages and figures; they follow from the registries."""

from __future__ import annotations

import colorsys
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from midway.methods import find, names
from midway.report.tidy import Frame
from midway.streams import SEVERITY, Scenario

SPARE = (("#000000", "8"), ("#5f6b2d", "H"), ("#00797a", "8"), ("#a6261d", "H"), ("#7f5fa8", "8"))
"""Colours and markers of methods whose ``about`` declares none. Like the declared ones, they follow Okabe and Ito, and
Tol: colour-blind readers can distinguish them, and similar ones differ in marker."""

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

    A colour depends on the label and its method alone: a method has the colour and the marker that its ``about``
    declares, or else spare ones by its name, and its variants have tints of the colour. Labels with similar colours
    differ in dash and hatch.

    Args:
        labels: Label -> name of its method.

    Example:
        >>> from midway.report.style import plot_styles
        >>> styles = plot_styles({"tent_slow": "tent", "tent": "tent", "source": "source"})
        >>> [(style.title, style.colour) for style in styles.values()]
        [('Source', '#6e6e6e'), ('TENT', '#0059a0'), ('TENT slow', '#699dc7')]
    """
    known = [*names(), *sorted(set(labels.values()) - set(names()))]
    ordered = sorted(labels, key=lambda label: (known.index(labels[label]), label != labels[label], label))
    used: dict[str, set[int]] = {}  # colour before tinting -> indices of patterns
    styles: dict[str, PlotStyle] = {}
    for label in ordered:
        name = labels[label]
        colour, marker = _colour_and_marker(name)
        white, pattern = 0.0, 0
        if label != name:
            variant = _hash(label, len(TINTS))
            white, pattern = TINTS[variant], variant + 1
        taken = used.setdefault(colour, set())
        turns = [*range(pattern, len(PATTERNS)), *range(1, pattern)]
        pattern = next((each for each in turns if each not in taken), pattern)
        taken.add(pattern)
        dash, hatch = ((4.0, 2.0), "") if label == "source" else PATTERNS[pattern]
        tint = _tint(colour, white)
        styles[label] = PlotStyle(method_title(label, name), tint, _on_dark(tint), marker, dash, hatch)
    return styles


def frame_styles(frame: Frame) -> dict[str, PlotStyle]:
    """Return the style of every label of a frame; a label without a method counts as the name of one."""
    return plot_styles({label: frame.methods.get(label, label) for label in frame.unique("label")})


def method_title(label: str, name: str) -> str:
    """Return the title of a label: the title of its method and what the label adds.

    Example:
        >>> from midway.report.style import method_title
        >>> method_title("tea_equal_budget", "tea"), method_title("my tent", "tent")
        ('TEA equal budget', 'my tent')
        >>> method_title("tent (lr=0.1)", "tent"), method_title("tea(steps=4)", "tea")
        ('TENT (lr=0.1)', 'TEA(steps=4)')
    """
    if name not in names() or not (label == name or label.startswith((f"{name}_", f"{name} (", f"{name}("))):
        return label
    added = label.removeprefix(name)
    return find(name).about.title + (added.replace("_", " ") if added.startswith("_") else added)


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


def _colour_and_marker(name: str) -> tuple[str, str]:
    colour, marker = SPARE[_hash(name, len(SPARE))]
    if name not in names():
        return colour, marker
    about = find(name).about
    return about.colour or colour, about.marker or marker


def _tint(colour: str, white: float) -> str:
    return _hex(value + (1 - value) * white for value in _rgb(colour))


def _on_dark(colour: str) -> str:
    """Return a light colour of the same hue; the darker the given one, the lighter."""
    hue, lightness, saturation = colorsys.rgb_to_hls(*_rgb(colour))
    return _hex(colorsys.hls_to_rgb(hue, max(0.65, 1 - 0.8 * lightness, lightness), saturation))


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return red, green, blue


def _hex(values: Iterable[float]) -> str:
    return "#" + "".join(f"{round(255 * value):02x}" for value in values)
