from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from midway.bench import Record, read_records, run_cell
from midway.cli import app
from midway.report import group_records
from midway.report.figures import PredictionPair
from midway.report.figures.corrections import corrections_of

runner = CliRunner()
OUTLIERS = "outlier:glass_blur/gaussian_noise@0.25"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "x"
    options = ["--methods", "source,bn", "--scenarios", f"pure:fog,{OUTLIERS}", "--images", "80", "--batch-sizes", "40"]
    answer = runner.invoke(app, ["run", *options, "--jobs", "1", "--keep-predictions", "--out", str(folder)])
    assert answer.exit_code == 0, answer.output
    assert f"Report: {folder / 'report.html'}" in answer.output
    return folder


def test_a_run_ends_with_its_report(run_folder: Path) -> None:
    text = (run_folder / "report.html").read_text()
    for record in read_records(run_folder):
        assert record.result is not None
        assert f'data-value="{record.result.accuracy!r}"' in text
    assert "midway" in text


def test_report_again_and_elsewhere(run_folder: Path, tmp_path: Path) -> None:
    answer = runner.invoke(app, ["report", str(run_folder), "--out", str(tmp_path / "page.html")])
    assert answer.exit_code == 0, answer.output
    assert answer.output.strip() == f"Report: {tmp_path / 'page.html'}"
    assert "<h1>x</h1>" in (tmp_path / "page.html").read_text()


def test_two_runs_are_compared(run_folder: Path, tmp_path: Path) -> None:
    later = tmp_path / "later"
    shutil.copytree(run_folder, later)
    lines = (later / "results.jsonl").read_text().splitlines(keepends=True)
    (later / "results.jsonl").write_text(next(line for line in lines if '"label": "source"' in line))
    answer = runner.invoke(app, ["report", str(run_folder), str(later)])
    assert answer.exit_code == 0, answer.output
    text = (later / "report_against_x.html").read_text()
    assert "<h1>later against x</h1>" in text
    assert "<b>later</b> is level with <b>x</b>, mean over 1 results" in text
    assert "Only x has BN." in text


def test_tables_of_other_metrics_are_printed_and_written(run_folder: Path, tmp_path: Path) -> None:
    options = ["--metric", "nll", "--metric", "calibration_error", "--table", str(tmp_path / "table.md")]
    answer = runner.invoke(app, ["report", str(run_folder), *options, "--out", str(tmp_path / "page.html")])
    assert answer.exit_code == 0, answer.output
    assert "NLL" in answer.output
    heading = (tmp_path / "table.md").read_text().splitlines()[2]
    assert "pure: fog, NLL (80)" in heading
    assert "pure: fog, calibration error (80)" in heading
    assert (tmp_path / "table.md").read_text().splitlines()[0].endswith("batches of 40: NLL, calibration error")
    wrong = runner.invoke(app, ["report", str(run_folder), "--table", str(tmp_path / "table.xls")])
    assert "unknown table format '.xls'" in str(wrong.exception)


def test_figures_of_a_run(run_folder: Path, tmp_path: Path) -> None:
    answer = runner.invoke(app, ["figures", str(run_folder), "--out", str(tmp_path), "--only", "over_time,motivation"])
    assert answer.exit_code == 0, answer.output
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "motivation.pdf", "motivation.png", "motivation.svg", "over_time.pdf", "over_time.png", "over_time.svg",
    ]  # fmt: skip
    wrong = runner.invoke(app, ["figures", str(run_folder), "--only", "motivatoin"])
    assert "unknown figure 'motivatoin': did you mean 'motivation'" in str(wrong.exception)
    asked = runner.invoke(app, ["figures", str(run_folder), "--only", "samples,corruptions,over_time"])
    assert asked.exit_code == 1
    assert str(asked.exception).splitlines() == [
        "samples is computed from the network and images: add --pictures.",
        "corruptions requires two pure streams or more, as in: midway run --scenarios pure:fog,pure:snow.",
    ]
    nothing = runner.invoke(app, ["figures", str(tmp_path)])
    assert "holds no results" in str(nothing.exception)


