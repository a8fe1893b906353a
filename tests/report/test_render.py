"""Tables in the terminal, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from midway.bench import Record
from midway.data import corruption_names
from midway.report import (
    Column,
    Frame,
    Row,
    Table,
    Value,
    export,
    fit_width,
    frame,
    pivot,
    to_csv,
    to_json,
    to_latex,
    to_markdown,
    to_rich,
)
from midway.report.paper import paper_table
from midway.streams import Scenario

Made = Callable[..., Record]
PAIR, FOG = Scenario.parse("outlier:a_x/b@0.5"), Scenario.parse("pure:fog")
TABLE = Table(
    "50 % of A & B",
    (
        Column(PAIR, "a_x", images=50, origin="ours"),
        Column(PAIR, "a_x", origin="paper"),
        Column(PAIR, "a_x", origin="diff."),
        Column(FOG, "fog", images=200, origin="ours"),
    ),
    (
        ("source", (Value(52.0), Value(50.0, True), Value(2.0, signed=True), Value(1 / 3, spread=0.125))),
        ("we_ird|~^\\{1}", (Value(40.0, False, True, 1.5), None, None, Value(60.0, True))),
    ),
    ("a note with 5 % and ± 1",),
)


def printed(table: Table, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(to_rich(table))
    return out.getvalue()


def test_latex_escapes_spans_and_marks() -> None:
    lines = to_latex([TABLE]).splitlines()
    assert lines[0] == r"% needs \usepackage{booktabs}"
    assert lines[3] == r"\caption{50 \% of A \& B. a note with 5 \% and $\pm$ 1}"
    assert lines[4] == r"\begin{tabular}{lrrrr}"
    assert lines[6] == r" & \multicolumn{3}{c}{outlier:a\_x/b@0.5} & \multicolumn{1}{c}{pure:fog} \\"
    assert lines[7] == r"\cmidrule(lr){2-4} \cmidrule(lr){5-5}"
    assert lines[8] == r" & \multicolumn{3}{c}{a x} & \multicolumn{1}{c}{fog} \\"
    assert lines[10] == r"method & ours & paper & diff. & ours \\"
    assert lines[12] == r"source & 52.00 & \textbf{50.00} & +2.00 & 0.33 $\pm$ 0.12 \\"
    weird = r"we\_ird|\textasciitilde{}\textasciicircum{}\textbackslash{}\{1\}"
    assert lines[13] == weird + r" & 40.00 $\pm$ 1.50${\ast}$ & -- & -- & \textbf{60.00} \\"
    assert [line.count("&") for line in lines[10:14] if "&" in line] == [4, 4, 4]


def test_without_origins_the_groups_are_above_the_numbers() -> None:
    plain = Table("t", (Column(FOG, "fog", images=200),), (("tent", (Value(1.0),)),))
    assert r"method & fog \\" in to_latex([plain])


def test_csv_has_one_line_a_number_in_full_precision() -> None:
    lines = list(csv.DictReader(io.StringIO(to_csv([TABLE]))))
    assert len(lines) == 6
    assert {line["table"] for line in lines} == {"50 % of A & B"}
    assert float(lines[3]["value"]) == 1 / 3
    assert lines[3]["spread"] == "0.125"
    assert lines[4] == {
        "table": "50 % of A & B",
        "label": "we_ird|~^\\{1}",
        "scenario": "outlier:a_x/b@0.5",
        "group": "a_x",
        "metric": "accuracy",
        "origin": "ours",
        "images": "50",
        "value": "40.0",
        "spread": "1.5",
        "best": "False",
        "below_source": "True",
    }


def test_json_holds_the_whole_table() -> None:
    content = json.loads(to_json([TABLE, TABLE]))
    assert len(content) == 2
    assert content[0]["title"] == TABLE.title
    columns = [Column(**(each | {"scenario": Scenario.parse(each["scenario"])})) for each in content[0]["columns"]]
    assert columns == list(TABLE.columns)
    rows = tuple(
        (row["label"], tuple(None if value is None else Value(**value) for value in row["values"]))
        for row in content[0]["rows"]
    )
    assert rows == TABLE.rows
    assert content[0]["notes"] == list(TABLE.notes)
    empty = Table("t", TABLE.columns[:1], (("x", (Value(float("nan")),)),))
    assert json.loads(to_json([empty]))[0]["rows"][0]["values"][0]["mean"] is None


def test_markdown_names_origins_and_keeps_its_columns() -> None:
    lines = to_markdown(TABLE).splitlines()
    assert (
        lines[0]
        == "| method | outlier: a x, ours (50) | outlier: a x, paper | outlier: a x, diff. | pure: fog, ours (200) |"
    )
    assert lines[2] == "| source | 52.00 | **50.00** | +2.00 | 0.33 ± 0.12 |"
    assert lines[3] == "| we_ird&#124;~^\\{1} | 40.00 ± 1.50* | - | - | **60.00** |"


def test_headings_are_as_short_as_they_can_be_while_they_differ(made: Made) -> None:
    scenarios = ("mixture:fog/snow@0.5", "mixture:fog/frost@0.5#3")
    table = pivot(frame([*(made("bn", text, 50.0, 50.0, 50.0) for text in scenarios), made("bn", "pure:fog", 40.0)]))
    assert to_markdown(table).splitlines()[0] == (
        "| method | mixture:fog/snow@0.5: fog (500) | mixture: snow (500) | mixture:fog/snow@0.5: all (1000) "
        "| mixture:fog/frost@0.5#3: fog (500) | mixture: frost (500) | mixture:fog/frost@0.5#3: all (1000) "
        "| pure: fog (500) |"
    )
    assert "…" not in printed(table)


def test_the_terminal_table_fits_eighty_columns(made: Made) -> None:
    pair = "outlier:glass_blur/gaussian_noise@0.005"
    records = [made("source", pair, 50.0, 20.0, 20.15), made("tent", pair, 0.0, 70.0, 69.65)]
    text = printed(pivot(frame(records)))
    assert "gaussian" in text
    assert "…" not in text
    assert "0.00*" in text


@pytest.mark.parametrize(("width", "parts"), [(60, 17), (80, 17), (120, 8), (170, 5)])
def test_tables_fit_the_terminal(width: int, parts: int) -> None:
    rows = tuple(
        Row(label, Scenario("pure", (name,)), name, 0, "accuracy", 60.0)
        for label in ("source", "tea_equal_budget")
        for name in corruption_names("benchmark")
    )
    fitting = fit_width(paper_table(Frame(rows, "source"), data="cifar10c", title="Pure"), width)
    assert len(fitting) <= parts
    assert sum(len(part.columns) for part in fitting) == 3 * 17
    for part in fitting:
        text = printed(part, width)
        assert "…" not in text
        assert max(map(len, text.splitlines())) <= width


def test_brackets_are_no_markup() -> None:
    columns = (Column(FOG, "fog"),)
    text = printed(
        Table("[/usr/lib]", columns, (("[red]x[/red]", (Value(1.0),)),), ("[enforce fail at x.cpp:1]",)), 100
    )
    assert "[/usr/lib]" in text
    assert "[enforce fail" in text
    assert "[red]x[/red]" in text


def test_the_suffix_names_the_format(tmp_path: Path) -> None:
    for suffix, start in {".md": "## 50 %", ".csv": "table,label", ".tex": "% needs", ".json": "[\n"}.items():
        path = tmp_path / "new" / f"table{suffix}"
        export([TABLE], path)
        assert path.read_text().startswith(start)
    with pytest.raises(ValueError, match=r"unknown table format '\.mdx': did you mean '\.md'"):
        export([TABLE], tmp_path / "table.mdx")
