"""One look for every figure: sizes, fonts, and a colour, marker and dash for every method, on paper and on screens."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from midway import methods

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from midway.bench import Result

COLUMN, PAGE = 3.4, 7.0
"""Widths in inches: one column of a printed page, and the page."""

FAINT, INK = "#777777", "#1c1e22"

RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same picture on every machine
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "grid.color": "#d0d0d0",
    "grid.linewidth": 0.4,
    "hatch.linewidth": 0.7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "text.parse_math": False,  # a dollar in a label is a dollar
    "svg.fonttype": "path",  # no fonts are needed to read it
    "svg.hashsalt": "midway",  # the same figure, the same bytes
    "pdf.fonttype": 42,
}


@dataclass(frozen=True)
class Look:
    """How a method is shown, in every figure.

    Attributes:
        title: What figures and pages call it.
        colour: On white.
        colour_on_dark: On a dark page.
        marker: As matplotlib names it: tells methods apart where colours do not.
        dash: Lengths of strokes and gaps; empty for a solid line.
        hatch: Of its bars, as matplotlib names it; empty for a plain one.
    """

    title: str
    colour: str
    colour_on_dark: str
    marker: str
    dash: tuple[float, ...] = ()
    hatch: str = ""


# After Okabe and Ito, and Tol: told apart by colour-blind readers; the few that are near each other differ in marker.
_COLOURS: dict[str, tuple[str, str, str]] = {
    "source": ("#6e6e6e", "#a8a8a8", "o"),
    "bn": ("#3a9bd9", "#7cc7f2", "s"),
    "tent": ("#0059a0", "#5b9fe8", "^"),
    "pl": ("#44aa99", "#5cc2b1", "v"),
    "eata": ("#117733", "#5dbb7a", "D"),
    "sar": ("#999933", "#c2c25a", "P"),
    "shot": ("#d68f00", "#f0b429", "X"),
    "tea": ("#882255", "#d9739f", "h"),
    "memo": ("#7a4a2b", "#c39b7b", "<"),
    "t3a": ("#aa4499", "#d588c8", ">"),
    "lame": ("#332288", "#9a8ee8", "d"),
    "dua": ("#cc6677", "#e58f9d", "p"),
    "mita": ("#d55e00", "#ff8f45", "*"),
}
_SPARE = (  # for other methods
    ("#000000", "#ffffff", "8"),
    ("#5f6b2d", "#b5c46e", "H"),
    ("#00797a", "#58cfd0", "8"),
    ("#a6261d", "#f08a80", "H"),
    ("#7f5fa8", "#c3aee6", "8"),
)
_TINTS = (0.2, 0.27, 0.34, 0.41, 0.48)  # shares of white in the colours of variants
_PATTERNS: tuple[tuple[tuple[float, ...], str], ...] = (  # dash and hatch: a method's own, then those of variants
    ((), ""),
    ((4.0, 1.5), "////"),
    ((1.5, 1.2), "...."),
    ((5.0, 1.5, 1.5, 1.5), "\\\\\\\\"),
    ((7.0, 2.0), "----"),
    ((1.5, 2.5), "xxxx"),
    ((7.0, 1.5, 1.5, 1.5, 1.5, 1.5), "||||"),
    ((3.0, 3.0), "++++"),
)

_BIGGER = {"*": 1.9, "P": 1.15, "X": 1.15, "h": 1.15}


def looks(labels: Mapping[str, str]) -> dict[str, Look]:
    """Give every entry of a comparison its look, in the order that figures have.

    The colour depends on the label alone: a method keeps its own everywhere, its variants have a tint of it. Entries
    whose colours are alike differ in dash and hatch.

    Args:
        labels: What tables call an entry -> the name of its method.

    Example:
        >>> from midway.report.figures.style import looks
        >>> shown = looks({"mita": "mita", "mita_same": "mita", "source": "source"})
        >>> [(look.title, look.colour) for look in shown.values()]
        [('Source', '#6e6e6e'), ('MITA', '#d55e00'), ('MITA same', '#dd7e33')]
    """
    known = [*methods.names(), *sorted(set(labels.values()) - set(methods.names()))]
    ordered = sorted(labels, key=lambda label: (known.index(labels[label]), label != labels[label], label))
    taken: dict[str, set[int]] = {}  # colour, before it is tinted -> patterns
    made: dict[str, Look] = {}
    for label in ordered:
        name = labels[label]
        colour, on_dark, marker = _COLOURS.get(name) or _SPARE[_number(name, len(_SPARE))]
        used = taken.setdefault(colour, set())
        white, pattern = 0.0, 0
        if label != name:
            number = _number(label, len(_TINTS))
            white, pattern = _TINTS[number], number + 1
        used.add(pattern := _next_free(pattern, used))
        dash, hatch = _PATTERNS[pattern]
        if label == "source":
            dash = (4.0, 2.0)
        made[label] = Look(title(label, name), _mixed(colour, white), _mixed(on_dark, white), marker, dash, hatch)
    return made


def looks_of(results: Iterable[Result]) -> dict[str, Look]:
    """Give every entry among results its look."""
    return looks({result.label: result.method for result in results})


def title(label: str, name: str) -> str:
    """Return what figures call an entry: the method's title, and what its label adds.

    Example:
        >>> from midway.report.figures.style import title
        >>> title("tea_equal_budget", "tea"), title("my tent", "tent")
        ('TEA equal budget', 'my tent')
        >>> title("tent (lr=0.1)", "tent"), title("tea(steps=4)", "tea")
        ('TENT (lr=0.1)', 'TEA(steps=4)')
    """
    if name not in methods.names() or not (label == name or label.startswith((f"{name}_", f"{name} (", f"{name}("))):
        return label
    added = label.removeprefix(name)
    return methods.find(name).about.title + (added.replace("_", " ") if added.startswith("_") else added)


def _number(text: str, below: int) -> int:
    """Return the same number for the same text on every machine."""
    return (zlib.crc32(text.encode()) >> 16) % below


def _next_free(pattern: int, used: set[int]) -> int:
    """Return a pattern or, if it is in use, the next one that is not; itself if all are."""
    turns = [*range(pattern, len(_PATTERNS)), *range(1, pattern)]
    return next((each for each in turns if each not in used), pattern)


def _mixed(colour: str, white: float) -> str:
    parts = [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
    return "#" + "".join(f"{round(part + (255 - part) * white):02x}" for part in parts)


P = ParamSpec("P")
R = TypeVar("R")


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Let a function draw in the look of the house."""

    @functools.wraps(draw)
    def drawing(*args: P.args, **kwargs: P.kwargs) -> R:
        import matplotlib  # slow to import, and pages do not need it

        with matplotlib.rc_context(RC):  # type: ignore[arg-type]
            return draw(*args, **kwargs)

    return drawing


