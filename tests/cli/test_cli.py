from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import midway
from midway.bench.demo import _affordable_images, _within_budget
from midway.bench.estimate import Price
from midway.cli import app, main

runner = CliRunner()


def test_demo_writes_table_results_and_report(tmp_path: Path) -> None:
    answer = runner.invoke(app, ["demo", "--methods", "bn,tent", "--images", "400", "--out", str(tmp_path)])
    assert answer.exit_code == 0, answer.output
    assert "report.html" in answer.output
    stored = json.loads((tmp_path / "results.json").read_text())
    accuracy = {(r["method"], r["stream"].split(":")[0]): r["accuracy"] for r in stored["results"]}
    assert set(accuracy) == {(m, s) for m in ("source", "bn", "tent") for s in ("pure", "outlier", "mixture")}
    for scenario in ("pure", "outlier", "mixture"):
        assert accuracy["tent", scenario] > accuracy["source", scenario]
    outliers = [r["images_by_group"]["glass_blur"] for r in stored["results"] if r["stream"].startswith("outlier")]
    assert outliers == [2, 2, 2]
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "table.md").read_text().startswith("| method |")


def test_the_budget_leaves_out_the_dearest_but_never_the_basics() -> None:
    seconds = {"source": 5.0, "bn": 5.0, "tent": 20.0, "tea": 60.0, "memo": 900.0}
    assert _within_budget(seconds, 100) == (
        ["source", "bn", "tent", "tea"],
        {"memo": "would take about 900 s, more than the others leave of 100 s"},
    )
    assert _within_budget(seconds, 1)[0] == ["source", "bn", "tent"]
    assert _within_budget({"source": 5.0, "tea": 60.0, "mita": 99.0}, 100)[0] == ["source", "mita"]
    assert _within_budget({"source": 5.0, "tea": 60.0, "mita": 101.0}, 100)[0] == ["source", "mita"]
    assert _within_budget(seconds, 1000) == (list(seconds), {})


def test_fewer_images_before_the_headline_is_left_out() -> None:
    seconds_a_batch = {"source": 0.1, "bn": 0.1, "tent": 0.3, "mita": 3.5, "memo": 500.0}
    prices = {name: Price(seconds / 200, seconds / 200) for name, seconds in seconds_a_batch.items()}
    assert _affordable_images(prices, budget=121) == 2000
    assert _affordable_images(prices, budget=119) == 1000
    assert _affordable_images(prices, budget=59) == 600
    assert _affordable_images(prices, budget=1) == 400
    assert _affordable_images({"source": prices["source"]}, budget=120) == 2000


def test_methods_and_models_are_listed() -> None:
    for columns in (80, 120):
        listed = runner.invoke(app, ["methods"], env={"COLUMNS": str(columns)})
        lines = listed.output.splitlines()
        assert max(map(len, lines)) <= columns
        for name in midway.methods.names():  # each name starts a line of both tables and is never cut
            assert sum(line.split()[:1] == [name] for line in lines) == 2
    shown = runner.invoke(app, ["methods", "show", "eata"], env={"COLUMNS": "200"})
    assert "0.4 for 10 classes, 0.1 for 100, 0.05 for 1,000" in shown.output
    assert "2000 (ImageNet-size)" in shown.output
    for name in midway.methods.names():
        assert runner.invoke(app, ["methods", "show", name]).exit_code == 0
    table = runner.invoke(app, ["methods", "--markdown"]).output
    assert table == midway.adaptation.describe.overview_markdown()
    cards = runner.invoke(app, ["models"], env={"COLUMNS": "200"})
    assert "wrn16_2.cifar10" in cards.output
    assert runner.invoke(app, ["--version"]).output.strip() == midway.__version__


def test_mistakes_become_one_red_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["midway", "methods", "show", "tnet"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    error = capsys.readouterr().err
    assert error.startswith("error: unknown method 'tnet': did you mean 'tent'?")
    assert "Traceback" not in error


def test_a_demo_that_is_stopped_keeps_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def impatient(method: midway.Method, stream: Any, **options: Any) -> Any:
        if method.about.name == "bn" and stream.name.startswith("mixture"):
            raise KeyboardInterrupt
        return midway.evaluate(method, stream, **options)

    monkeypatch.setattr("midway.bench.demo.evaluate", impatient)
    answer = runner.invoke(app, ["demo", "--methods", "bn", "--images", "200", "--out", str(tmp_path)])
    assert answer.exit_code == 130
    stored = json.loads((tmp_path / "results.json").read_text())
    assert [result["method"] for result in stored["results"]] == ["source"] * 3 + ["bn"] * 2
    assert stored["left_out"] == {"bn": "stopped before its streams were over"}
    assert (tmp_path / "report.html").is_file()


def test_what_a_colon_begins_is_no_picture(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["midway", "tune", "tent", "--scenarios", "pure:fog", "--trials", "1"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err.startswith("error: pure:fog: ")


def test_the_package_runs_as_a_module() -> None:
    ran = subprocess.run([sys.executable, "-m", "midway", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == midway.__version__


def test_an_unknown_method_stops_the_demo_before_any_work(tmp_path: Path) -> None:
    answer = runner.invoke(app, ["demo", "--methods", "tent,mitta", "--out", str(tmp_path / "never")])
    assert isinstance(answer.exception, ValueError)
    assert not (tmp_path / "never").exists()
    (tmp_path / "file").write_text("")
    answer = runner.invoke(app, ["demo", "--out", str(tmp_path / "file")])
    assert "file is a file: name a folder" in str(answer.exception)