def test_figures_of_several_runs_with_two_settings_under_one_label(tmp_path: Path) -> None:
    for name, scenario, lr in (("a", "pure:fog", "1e-3"), ("b", "pure:snow", "1e-4")):
        methods = f'source,tent(lr={lr}, label="tent")'
        small = ["--images", "40", "--batch-sizes", "20", "--jobs", "1", "--out", str(tmp_path / name)]
        answer = runner.invoke(app, ["run", "--methods", methods, "--scenarios", scenario, *small])
        assert answer.exit_code == 0, answer.output
    answer = runner.invoke(app, ["figures", str(tmp_path / "a"), str(tmp_path / "b"), "--only", "corruptions"])
    assert answer.exit_code == 0, answer.output
    assert (tmp_path / "a" / "figures" / "corruptions.png").exists()
    (comparison,) = group_records([*read_records(tmp_path / "a"), *read_records(tmp_path / "b")])
    assert {(row.label, str(row.scenario)) for row in comparison.frame} == {
        ("source", "pure:fog"),
        ("source", "pure:snow"),
        ("tent (lr=0.001)", "pure:fog"),
        ("tent (lr=0.0001)", "pure:snow"),
    }


def test_corrections_of_chosen_methods(run_folder: Path, tmp_path: Path) -> None:
    options = ["--only", "corrections", "--baseline", "source", "--out", str(tmp_path)]
    answer = runner.invoke(app, ["figures", str(run_folder), *options, "--method", "bn"])
    assert answer.exit_code == 0, answer.output
    assert (tmp_path / "corrections.png").exists()
    small = ["--pictures", "--images", "8", "--batch-size", "8"]
    none = runner.invoke(app, ["figures", str(run_folder), *options, "--method", "source", *small])
    assert none.exit_code == 1
    assert str(none.exception).startswith("corrections requires an outlier that the baseline misclassifies")


def test_pictures_are_computed_on_request(run_folder: Path, tmp_path: Path) -> None:
    small = ["--images", "8", "--batch-size", "8", "--langevin-steps", "1"]
    options = [*small, "--only", "energies", "--out", str(tmp_path)]
    answer = runner.invoke(app, ["figures", str(run_folder), "--pictures", *options])
    assert answer.exit_code == 0, answer.output
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".pdf", ".png", ".svg"]


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("fog", "'fog' is not a pair: write it like glass_blur/gaussian_noise."),
        ("fog/snow/frost", "'fog/snow/frost' is not a pair"),
        ("fog/snoww", "unknown corruption 'snoww': did you mean 'snow'"),
    ],
)
def test_what_is_no_pair_is_said(run_folder: Path, tmp_path: Path, pair: str, said: str) -> None:
    small = ["--pictures", "--images", "8", "--batch-size", "8", "--only", "energies", "--out", str(tmp_path)]
    assert said in str(runner.invoke(app, ["figures", str(run_folder), *small, "--pair", pair]).exception)


def test_corrections_come_from_kept_answers(run_folder: Path) -> None:
    records = read_records(run_folder)
    found = corrections_of(PredictionPair([(run_folder, records)], "source", "bn"))
    assert found is not None
    assert (found.group, found.images) == ("glass_blur", 20)
    accuracy = {
        r.cell.label: r.result.by_group["glass_blur"] for r in records if r.result and str(r.cell.scenario) == OUTLIERS
    }
    assert 100 * (found.corrected - found.spoiled) / 20 == pytest.approx(accuracy["bn"] - accuracy["source"])
    assert corrections_of(PredictionPair([(run_folder, records)], "tent", "mita")) is None


@pytest.mark.parametrize(
    "command",
    [
        ["run", "--methods", "source,bn", "--scenarios", "pure:fog", "--batch-sizes", "4", "--device", "cpu"],
        ["paper", "pure", "--methods", "bn", "--shifts", "fog", "--batch-size", "4", "--device", "cpu"],
    ],
)
def test_what_an_interrupted_command_has_stored_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    def interrupted(cell: Any, *arguments: Any, **settings: Any) -> Record:
        if cell.method == "bn":
            raise KeyboardInterrupt
        return run_cell(cell, *arguments, **settings)

    monkeypatch.setattr("midway.bench.engines.base.run_cell", interrupted)
    answer = runner.invoke(app, [*command, "--images", "8", "--jobs", "1", "--out", str(tmp_path)])
    assert answer.exit_code == 130, answer.output
    assert f"Report: {tmp_path / 'report.html'}" in answer.output.replace("\n", "")
    assert "<b>Source</b> has the highest mean accuracy" in (tmp_path / "report.html").read_text()
