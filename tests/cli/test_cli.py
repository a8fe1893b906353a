from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import midway
from midway.bench import Cell, Record, Store, read_records, run_cell
from midway.bench.budget import CostEstimate, CostEstimator, fit_grid
from midway.bench.resources import ResourceCache
from midway.bench.suites import DEMO_REQUIRED, DEMO_STREAMS, demo_grid
from midway.cli import app, main

runner = CliRunner()


def test_demo_is_a_plan_in_a_store(tmp_path: Path) -> None:
    flags = [
        "demo",
        "--methods",
        "bn,tent",
        "--images",
        "400",
        "--budget",
        "9999",
        "--jobs",
        "1",
        "--out",
        str(tmp_path),
    ]
    answer = runner.invoke(app, flags)
    assert answer.exit_code == 0, answer.output
    assert "report.html" in answer.output
    output = " ".join(answer.output.split())
    assert "3 methods on 400 images, 2 of 2 streams: about " in output
    assert "Best on all images. outlier: 5% glass blur in gaussian noise: " in output
    records = read_records(tmp_path)
    accuracy = {(r.cell.method, r.cell.scenario.kind): r.result.accuracy for r in records if r.result}
    assert set(accuracy) == {(m, s) for m in ("source", "bn", "tent") for s in ("outlier", "mixture")}
    for scenario in ("outlier", "mixture"):
        assert accuracy["tent", scenario] > accuracy["source", scenario]
    outliers = [
        r.result.groups["glass_blur"]["images"] for r in records if r.result and r.cell.scenario.kind == "outlier"
    ]
    assert outliers == [20, 20, 20]
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    again = runner.invoke(app, flags)
    assert "6 cells are already finished, 0 to go." in again.output
    plan = ["run", "--methods", "source", "--scenarios", DEMO_STREAMS[0], "--images", "400"]
    same = runner.invoke(app, [*plan, "--jobs", "1", "--out", str(tmp_path)])
    assert "0 cells finished now, 1 before." in same.output  # a demo is a run like any other


def test_the_demo_leaves_out_the_slowest_but_never_the_basics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"source": 1.0, "bn": 1.0, "tent": 4.0, "tea": 12.0, "memo": 180.0, "mita": 20.0}  # per 200 images

    def estimate(self: CostEstimator, cell: Cell) -> CostEstimate:
        return CostEstimate(seconds[cell.method] / 200, seconds[cell.method] / 200)

    monkeypatch.setattr(CostEstimator, "estimate", estimate)
    grid = demo_grid(list(seconds))

    def fitted(budget: float, images: int | None = None) -> tuple[list[str], int | None]:
        plan = replace(grid, images=images)
        chosen, _ = fit_grid(plan, store, budget, required=DEMO_REQUIRED, fixed_images=images, reuse_images=False)
        return [entry.name for entry in chosen.methods], chosen.images

    with Store(tmp_path) as store:
        assert fitted(1e6) == (list(seconds), None)
        assert fitted(250) == (["source", "bn", "tent", "tea", "mita"], 600)  # 38 s per batch and stream
        assert fitted(700) == (["source", "bn", "tent", "tea", "mita"], 1800)
        assert fitted(1) == (["source", "bn", "mita"], 400)
        assert fitted(1, images=1000) == (["source", "bn", "mita"], 1000)
        assert fitted(250) == (["source", "bn", "tent", "tea", "mita"], 600)  # the choice is stored


