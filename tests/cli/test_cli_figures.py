from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from midway.cli import app
from midway.report.figures import FIGURES
from midway.tune import StudyResult, TrialRecord

runner = CliRunner()


def test_the_help_lists_every_registered_figure() -> None:
    text = runner.invoke(app, ["figures", "--help"], env={"COLUMNS": "300"}).output
    assert all(name in text for name in FIGURES)


def test_figures_of_a_search(tmp_path: Path) -> None:
    trials = tuple(TrialRecord(n, "complete", {"lr": n}, value) for n, value in enumerate((70.0, 72.5)))
    StudyResult("tent", "tent-0", {}, {"lr": 0}, trials, {"lr": 1.0}).save(tmp_path / "study.json")
    answer = runner.invoke(app, ["figures", str(tmp_path)])
    assert answer.exit_code == 0, answer.output
    assert {path.name for path in (tmp_path / "figures").glob("*.png")} == {"history.png", "importance.png"}
    pictures = runner.invoke(app, ["figures", str(tmp_path), "--pictures", "--only", "samples"])
    assert "--pictures needs results" in str(pictures.exception)
    missing = runner.invoke(app, ["figures", str(tmp_path), "--only", "history,scenarios"])
    assert str(missing.exception) == (
        "scenarios requires 1 to 60 bars, methods times streams, as in: midway run --scenarios pure:fog."
    )
