from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from midway.bench import Comparison, Result, read_records
from midway.bench.outcome import Outcome
from midway.bench.work import work
from midway.cli import app
from midway.report.figures import stored_figures
from midway.report.figures.corrections import stored_corrections
from midway.report.stored_run import read_run

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


def test_two_runs_side_by_side(run_folder: Path, tmp_path: Path) -> None:
    (stored,) = read_run(run_folder).comparisons
    (tmp_path / "later").mkdir()
    later = Comparison(stored.title, "midway demo", stored.settings | {"seeds": [1]}, stored.results[:1])
    later.save(tmp_path / "later" / "results.json")
    answer = runner.invoke(app, ["report", str(run_folder), str(tmp_path / "later")])
    assert answer.exit_code == 0, answer.output
    text = (tmp_path / "later" / "report_against_x.html").read_text()
    assert "<h1>later against x</h1>" in text
    assert "<b>later</b> is level with <b>x</b>, mean over 1 results" in text
    assert "Only x has BN." in text


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
        "samples: computed from the network and images, ask for it with --pictures.",
        "corruptions needs two pure streams or more. A run that has them: midway run --scenarios pure:fog,pure:snow",
    ]
    nothing = runner.invoke(app, ["figures", str(tmp_path)])
    assert "holds no results" in str(nothing.exception)


def test_figures_of_several_runs_with_two_settings_under_one_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, scenario, lr in (("a", "pure:fog", "1e-3"), ("b", "pure:snow", "1e-4")):
        methods = f'source,tent(lr={lr}, label="tent")'
        small = ["--images", "40", "--batch-sizes", "20", "--jobs", "1", "--out", str(tmp_path / name)]
        answer = runner.invoke(app, ["run", "--methods", methods, "--scenarios", scenario, *small])
        assert answer.exit_code == 0, answer.output
    seen: list[Comparison] = []
    draw = stored_figures

    def look(comparison: Comparison, **options: Any) -> Any:
        seen.append(comparison)
        return draw(comparison, **options)

    monkeypatch.setattr("midway.report.figures.stored_figures", look)
    both = [str(tmp_path / "a"), str(tmp_path / "b")]
    answer = runner.invoke(app, ["figures", *both, "--only", "corruptions"])
    assert answer.exit_code == 0, answer.output
    assert (tmp_path / "a" / "figures" / "corruptions.png").exists()
    labels = {(result.label, result.stream) for comparison in seen for result in comparison.results}
    assert labels == {
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
    assert str(none.exception).startswith("corrections: no outlier that source has wrong and source right")


def test_pictures_are_computed_on_request(run_folder: Path, tmp_path: Path) -> None:
    small = ["--images", "8", "--batch-size", "8", "--langevin-steps", "1"]
    options = [*small, "--only", "energies", "--out", str(tmp_path)]
    answer = runner.invoke(app, ["figures", str(run_folder), "--pictures", *options])
    assert answer.exit_code == 0, answer.output
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".pdf", ".png", ".svg"]


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("fog", "'fog' is no pair: write it like glass_blur/gaussian_noise."),
        ("fog/snow/frost", "'fog/snow/frost' is no pair"),
        ("fog/snoww", "unknown corruption 'snoww': did you mean 'snow'"),
    ],
)
def test_what_is_no_pair_is_said(run_folder: Path, tmp_path: Path, pair: str, said: str) -> None:
    small = ["--pictures", "--images", "8", "--batch-size", "8", "--only", "energies", "--out", str(tmp_path)]
    assert said in str(runner.invoke(app, ["figures", str(run_folder), *small, "--pair", pair]).exception)


def test_corrections_come_from_kept_answers(run_folder: Path) -> None:
    records = read_records(run_folder)
    found = stored_corrections(run_folder, records, baseline="source", method="bn")
    assert found is not None
    assert (found.stream, found.group, found.images) == (OUTLIERS, "glass_blur", 20)
    accuracy = {
        r.cell.label: r.result.by_group["glass_blur"] for r in records if r.result and r.cell.scenario == OUTLIERS
    }
    assert 100 * (found.corrected - found.spoiled) / 20 == pytest.approx(accuracy["bn"] - accuracy["source"])
    assert stored_corrections(run_folder, records, baseline="tent") is None


def test_a_demo_can_be_reported_again(tmp_path: Path) -> None:
    result = Result("bn", "bn", {}, "pure:fog", 4, 75.0, {"fog": 75.0}, {"fog": 4}, (70.0, 80.0), 0.125)
    Comparison("Fog", "midway demo --seed 3", {}, (result,)).save(tmp_path / "results.json")
    answer = runner.invoke(app, ["report", str(tmp_path)])
    assert answer.exit_code == 0, answer.output
    assert "midway demo --seed 3" in (tmp_path / "report.html").read_text()


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
    def interrupted(cell: Any, *arguments: Any, **settings: Any) -> Outcome:
        if cell.method == "bn":
            raise KeyboardInterrupt
        return work(cell, *arguments, **settings)

    monkeypatch.setattr("midway.bench.engines.local.work", interrupted)
    answer = runner.invoke(app, [*command, "--images", "8", "--jobs", "1", "--out", str(tmp_path)])
    assert answer.exit_code == 130, answer.output
    assert f"Report: {tmp_path / 'report.html'}" in answer.output.replace("\n", "")
    assert "<b>Source</b> has the highest mean accuracy" in (tmp_path / "report.html").read_text()
