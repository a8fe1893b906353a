"""Tables as Markdown and LaTeX, and the headings of columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from midway.report.style import scenario_title, words
from midway.report.table import OURS, PAPER, Column, Table, Value


def headings(columns: Sequence[Column]) -> list[tuple[str, str]]:
    """Return two headings for each column, as short as they can be while they differ.

    Example:
        >>> from midway.report import Column
        >>> from midway.report.markup import headings
        >>> from midway.streams import Scenario
        >>> fog = Scenario.parse("pure:fog")
        >>> headings([Column(fog, "fog"), Column(fog, "fog", "nll"), Column(None, "average", "mce")])
        [('pure', 'fog'), ('pure', 'fog, NLL'), ('average', 'mCE')]
    """
    several = len({column.metric for column in columns if column.scenario is not None}) > 1
    short = []
    for column in columns:
        lower = column.group.replace("_", " ")
        if column.scenario is None:
            lower = column.metric_title
        elif several and column.metric != "accuracy":
            lower = f"{lower}, {column.metric_title}"
        short.append((column.group if column.scenario is None else column.scenario.kind, lower))
    origins = [column.origin for column in columns]
    seen = Counter(zip(short, origins, strict=True))
    return [
        (column.stream, lower) if seen[(upper, lower), column.origin] > 1 else (upper, lower)
        for column, (upper, lower) in zip(columns, short, strict=True)
    ]


def to_markdown(table: Table) -> str:
    """Return a table as Markdown, labels down and columns across.

    Example:
        >>> from midway.report import Column, Table, Value, to_markdown
        >>> from midway.streams import Scenario
        >>> columns = (Column(Scenario.parse("pure:fog"), "fog", images=200),)
        >>> print(to_markdown(Table("Fog", columns, (("tent", (Value(70.5, best=True),)),))))
        | method | pure: fog (200) |
        | --- | ---: |
        | tent | **70.50** |
        <BLANKLINE>
    """
    heads = [
        f"{upper}: {lower}{f', {c.origin}' if c.origin else ''}{'' if c.images is None else f' ({c.images})'}"
        for c, (upper, lower) in zip(table.columns, headings(table.columns), strict=True)
    ]
    rows = [
        [label, *("-" if value is None else f"**{value}**" if value.best else str(value) for value in values)]
        for label, values in table.rows
    ]
    return markdown_table(["method", *heads], rows) + markdown_notes(table.notes)


def to_brief_markdown(table: Table) -> str:
    """Return a table as Markdown with scenarios down and labels across, one decimal, the paper's numbers in brackets.

    Example:
        >>> from midway.report import Column, Table, Value, beside_paper, to_brief_markdown
        >>> from midway.streams import Scenario
        >>> columns = (Column(Scenario.parse("pure:fog"), "fog"),)
        >>> ours = Table("Fog", columns, (("source", (Value(60.0, best=True),)), ("tent", (Value(59.0),))))
        >>> table = beside_paper(ours, lambda label, *_: {"source": 73.98}.get(label))
        >>> print(to_brief_markdown(table))
        | | source | tent |
        | --- | ---: | ---: |
        | pure: fog | **60.0** (74.0) | 59.0 |
        <BLANKLINE>
    """
    indices = {(column.stream, column.group, column.metric, column.origin): i for i, column in enumerate(table.columns)}
    rows = []
    ours = [column for column in table.columns if column.origin in (OURS, "")]
    for stream, run in groupby(ours, key=lambda column: column.stream):
        columns = list(run)
        title = "averages" if columns[0].scenario is None else scenario_title(columns[0].scenario)
        if len(columns) > 1:
            rows.append([f"*{title}*", *[""] * len(table.rows)])
        for column in columns:
            index = indices[stream, column.group, column.metric, column.origin]
            paper = indices.get((stream, column.group, column.metric, PAPER))
            values = [_brief(values[index], None if paper is None else values[paper]) for _, values in table.rows]
            name = column.metric_title if column.scenario is None else words(column.group)
            rows.append([name if len(columns) > 1 else title, *values])
    return markdown_table(["", *(label for label, _ in table.rows)], rows) + markdown_notes(table.notes)


def _brief(ours: Value | None, paper: Value | None) -> str:
    if ours is None:
        return "-"
    number = f"{ours.mean:.1f}{'' if ours.spread is None else f' ± {ours.spread:.1f}'}"
    marked = f"**{number}**" if ours.best else f"{number}{'*' if ours.below_source else ''}"
    return marked if paper is None else f"{marked} ({paper.mean:.1f}{'*' if paper.below_source else ''})"


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[int] = (0,)) -> str:
    """Return rows of text as a Markdown table.

    Args:
        heads: The headings.
        rows: The cells of each row.
        left: Indices of columns that are aligned to the left; the others hold numbers.

    Example:
        >>> from midway.report.markup import markdown_table
        >>> print(markdown_table(["", "tent"], [["fog", "70.5"]]))
        | | tent |
        | --- | ---: |
        | fog | 70.5 |
        <BLANKLINE>
    """
    marks = ["---" if index in left else "---:" for index in range(len(heads))]
    lines = [heads, marks, *rows]
    return "".join(f"|{''.join(_markdown_cell(text) for text in line)}\n" for line in lines)


def _markdown_cell(text: str) -> str:
    return f" {text.replace('|', '&#124;')} |" if text else " |"


def markdown_notes(notes: Iterable[str]) -> str:
    """Return notes as paragraphs."""
    return "".join(f"\n{note[0].upper()}{note[1:]}.\n" for note in notes)


def to_latex(tables: Sequence[Table]) -> str:
    r"""Return tables for LaTeX with the booktabs package: the best bold, a star where Source is better.

    Example:
        >>> from midway.report import Column, Table, Value, to_latex
        >>> from midway.streams import Scenario
        >>> fog = Scenario.parse("pure:fog")
        >>> columns = (Column(fog, "fog", origin="ours"), Column(fog, "fog", origin="paper"))
        >>> table = Table("Fog", columns, (("tent", (Value(70.5, best=True), Value(60.0, below_source=True))),))
        >>> print(to_latex([table]))
        % needs \usepackage{booktabs}
        \begin{table}
        \centering
        \caption{Fog}
        \begin{tabular}{lrr}
        \toprule
         & \multicolumn{2}{c}{pure:fog} \\
        \cmidrule(lr){2-3}
         & \multicolumn{2}{c}{fog} \\
        \cmidrule(lr){2-3}
        method & ours & paper \\
        \midrule
        tent & \textbf{70.50} & 60.00${\ast}$ \\
        \bottomrule
        \end{tabular}
        \end{table}
        <BLANKLINE>
    """
    return "% needs \\usepackage{booktabs}\n" + "\n".join(map(_latex_table, tables))


def _latex_table(table: Table) -> str:
    lower = {column: heads[1] for column, heads in zip(table.columns, headings(table.columns), strict=True)}
    origins = any(column.origin for column in table.columns)
    last = [column.origin if origins else lower[column] for column in table.columns]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex('. '.join([table.title, *table.notes]))}}}",
        rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        r"\toprule",
        *_latex_spans(table.columns, lambda column: column.stream),
        *(_latex_spans(table.columns, lower.__getitem__) if origins else []),
        _latex_row("method", map(_latex, last)),
        r"\midrule",
        *(_latex_row(_latex(label), map(_latex_value, values)) for label, values in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_spans(columns: Sequence[Column], heading_of: Callable[[Column], str]) -> list[str]:
    """Return a row of headings, each above the neighbouring columns of one stream that share it, and its rules."""
    heads, rules, first = [], [], 2
    for (_, heading), run in groupby(columns, key=lambda column: (column.stream, heading_of(column))):
        width = len(list(run))
        heads.append(rf"\multicolumn{{{width}}}{{c}}{{{_latex(heading)}}}")
        rules.append(rf"\cmidrule(lr){{{first}-{first + width - 1}}}")
        first += width
    return [_latex_row("", heads), " ".join(rules)]


def _latex_row(first: str, cells: Iterable[str]) -> str:
    return " & ".join([first, *cells]) + r" \\"


def _latex_value(value: Value | None) -> str:
    if value is None:
        return "--"
    shown = rf"\textbf{{{value.number}}}" if value.best else value.number
    spread = "" if value.spread is None else rf" $\pm$ {value.spread:.{value.digits}f}"
    return shown + spread + (r"${\ast}$" if value.below_source else "")


_LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def _latex(text: str) -> str:
    return "".join(_LATEX_SPECIAL.get(character, character) for character in " ".join(text.split()))
