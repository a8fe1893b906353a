from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from midway.bench import read_records
from midway.cli import app

runner = CliRunner()
WIDE = {"COLUMNS": "160"}


def test_the_benchmark_runs_and_continues(tmp_path: Path) -> None:
    options = ["--streams", "continual,outlier", "--methods", "bn", "--images", "50", "--batch-size", "50"]
    command = ["benchmark", *options, "--out", str(tmp_path)]
    answer = runner.invoke(app, command, env=WIDE)
    assert answer.exit_code == 0, answer.output
    table = json.loads((tmp_path / "table.json").read_text())[0]
    groups = ["continual", "continual, WRN-28-10", "outliers", "cost", "cost"]
    assert [column["group"] for column in table["columns"]] == groups
    results = {(r.cell.label, r.cell.scenario.kind): r.result for r in read_records(tmp_path) if r.result is not None}
    continual = results["bn", "continual"]
    shown = {row["label"]: row["values"][0]["mean"] for row in table["rows"]}
    assert shown["bn"] == 100 - continual.accuracy
    assert (tmp_path / "report.html").is_file()
    again = runner.invoke(app, command, env=WIDE)
    assert "14 cells are already finished" in again.output


def test_a_precision_reaches_the_cells_and_the_title(tmp_path: Path) -> None:
    options = ["--streams", "correlated", "--methods", "bn", "--images", "8", "--precision", "bf16"]
    answer = runner.invoke(app, ["benchmark", *options, "--out", str(tmp_path)], env=WIDE)
    assert answer.exit_code == 0, answer.output
    assert [record.cell.precision for record in read_records(tmp_path)] == ["bf16", "bf16"]
    assert "8 images a corruption, bf16" in (tmp_path / "table.md").read_text()


def test_results_of_another_precision_do_not_enter_the_table(tmp_path: Path) -> None:
    options = ["--streams", "correlated", "--methods", "bn", "--images", "8", "--out", str(tmp_path)]
    for precision in ("float32", "bf16"):
        answer = runner.invoke(app, ["benchmark", *options, "--precision", precision], env=WIDE)
        assert answer.exit_code == 0, answer.output
    records = {(r.cell.label, r.cell.precision): r.result for r in read_records(tmp_path) if r.result is not None}
    assert len(records) == 4
    rows = json.loads((tmp_path / "table.json").read_text())[0]["rows"]
    shown = {row["label"]: row["values"][0]["mean"] for row in rows}
    assert shown == {label: 100 - records[label, "bf16"].accuracy for label in ("source", "bn")}


def test_a_budget_counts_the_length_of_streams(tmp_path: Path) -> None:
    options = ["--streams", "reset,mixed", "--methods", "bn", "--images", "60", "--batch-size", "20"]
    command = ["benchmark", *options, "--budget", "0.0001s", "--out", str(tmp_path)]
    answer = runner.invoke(app, command, env=WIDE)
    assert answer.exit_code == 0, answer.output
    shown = " ".join(answer.output.split())
    assert "left out: bn, 40 images would take about" in shown
    assert "more than 0.0001s: the remaining methods cannot take less." in shown
    assert {record.cell.images for record in read_records(tmp_path)} == {40}


def test_an_unknown_column_is_refused() -> None:
    answer = runner.invoke(app, ["benchmark", "--streams", "contnual"])
    assert "continual" in str(answer.exception)
