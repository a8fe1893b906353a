"""Our numbers beside the paper's, with the difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from rich.console import Console
from rich.measure import Measurement

from midway.report.labels import stream_title, words
from midway.report.tables import Cell, Column, Table, to_rich
from midway.significance import summarise

OURS, PAPER, DIFFERENCE = "ours", "paper", "diff."
LOWER_IS_BETTER = frozenset({"mCE"})
AVERAGES = "pure:all"
"""What tables call the averages over the pure streams."""

Published = Callable[[str, str, str], float | None]
"""The paper's number for a method, a stream and a group; None where it reports none."""


@dataclass(frozen=True)
class Measured:
    """One number of ours.

    Attributes:
        method: What the table calls the method.
        stream: Name of the stream.
        group: Name of the group, ``"all"``, or an average.
        value: Accuracy in percent, or whatever the group says.
        seed: Which repetition this is; the table shows mean and spread over seeds.
        images: How many images it was measured on.
    """

    method: str
    stream: str
    group: str
    value: float
    seed: int = 0
    images: int | None = None


def side_by_side(
    title: str,
    measured: Iterable[Measured],
    published: Published,
    *,
    notes: Sequence[str] = (),
    source: str = "source",
) -> Table:
    """Set our means over seeds beside the paper's numbers: three columns for each stream and group.

    In our columns and in the paper's alike, the best is bold and a star marks what falls below Source, as in the paper.
    Where the paper has nothing to a column at all, the column is ours alone.

    Args:
        title: What this table is.
        measured: Our numbers, in the order that rows and columns shall have.
        published: Where to look up the paper's.
        notes: What to say below.
        source: What our unadapted network is called.

    Example:
        >>> from midway.report.side_by_side import Measured, side_by_side
        >>> ours = [Measured("source", "pure:fog", "fog", 60.0), Measured("tent", "pure:fog", "fog", 59.0)]
        >>> paper = {"source": 73.98, "tent": 86.30}
        >>> table = side_by_side("Fog", ours, lambda method, stream, group: paper[method])
        >>> [(method, [str(cell) for cell in cells]) for method, cells in table.rows]
        [('source', ['60.00', '73.98', '-13.98']), ('tent', ['59.00*', '86.30', '-27.30'])]
    """
    by_place: dict[tuple[str, str, str], dict[int, Measured]] = {}
    for number in measured:
        seeds = by_place.setdefault((number.method, number.stream, number.group), {})
        if number.seed in seeds:
            raise ValueError(f"{number.method} on {number.stream}, {number.group}: seed {number.seed} is there twice.")
        seeds[number.seed] = number
    methods = list(dict.fromkeys(method for method, _, _ in by_place))
    columns: list[Column] = []
    cells: dict[str, list[Cell | None]] = {method: [] for method in methods}
    for stream, group in dict.fromkeys((stream, group) for _, stream, group in by_place):
        ours = {
            method: summarise([number.value for number in by_place[method, stream, group].values()])
            for method in methods
            if (method, stream, group) in by_place
        }
        images = {n.images for m in methods for n in by_place.get((m, stream, group), {}).values()}
        columns.append(Column(stream, group, images.pop() if len(images) == 1 else None, OURS))
        lower = group in LOWER_IS_BETTER
        spreads = {method: summary.spread for method, summary in ours.items()}
        means = {method: summary.mean for method, summary in ours.items()}
        _append(cells, _marked(means, lower, spreads, source))
        theirs = {method: value for method in methods if (value := published(method, stream, group)) is not None}
        if theirs:
            columns += [Column(stream, group, None, PAPER), Column(stream, group, None, DIFFERENCE)]
            _append(cells, _marked(theirs, lower, {}, "source"))
            both = [method for method in methods if method in means and method in theirs]
            _append(cells, {method: Cell(means[method] - theirs[method], signed=True) for method in both})
    return Table(title, tuple(columns), tuple((m, tuple(row)) for m, row in cells.items()), tuple(notes))


def _append(cells: dict[str, list[Cell | None]], column: Mapping[str, Cell]) -> None:
    for method, row in cells.items():
        row.append(column.get(method))


def _marked(
    values: Mapping[str, float], lower: bool, spreads: Mapping[str, float | None], source: str
) -> dict[str, Cell]:
    """Mark the best of a column and what does worse than Source; to two decimals, as the table shows them."""
    sign = -1 if lower else 1
    ranked = {method: sign * round(value, 2) for method, value in values.items()}
    best, least = max(ranked.values(), default=0.0), ranked.get(source, float("-inf"))
    return {
        method: Cell(value, ranked[method] == best, ranked[method] < least, spreads.get(method))
        for method, value in values.items()
    }