@pytest.mark.parametrize(
    ("budget", "streams", "images", "outliers", "said"),
    [
        (100, 2, 2000, 100, "about 50 s"),
        (49, 1, 2000, 100, "about 25 s"),
        (20, 1, 1600, 80, "about 20 s"),
        (3, 1, 400, 20, "about 5 s with 1 cells at a time, more than the 3 s allowed"),
    ],
)
def test_the_demo_drops_a_stream_before_images_and_says_so_beforehand(
    budget: float, streams: int, images: int, outliers: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 2 s for both methods, per batch of 200 and stream: 20 s for a stream of 2,000 images, which 25 s allow for
    monkeypatch.setattr(CostEstimator, "estimate", lambda self, cell: CostEstimate(0.005, 0.005))
    monkeypatch.setattr(CostEstimator, "image_seconds", lambda self, cell: 0.0)
    ran: list[Cell] = []
    monkeypatch.setattr("midway.cli.demo.run_into", lambda console, cells, *others: ran.extend(cells))
    flags = ["--methods", "bn", "--budget", str(budget), "--jobs", "1", "--out", str(tmp_path)]
    answer = runner.invoke(app, ["demo", *flags])
    assert said in " ".join(answer.output.split())
    assert len(ran) == 2 * streams
    assert len({cell.scenario for cell in ran}) == streams
    stream = ResourceCache().lazy_stream(ran[0])
    assert len(stream.order) == images
    assert (stream.group == stream.groups.index("glass_blur")).sum() == outliers


def test_methods_and_models_are_listed() -> None:
    for columns in (80, 120):
        listed = runner.invoke(app, ["methods"], env={"COLUMNS": str(columns)})
        lines = listed.output.splitlines()
        assert max(map(len, lines)) <= columns
        for name in midway.methods.names():  # each name starts a line of both tables and is never cut
            assert sum(line.split()[:1] == [name] for line in lines) == 2
    shown = runner.invoke(app, ["methods", "show", "eata"], env={"COLUMNS": "200"})
    assert "0.4 and 0.05 for 10 and 1,000 classes" in shown.output
    assert "2000 (ImageNet-size)" in shown.output
    for name in midway.methods.names():
        assert runner.invoke(app, ["methods", "show", name]).exit_code == 0
    table = runner.invoke(app, ["methods", "--markdown"]).output
    assert table == midway.adaptation.describe.overview_markdown()
    cards = runner.invoke(app, ["models"], env={"COLUMNS": "200"})
    assert "wrn16_2.cifar10" in cards.output
    assert "unet.cifar10" in cards.output
    assert "denoiser for DDA" in cards.output
    assert runner.invoke(app, ["--version"]).output.strip() == midway.__version__


def test_mistakes_become_one_red_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["midway", "methods", "show", "tnet"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    error = capsys.readouterr().err
    assert error.startswith("error: unknown method 'tnet': did you mean 'tent'?")
    assert "Traceback" not in error


def test_a_demo_that_is_stopped_keeps_finished_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(cell: Cell, *arguments: Any, **settings: Any) -> Record:
        if cell.method == "bn" and cell.scenario.kind == "mixture":
            raise KeyboardInterrupt
        return run_cell(cell, *arguments, **settings)

    monkeypatch.setattr("midway.bench.engines.base.run_cell", interrupted)
    flags = ["--methods", "bn", "--images", "200", "--budget", "9999", "--jobs", "1", "--out", str(tmp_path)]
    answer = runner.invoke(app, ["demo", *flags])
    assert answer.exit_code == 130
    assert "Stopped: 3 of 4 cells are in" in answer.output
    assert [record.cell.method for record in read_records(tmp_path)] == ["source", "bn", "source"]
    assert (tmp_path / "report.html").is_file()


def test_registries_are_listed() -> None:
    for kind, some in {
        "methods": "tent",
        "scenarios": "outlier",
        "corruptions": "fog",
        "datasets": "cifar10-mini",
        "engines": "local",
        "metrics": "accuracy",
        "wrappers": "guarded",
    }.items():
        listed = runner.invoke(app, ["list", kind], env={"COLUMNS": "200"})
        assert listed.exit_code == 0, listed.output
        assert any(line.split()[:1] == [some] for line in listed.output.splitlines()), listed.output
    assert "saturate" in runner.invoke(app, ["list"], env={"COLUMNS": "200"}).output
    assert "unknown kind 'method': did you mean 'methods'?" in str(runner.invoke(app, ["list", "method"]).exception)


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
    assert "file cannot be written to (File exists)" in str(answer.exception)
