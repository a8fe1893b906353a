"""A metric is one registered function; it is then in every output, from the terminal to the page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from html_page import Page
from typer.testing import CliRunner

from midway.bench import Grid, LocalEngine, Store, run
from midway.cli import app
from midway.metrics import METRICS, Predictions, metric
from midway.report import frame

NAME, TITLE = "mean_confidence", "confidence"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A run of two methods, with a metric that nothing but this function knows."""

    @metric(TITLE, unit="%", better="lower", by_group=True)
    def mean_confidence(predictions: Predictions) -> float:
        return 100 * predictions.logits.softmax(dim=1).amax(dim=1).mean().item()

    plan = {"methods": "source,bn", "scenarios": "pure:fog", "images": 40, "batch_sizes": 20}
    with Store(tmp_path / "run") as store:
        run(Grid.from_dict(plan).cells(), store, LocalEngine())
    yield tmp_path / "run"
    METRICS.remove(NAME)


def test_a_registered_metric_is_in_every_output(folder: Path) -> None:
    files = {suffix: folder / f"table{suffix}" for suffix in (".md", ".tex", ".csv", ".json")}
    tables = [option for path in files.values() for option in ("--table", str(path))]
    answer = CliRunner().invoke(app, ["report", str(folder), "--metric", NAME, *tables], env={"COLUMNS": "100"})
    assert answer.exit_code == 0, answer.output
    values = {row.label: row.value for row in frame(folder).where(metric=NAME, group="fog")}
    assert set(values) == {"source", "bn"}
    for label, value in values.items():
        number = f"{value:.2f}"
        assert number in answer.output
        assert number in files[".md"].read_text()
        assert number in files[".tex"].read_text()
        lines = csv.DictReader(io.StringIO(files[".csv"].read_text()))
        found = {(line["label"], line["metric"]): float(line["value"]) for line in lines}
        assert found[label, NAME] == value
        (table,) = json.loads(files[".json"].read_text())
        assert [column["metric"] for column in table["columns"]] == [NAME]
        assert value in [row["values"][0]["mean"] for row in table["rows"] if row["label"] == label]
    page = Page((folder / "report.html").read_text())
    assert f"{TITLE}, %" in page.text["span"]
    shown = [float(cell["data-value"] or "nan") for cell in page.all("td") if "data-value" in cell]
    assert set(values.values()) <= set(shown)


def test_files_for_programs_have_every_metric_by_default(folder: Path) -> None:
    answer = CliRunner().invoke(app, ["report", str(folder), "--table", str(folder / "all.csv")])
    assert answer.exit_code == 0, answer.output
    with (folder / "all.csv").open() as file:
        names = {line["metric"] for line in csv.DictReader(file)}
    assert {NAME, "accuracy", "nll", "seconds_per_batch"} <= names
    answer = CliRunner().invoke(app, ["report", str(folder), "--metric", "confidence"])
    assert f"unknown metric 'confidence': did you mean '{NAME}'" in str(answer.exception)