def to_brief_markdown(table: Table) -> str:
    """Write a table with streams down and methods across: our number to one decimal, the paper's in brackets.

    Example:
        >>> from midway.report.side_by_side import Measured, side_by_side, to_brief_markdown
        >>> ours = [Measured("source", "pure:fog", "fog", 60.0), Measured("tent", "pure:fog", "fog", 59.0)]
        >>> table = side_by_side("Fog", ours, lambda method, *_: {"source": 73.98}.get(method))
        >>> print(to_brief_markdown(table))
        | | source | tent |
        | --- | ---: | ---: |
        | pure: fog | **60.0** (74.0) | 59.0* |
        <BLANKLINE>
    """
    methods = [method.replace("|", "&#124;") for method, _ in table.rows]
    lines = [f"| | {' | '.join(methods)} |", f"| --- |{' ---: |' * len(methods)}"]
    places = {(column.stream, column.group, column.kind): place for place, column in enumerate(table.columns)}
    ours = [column for column in table.columns if column.kind == OURS]
    for stream, of_stream in groupby(ours, key=lambda column: column.stream):
        columns = list(of_stream)
        if len(columns) > 1:
            lines.append(f"| *{_title(stream)}* |{' |' * len(methods)}")
        for column in columns:
            place = places[stream, column.group, OURS]
            beside = places.get((stream, column.group, PAPER))
            cells = [_brief(cells[place], None if beside is None else cells[beside]) for _, cells in table.rows]
            heading = words(column.group) if len(columns) > 1 else _title(stream)
            lines.append(f"| {heading} | {' | '.join(cells)} |")
    notes = [f"\n{note[0].upper()}{note[1:]}." for note in table.notes]
    return "\n".join([*lines, *notes]) + "\n"


def _title(stream: str) -> str:
    return "averages" if stream == AVERAGES else stream_title(stream).replace("|", "&#124;")


def _brief(ours: Cell | None, theirs: Cell | None) -> str:
    if ours is None:
        return "-"
    spread = "" if ours.spread is None else f" ± {ours.spread:.1f}"
    number = f"{ours.value:.1f}{spread}"
    marked = f"**{number}**" if ours.best else f"{number}{'*' if ours.below_source else ''}"
    return marked if theirs is None else f"{marked} ({theirs.value:.1f}{'*' if theirs.below_source else ''})"


def split_columns(table: Table, *, at_most: int = 9) -> list[Table]:
    """Cut a wide table into tables of a few columns, never within a group; a table of one stream is named after it.

    Streams stay whole too, if they fit.

    Example:
        >>> from midway.report.side_by_side import split_columns
        >>> from midway.report.tables import Cell, Column, Table
        >>> columns = tuple(Column(f"pure:{name}", name, 200) for name in ("fog", "snow", "frost"))
        >>> wide = Table("Weather", columns, (("tent", (Cell(1.0), Cell(2.0), Cell(3.0))),))
        >>> [(part.title, len(part.columns)) for part in split_columns(wide, at_most=2)]
        [('Weather', 2), ('Weather, pure:frost', 1)]
    """
    return _split(table, [1.0] * len(table.columns), at_most)


def fit_width(table: Table, width: int) -> list[Table]:
    """Cut a table into tables that fit so many characters of a terminal.

    Example:
        >>> from midway.report.side_by_side import fit_width
        >>> from midway.report.tables import Cell, Column, Table
        >>> columns = tuple(Column(f"pure:{name}", name, 200) for name in ("fog", "snow", "frost"))
        >>> wide = Table("Weather", columns, (("tent", (Cell(1.0), Cell(2.0), Cell(3.0))),))
        >>> [len(fit_width(wide, width)) for width in (80, 24)]
        [1, 2]
    """
    endless = Console(width=10_000)

    def measure(places: Sequence[int]) -> int:
        bare = replace(_part(table, places, last=True), title="", notes=())
        return Measurement.get(endless, endless.options, to_rich(bare)).maximum

    methods = measure([])
    return _split(table, [measure([place]) - methods for place in range(len(table.columns))], width - methods)


def _split(table: Table, sizes: Sequence[float], limit: float) -> list[Table]:
    """Put neighbouring streams, or groups of a stream that is too large, together until they would exceed a limit."""

    def size(places: Sequence[int]) -> float:
        return sum(sizes[place] for place in places)

    blocks: list[list[int]] = []
    for _, of_stream in groupby(range(len(table.columns)), key=lambda place: table.columns[place].stream):
        stream = list(of_stream)
        if size(stream) <= limit:
            blocks.append(stream)
        else:
            blocks += [list(places) for _, places in groupby(stream, key=lambda place: table.columns[place].group)]
    parts: list[list[int]] = []
    for block in blocks:
        if parts and size(parts[-1]) + size(block) <= limit:
            parts[-1] += block
        else:
            parts.append(block)
    return [_part(table, places, last=number == len(parts) - 1) for number, places in enumerate(parts)]


def _part(table: Table, places: Sequence[int], *, last: bool) -> Table:
    columns = tuple(table.columns[place] for place in places)
    streams = {column.stream for column in columns}
    title = f"{table.title}, {streams.pop()}" if len(streams) == 1 else table.title
    rows = [(method, tuple(cells[place] for place in places)) for method, cells in table.rows]
    kept = tuple((method, cells) for method, cells in rows if any(cells) or not cells)
    return replace(table, title=title, columns=columns, rows=kept, notes=table.notes if last else ())