def new_figure(width: float, height: float, *, padding: tuple[float, float] | None = None) -> Figure:
    """Return an empty figure whose parts keep clear of each other.

    Args:
        width: In inches.
        height: In inches.
        padding: Inches round each part, across and down, and nothing more between them; matplotlib's own if left out.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    if padding is None:
        return Figure(figsize=(width, height), layout="constrained")
    across, down = padding
    engine = ConstrainedLayoutEngine(w_pad=across, h_pad=down, wspace=0, hspace=0)
    return Figure(figsize=(width, height), layout=engine)


def line_style(look: Look) -> dict[str, Any]:
    """Return how a method's line is drawn, as matplotlib's ``plot`` takes it."""
    return {
        "color": look.colour,
        "marker": look.marker,
        "linestyle": (0, look.dash) if look.dash else "-",
        "markersize": RC["lines.markersize"] * _BIGGER.get(look.marker, 1),
        "markeredgewidth": 0.5,
        "markeredgecolor": "white",
        "label": look.title,
    }


def tick_by_decades(axes: Axes, values: Iterable[float]) -> None:
    """Put plain numbers at the powers of ten of a logarithmic axis, for values near each other also at 2 and 5."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    values = list(values)
    wide = max(values, default=1) / min(values, default=1) > 30
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=20))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def bar_style(look: Look) -> dict[str, Any]:
    """Return how a method's bars are drawn, as matplotlib's ``bar`` takes it."""
    return {"color": look.colour, "hatch": look.hatch, "edgecolor": "white", "linewidth": 0, "label": look.title}


def legend_below(figure: Figure, axes: Axes, most: int = 7) -> None:
    """Put the legend of some axes below a figure, in rows of equal length with at most so many entries, as fit."""
    handles, labels = axes.get_legend_handles_labels()
    columns = legend_columns(len(labels), most)
    while columns > 1 and _legend_width(labels, columns) > figure.get_figwidth():
        columns -= 1
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=columns,
        columnspacing=1.4,
        handlelength=2.4,
    )


def _legend_width(labels: Sequence[str], columns: int) -> float:
    """Measure a legend of so many columns, in inches; its entries go down the columns."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    size = float(RC["legend.fontsize"])
    rows = -(-len(labels) // columns)
    widths = [TextPath((0, 0), label, size=size, prop=FontProperties()).get_extents().width for label in labels]
    around = size * (2.4 + 0.8 + 1.4)  # the sample, the gap after it, the gap to the next column
    return sum(max(widths[start : start + rows]) + around for start in range(0, len(labels), rows)) / 72


def legend_columns(entries: int, most: int = 7) -> int:
    """Return how many columns a legend has so that its rows are about equally long.

    Example:
        >>> from midway.report.figures.style import legend_columns
        >>> [legend_columns(entries) for entries in (3, 7, 8, 16)]
        [3, 7, 4, 6]
    """
    rows = max(1, -(-entries // most))
    return max(1, -(-entries // rows))


ENDINGS = (".svg", ".pdf", ".png")


@styled
def save(figure: Figure, path: Path, *, dpi: int = 200) -> list[Path]:
    """Write a figure as SVG, PDF and PNG; the same figure gives the same bytes.

    Args:
        figure: What to write.
        path: Where, without an ending.
        dpi: Dots an inch of the PNG, and of pictures within the others.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.report.figures.style import new_figure, save
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [path.name for path in save(new_figure(1, 1), Path(folder) / "empty")]
        ['empty.svg', 'empty.pdf', 'empty.png']
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {"Software": None}}
    written = []
    for ending in ENDINGS:
        written.append(path.with_name(path.name + ending))
        figure.savefig(written[-1], dpi=dpi, metadata=undated[ending])
    return written
