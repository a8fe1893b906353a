"""What all figures share: sizes, fonts, legends, ticks, images as tiles, and files."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from midway._files import write_atomically
from midway.report.tidy import PlotStyle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

COLUMN, PAGE = 3.4, 7.0
"""Widths in inches of one column of a printed page, and of the page."""

GREY, INK = "#777777", "#1c1e22"

Picture = NDArray[np.float32]
"""An image (H, W, 3) in [0, 1]."""

RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # part of matplotlib: the same picture on every machine
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": GREY,
    "ytick.color": GREY,
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
    "text.parse_math": False,  # a dollar sign in a label is a dollar sign
    "svg.fonttype": "path",  # readers need no fonts
    "svg.hashsalt": "midway",  # the same figure gives the same bytes
    "pdf.fonttype": 42,
}

_MARKER_SCALE = {"*": 1.9, "P": 1.15, "X": 1.15, "h": 1.15}

P = ParamSpec("P")
R = TypeVar("R")


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Run a function that draws with the fonts and sizes of this module, without changing matplotlib's own."""

    @functools.wraps(draw)
    def drawing(*args: P.args, **kwargs: P.kwargs) -> R:
        import matplotlib  # slow to import

        with matplotlib.rc_context(RC):  # type: ignore[arg-type]
            return draw(*args, **kwargs)

    return drawing


def new_figure(width: float, height: float, *, padding: tuple[float, float] | None = None) -> Figure:
    """Return an empty figure of a size in inches whose parts do not overlap.

    With padding, horizontal and vertical inches around each part, there is no other space.

    Example:
        >>> from midway.report.figures import new_figure
        >>> new_figure(4, 3).get_size_inches().tolist()
        [4.0, 3.0]
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    if padding is None:
        return Figure(figsize=(width, height), layout="constrained")
    engine = ConstrainedLayoutEngine(w_pad=padding[0], h_pad=padding[1], wspace=0, hspace=0)
    return Figure(figsize=(width, height), layout=engine)


def line_style(style: PlotStyle) -> dict[str, Any]:
    """Return the arguments of matplotlib's ``plot`` for the line of a method."""
    return {
        "color": style.colour,
        "marker": style.marker,
        "linestyle": (0, style.dash) if style.dash else "-",
        "markersize": RC["lines.markersize"] * _MARKER_SCALE.get(style.marker, 1),
        "markeredgewidth": 0.5,
        "markeredgecolor": "white",
        "label": style.title,
    }


def annotate(axes: Axes, text: str, xy: tuple[Any, Any], offset: tuple[float, float], **more: Any) -> Annotation:
    """Write a text at an offset in points from a position in data coordinates."""
    return axes.annotate(text, xy, offset, textcoords="offset points", **({"fontsize": 7} | more))


def bar_style(style: PlotStyle) -> dict[str, Any]:
    """Return the arguments of matplotlib's ``bar`` for the bars of a method."""
    return {"color": style.colour, "hatch": style.hatch, "edgecolor": "white", "linewidth": 0, "label": style.title}


def set_log_ticks(axes: Axes, values: Iterable[float]) -> None:
    """Put plain numbers at the powers of ten of a logarithmic axis, and at 2 and 5 if the values span little."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    values = list(values)
    wide = max(values, default=1) / min(values, default=1) > 30
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=20))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def legend_below(figure: Figure, axes: Axes) -> None:
    """Put the legend of some axes below a figure, in rows of about equal length that fit its width."""
    handles, labels = axes.get_legend_handles_labels()
    columns = legend_columns(len(labels))
    while columns > 1 and _legend_width(labels, columns) > figure.get_figwidth():
        columns -= 1
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, columnspacing=1.4, handlelength=2.4)


def legend_columns(entries: int) -> int:
    """Return the number of columns, at most seven, at which the rows of a legend are about equally long."""
    rows = max(1, -(-entries // 7))
    return max(1, -(-entries // rows))


def _legend_width(labels: Sequence[str], columns: int) -> float:
    """Return the width of a legend in inches; its entries fill one column after the other."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    size = float(RC["legend.fontsize"])
    rows = -(-len(labels) // columns)
    widths = [TextPath((0, 0), label, size=size, prop=FontProperties()).get_extents().width for label in labels]
    around = size * (2.4 + 0.8 + 1.4)  # the handle, the gap after it, the gap to the next column
    return sum(max(widths[start : start + rows]) + around for start in range(0, len(labels), rows)) / 72


def to_picture(image: Tensor) -> Picture:
    """Turn an image (C, H, W) into a picture; a single channel becomes grey."""
    clamped = image.detach().float().cpu().clamp(0, 1)
    return np.ascontiguousarray(clamped.expand(3, *clamped.shape[1:]).permute(1, 2, 0).numpy())


def draw_tile(axes: Axes, picture: Picture) -> None:
    """Draw a picture without ticks, frame or interpolation."""
    axes.imshow(picture, interpolation="nearest", vmin=0, vmax=1)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


_WITHOUT_DATE = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {"Software": None}}

_NOT_IN_XML = bytes({*range(32)} - {*b"\t\n\r"})


@styled
def save(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as SVG, PDF and PNG to a path without a suffix; the same figure gives the same bytes."""
    written = []
    for suffix, metadata in _WITHOUT_DATE.items():
        drawn = io.BytesIO()
        figure.savefig(drawn, format=suffix[1:], dpi=200, metadata=metadata)
        content = drawn.getvalue()
        if suffix == ".svg":  # texts are comments in it, and XML has no control characters
            content = content.translate(None, delete=_NOT_IN_XML)
        written.append(write_atomically(path.with_name(path.name + suffix), content))
    return written
