"""Tables that a reader can sort and filter; every string is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from statistics import fmean

from midway.bench import Result
from midway.report.figures.style import Look
from midway.report.labels import stream_title, words
from midway.report.side_by_side import AVERAGES, LOWER_IS_BETTER
from midway.report.tables import Cell, Column, Table

_FIRST = '<th scope="col" aria-sort="none"><button type="button"><span>method</span></button></th>'

Fact = str | tuple[float, str] | None
"""Of a table of facts: a text as HTML, a number to sort by and how it is written, or nothing."""


def to_html(table: Table, looks: Mapping[str, Look] | None = None, *, source: str = "source") -> str:
    """Write a table of accuracies as HTML: headings sort, cells are shaded by what they gain over Source.

    Args:
        table: What to write.
        looks: Titles and colours of the methods; their labels stand there if left out.
        source: Label of the unadapted network.

    Example:
        >>> from midway.report import to_html
        >>> from midway.report.tables import Cell, Column, Table
        >>> table = Table("Fog", (Column("pure:fog", "fog", 200),), (("tent", (Cell(70.5, best=True),)),))
        >>> '<td data-column="0" data-value="70.5" class="best">70.50</td>' in to_html(table)
        True
    """
    unadapted = next((cells for label, cells in table.rows if label == source), None)
    largest = _largest_gain(table, unadapted)
    counts = {column.images for column in table.columns if column.images is not None}
    named = {column.stream for column in table.columns} - {AVERAGES}
    single = not _grouped(table.columns)
    told = len(named) == 1 and all(stream_title(stream).lower() in table.title.lower() for stream in named)
    streams, groups, place = [], [], 0
    for stream, run in groupby(table.columns, key=lambda column: column.stream):
        columns = list(run)
        kind, _, rest = _stream(stream).partition(": ")
        alone = len(columns) == 1 and not told and stream != AVERAGES  # its group is what its name says
        found = f"{stream} {' '.join(column.group for column in columns)}"
        streams.append(
            f'<th scope="colgroup" colspan="{len(columns)}" data-first="{place}" data-span="{len(columns)}" '
            f'title="{escape(found)}">{escape(kind if alone else _stream(stream))}</th>'
        )
        for column in columns:
            name = words(column.group)
            if alone:
                name = rest or (stream if single else name)
            groups.append(_heading(place, column, name, counted=len(counts) > 1))
            place += 1
    rows = []
    for label, cells in table.rows:
        shown = []
        for number, (column, cell) in enumerate(zip(table.columns, cells, strict=True)):
            gain = _gain(column, cell, unadapted[number] if unadapted is not None else None)
            shown.append(_cell(number, cell, None if gain is None else max(-1.0, min(1.0, gain / largest))))
        rows.append(f"<tr {_method(label)}>{_name(label, looks)}{''.join(shown)}</tr>")
    said = [*table.notes, *(f"{count:,} images a column" for count in counts if len(counts) == 1)]
    above = "" if single or told else f'<tr><td class="corner"></td>{"".join(streams)}</tr>'
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">'
        f'<table class="sortable"><caption>{escape(table.title)}</caption><thead>'
        f"{above}<tr>{_FIRST}{''.join(groups)}</tr>"
        f"</thead><tbody>{''.join(rows)}</tbody></table></div>{notes_below(said)}"
    )


def notes_below(notes: Sequence[str]) -> str:
    """Write what is said below a table."""
    listed = "".join(f"<li>{escape(note[:1].upper() + note[1:])}.</li>" for note in notes)
    return f'<ul class="notes">{listed}</ul>' if notes else ""


def facts(about: str, heads: Sequence[str], rows: Sequence[Sequence[Fact]], *, labels: Sequence[str] = ()) -> str:
    """Write a table of texts and numbers whose headings sort; empty if there are no rows.

    Args:
        about: What the table is, for readers who do not see it.
        heads: The headings, HTML as all texts here.
        rows: What stands in each; the first is a text.
        labels: Of the methods that the rows are about, if they are: the page hides those that are not wanted.

    Example:
        >>> from midway.report.html.tables import facts
        >>> table = facts("Change", ["method", "points", "significant?"], [["MITA", (1.5, "+1.50"), "yes"]])
        >>> '<td data-value="1.5">+1.50</td><td class="text">yes</td>' in table
        True
    """
    if not rows:
        return ""
    shown = "".join(
        f'<th scope="col" aria-sort="none" {_kind(place, column)}>'
        f'<button type="button"><span>{head}</span></button></th>'
        for place, (head, column) in enumerate(zip(heads, zip(*rows, strict=True), strict=True))
    )
    body = "".join(
        f'<tr{f" {_method(label)}" if labels else ""}><th scope="row">{row[0]}</th>{"".join(map(_fact, row[1:]))}</tr>'
        for label, row in zip(labels or [""] * len(rows), rows, strict=True)
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(about)}"><table class="sortable">'
        f"<thead><tr>{shown}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def cards(shown: Sequence[tuple[str, str, str]]) -> str:
    """Write the few figures that answer the question: a heading, the figure and a detail each, as HTML.

    Example:
        >>> from midway.report.html.tables import cards
        >>> cards([("Best", "MITA", "80.0 %")]).count("<dd")
        2
    """
    listed = "".join(
        f'<div class="card"><dt>{head}</dt><dd class="figure">{figure}</dd><dd><small>{detail}</small></dd></div>'
        for head, figure, detail in shown
    )
    return f'<dl class="cards">{listed}</dl>'


def _kind(place: int, column: Sequence[Fact]) -> str:
    return 'class="text"' if all(isinstance(fact, str) for fact in column) else f'data-column="{place}"'


def _fact(fact: Fact) -> str:
    if fact is None:
        return '<td class="none">-</td>'
    if isinstance(fact, str):
        return f'<td class="text">{fact}</td>'
    value, written = fact
    return f'<td data-value="{value!r}">{written}</td>'


def _grouped(columns: Sequence[Column]) -> bool:
    """Tell whether a stream has several columns; averages are no stream."""
    streams = [column.stream for column in columns if column.stream != AVERAGES]
    return len(set(streams)) < len(streams)


def _stream(stream: str) -> str:
    return "average" if stream == AVERAGES else stream_title(stream)


def _heading(place: int, column: Column, name: str, *, counted: bool) -> str:
    kind = f"<br>{escape(column.kind)}" if column.kind not in ("", "ours") else ""
    images = f"<small>{column.images:,} images</small>" if counted and column.images is not None else ""
    return (
        f'<th scope="col" aria-sort="none" data-column="{place}" '
        f'data-words="{escape(f"{column.stream} {stream_title(column.stream)} {column.group}".lower())}">'
        f'<button type="button"><span>{escape(name)}{kind}</span>{images}</button></th>'
    )


def _method(label: str) -> str:
    return f'data-method="{escape(label)}"'


def _name(label: str, looks: Mapping[str, Look] | None) -> str:
    if looks is None or label not in looks:
        return f'<th scope="row">{escape(label)}</th>'
    return (
        f'<th scope="row"><span class="swatch" data-swatch="{escape(label)}"></span>{escape(looks[label].title)}</th>'
    )


def _cell(number: int, cell: Cell | None, gain: float | None) -> str:
    if cell is None:
        return f'<td data-column="{number}" class="none">-</td>'
    names = " ".join(name for name, on in (("best", cell.best), ("below", cell.below_source)) if on)
    kind = f' class="{names}"' if names else ""
    shade = f' style="--gain:{round(100 * gain)}%"' if gain is not None and gain > 0 else ""
    shade = f' style="--loss:{round(-100 * gain)}%"' if gain is not None and gain < 0 else shade
    spread = "" if cell.spread is None else f"<small>±{cell.spread:.2f}</small>"
    star = '<abbr title="below Source">*</abbr>' if cell.below_source else ""
    number_shown = f"{cell.value:+.2f}" if cell.signed else f"{cell.value:.2f}"
    return f'<td data-column="{number}" data-value="{cell.value!r}"{kind}{shade}>{number_shown}{star}{spread}</td>'


def _gain(column: Column, cell: Cell | None, source: Cell | None) -> float | None:
    if cell is None:
        return None
    if cell.signed:
        return cell.value
    if source is None:
        return None
    return (source.value - cell.value) if column.group in LOWER_IS_BETTER else cell.value - source.value


def _largest_gain(table: Table, source: tuple[Cell | None, ...] | None) -> float:
    gains = [
        abs(gain)
        for _, cells in table.rows
        for number, (column, cell) in enumerate(zip(table.columns, cells, strict=True))
        if column.group not in LOWER_IS_BETTER  # on another scale
        and (gain := _gain(column, cell, source[number] if source is not None else None)) is not None
    ]
    return max(gains, default=0) or 1


@dataclass(frozen=True)
class CostRow:
    """What a method costs and how far its confidence can be trusted: means over all its results.

    Attributes:
        label: What tables call it.
        values: Heading -> number; None where it was not measured.
    """

    label: str
    values: dict[str, float | None]


def cost_rows(results: Sequence[Result]) -> list[CostRow]:
    """Collect cost and calibration of every method.

    Example:
        >>> from midway.bench import Result
        >>> from midway.report.html.tables import cost_rows
        >>> rows = cost_rows([Result("bn", "bn", {}, "pure:fog", 8, 60.0, {}, {}, (), 0.5)])
        >>> rows[0].values["seconds a batch"], rows[0].values["GFLOPs an image"]
        (0.5, None)
    """
    rows = []
    source = [result.seconds_per_batch for result in results if result.is_unadapted]
    for label in dict.fromkeys(result.label for result in results):
        here = [result for result in results if result.label == label]

        def counted(name: str, here: Sequence[Result] = here) -> float | None:
            values = [value for result in here if (value := result.cost.get(name)) is not None]
            return fmean(values) if values else None

        seconds = fmean(result.seconds_per_batch for result in here)
        flops, batch = counted("flops_total"), counted("images")
        surprise = [r.negative_log_likelihood for r in here if r.negative_log_likelihood is not None]
        calibration = [r.calibration_error for r in here if r.calibration_error is not None]
        values = {
            "seconds a batch": seconds,
            "times Source": seconds / fmean(source) if source else None,
            "forward passes": counted("forward_passes"),
            "backward passes": counted("backward_passes"),
            "GFLOPs an image": None if flops is None or not batch else flops / batch / 1e9,
            "trainable parameters": counted("trainable_parameters"),
            "peak memory, MB": counted("peak_memory_mb"),
            "surprise, nats": fmean(surprise) if surprise else None,
            "calibration error, %": fmean(calibration) if calibration else None,
        }
        rows.append(CostRow(label, values))
    return rows


def cost_table(rows: Sequence[CostRow], looks: Mapping[str, Look]) -> str:
    """Write cost and calibration as a table whose headings sort."""
    heads = [head for head in rows[0].values if any(row.values[head] is not None for row in rows)] if rows else []
    shown_heads = "".join(
        f'<th scope="col" aria-sort="none" data-column="{place}" data-words="{escape(head)}">'
        f'<button type="button"><span>{escape(head)}</span></button></th>'
        for place, head in enumerate(heads)
    )
    body = []
    for row in rows:
        cells = []
        for place, head in enumerate(heads):
            value = row.values[head]
            if value is None:
                cells.append(f'<td data-column="{place}" class="none">-</td>')
            else:
                cells.append(f'<td data-column="{place}" data-value="{value!r}">{show_number(value)}</td>')
        body.append(f"<tr {_method(row.label)}>{_name(row.label, looks)}{''.join(cells)}</tr>")
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Cost and calibration"><table class="sortable">'
        "<caption>Cost and calibration, means over all streams and seeds</caption>"
        f"<thead><tr>{_FIRST}{shown_heads}</tr>"
        f"</thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def show_number(value: float) -> str:
    """Write a number with as many digits as one reads.

    Example:
        >>> from midway.report.html.tables import show_number
        >>> [show_number(value) for value in (0.0, 0.01234, 1.5, 23.456, 1824.0)]
        ['0', '0.012', '1.5', '23.5', '1,824']
    """
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1 else f"{value:.2g}"
