from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from midway.report.exports import export, to_csv, to_json, to_latex
from midway.report.tables import Cell, Column, Table, to_markdown, to_rich

TABLE = Table(
    "50 % of A & B",
    (
        Column("outlier:a_x/b@0.5", "a_x", 50, "ours"),
        Column("outlier:a_x/b@0.5", "a_x", None, "paper"),
        Column("outlier:a_x/b@0.5", "a_x", None, "diff."),
        Column("pure:b", "b", 200, "ours"),
    ),
    (
        ("source", (Cell(52.0), Cell(50.0, True), Cell(2.0, signed=True), Cell(1 / 3, spread=0.125))),
        ("we_ird|~^\\{1}", (Cell(40.0, False, True, 1.5), None, None, Cell(60.0, True))),
    ),
    ("a note with 5 % and ± 1",),
)


def test_latex_escapes_spans_and_marks() -> None:
    lines = to_latex([TABLE]).splitlines()
    assert lines[0] == r"% needs \usepackage{booktabs}"
    assert lines[3] == r"\caption{50 \% of A \& B. a note with 5 \% and $\pm$ 1}"
    assert lines[4] == r"\begin{tabular}{lrrrr}"
    assert lines[6] == r" & \multicolumn{3}{c}{outlier:a\_x/b@0.5} & \multicolumn{1}{c}{pure:b} \\"
    assert lines[7] == r"\cmidrule(lr){2-4} \cmidrule(lr){5-5}"
    assert lines[8] == r" & \multicolumn{3}{c}{a x} & \multicolumn{1}{c}{b} \\"
    assert lines[10] == r"method & ours & paper & diff. & ours \\"
    assert lines[12] == r"source & 52.00 & \textbf{50.00} & +2.00 & 0.33 $\pm$ 0.12 \\"
    weird = r"we\_ird|\textasciitilde{}\textasciicircum{}\textbackslash{}\{1\}"
    assert lines[13] == weird + r" & 40.00 $\pm$ 1.50${\ast}$ & -- & -- & \textbf{60.00} \\"
    assert [line.count("&") for line in lines[10:14] if "&" in line] == [4, 4, 4]


def test_without_kinds_the_groups_stand_above_the_numbers() -> None:
    plain = Table("t", (Column("pure:fog", "fog", 200),), (("tent", (Cell(1.0),)),))
    assert r"method & fog \\" in to_latex([plain])


def test_csv_has_one_line_a_number_in_full_precision() -> None:
    lines = list(csv.DictReader(io.StringIO(to_csv([TABLE]))))
    assert len(lines) == 6
    assert {line["table"] for line in lines} == {"50 % of A & B"}
    assert float(lines[3]["value"]) == 1 / 3
    assert lines[3]["spread"] == "0.125"
    assert lines[4] == {
        "table": "50 % of A & B",
        "method": "we_ird|~^\\{1}",
        "stream": "outlier:a_x/b@0.5",
        "group": "a_x",
        "kind": "ours",
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
    assert [Column(**column) for column in content[0]["columns"]] == list(TABLE.columns)
    rows = tuple(
        (row["method"], tuple(None if cell is None else Cell(**cell) for cell in row["cells"]))
        for row in content[0]["rows"]
    )
    assert rows == TABLE.rows
    assert content[0]["notes"] == list(TABLE.notes)
    empty = Table("t", TABLE.columns[:1], (("x", (Cell(float("nan")),)),))
    assert json.loads(to_json([empty]))[0]["rows"][0]["cells"][0]["value"] is None


def test_markdown_names_kinds_and_keeps_its_columns() -> None:
    lines = to_markdown(TABLE).splitlines()
    assert (
        lines[0]
        == "| method | outlier: a x, ours (50) | outlier: a x, paper | outlier: a x, diff. | pure: b, ours (200) |"
    )
    assert lines[2] == "| source | 52.00 | **50.00** | +2.00 | 0.33 ± 0.12 |"
    assert lines[3] == "| we_ird&#124;~^\\{1} | 40.00 ± 1.50* | - | - | **60.00** |"


def test_a_name_in_brackets_is_no_markup_on_the_terminal() -> None:
    shown = to_rich(Table("t", (Column("pure:fog", "fog", 200),), (("[red]x[/red]", (Cell(1.0),)),)))
    assert list(shown.columns[0].cells) == [r"\[red]x\[/red]"]


def test_the_ending_names_the_form(tmp_path: Path) -> None:
    for ending, start in {".md": "## 50 %", ".csv": "table,method", ".tex": "% needs", ".json": "[\n"}.items():
        path = tmp_path / "new" / f"table{ending}"
        export([TABLE], path)
        assert path.read_text().startswith(start)
    with pytest.raises(ValueError, match=r"unknown table format '\.mdx': did you mean '\.md'"):
        export([TABLE], tmp_path / "table.mdx")
