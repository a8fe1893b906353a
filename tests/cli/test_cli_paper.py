from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import get_args

import pytest
from PIL import Image
from typer.testing import CliRunner

import midway
from midway.bench import paper, read_records
from midway.bench.suites import SUITES
from midway.cli import app
from midway.cli.paper import Which

runner = CliRunner()
WIDE = {"COLUMNS": "160"}
SMALL = ["--methods", "bn", "--images", "200"]


def numbers(folder: Path) -> dict[tuple[str, str, str, str], float]:
    with (folder / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    return {
        (
            row["label"],
            row["scenario"] or row["group"],
            row["group"] if row["scenario"] else row["metric"],
            row["origin"],
        ): float(row["value"])
        for row in rows
    }


def test_every_table_of_the_paper_is_a_word() -> None:
    assert [*get_args(Which)] == [*SUITES, "complexity"]


def test_ours_beside_the_papers_and_again_from_the_store(tmp_path: Path) -> None:
    command = ["paper", "outlier", *SMALL, "--shifts", "glass_blur/gaussian_noise", "--out", str(tmp_path)]
    answer = runner.invoke(app, command, env=WIDE)
    assert answer.exit_code == 0, answer.output
    stream = "outlier:glass_blur/gaussian_noise@0.005"
    found = numbers(tmp_path)
    for method in ("source", "bn"):
        for group in ("glass_blur", "gaussian_noise", "all"):
            ours, theirs, difference = (found[method, stream, group, kind] for kind in ("ours", "paper", "diff."))
            assert theirs == paper.accuracy(
                shifts=("glass_blur", "gaussian_noise"), ratio=0.005, method=method, group=group
            )
            assert difference == ours - theirs
    results = {r.cell.label: r.result for r in read_records(tmp_path) if r.result is not None}
    assert found["bn", stream, "all", "ours"] == results["bn"].accuracy
    assert "200 images (the paper: WRN-28-10, 10,000)" in " ".join(answer.output.split())
    assert "REDUCED" not in answer.output
    assert {path.suffix for path in tmp_path.glob("table.*")} == {".md", ".csv", ".tex", ".json"}
    again = runner.invoke(app, command, env=WIDE)
    assert "2 cells are already finished" in again.output
    assert numbers(tmp_path) == found


def test_a_budget_takes_fewer_images_and_says_so(tmp_path: Path) -> None:
    options = ["--methods", "bn", "--shifts", "fog", "--batch-size", "20", "--images", "60", "--budget", "0.0001s"]
    command = ["paper", "pure", *options, "--out", str(tmp_path)]
    answer = runner.invoke(app, command, env=WIDE)
    assert answer.exit_code == 0, answer.output
    shown = " ".join(answer.output.split())
    assert "40 images REDUCED to fit 0.0001s" in shown
    assert "left out: bn, 40 images would take about" in shown
    assert {record.cell.images for record in read_records(tmp_path)} == {40}
    same = runner.invoke(app, command, env=WIDE)
    assert "1 cells are already finished" in same.output
    assert "left out: bn, 40 images would take about" in " ".join(same.output.split()), "and what it left out"
    again = runner.invoke(app, [*command[:-4], "--budget", "1h", "--out", str(tmp_path)], env=WIDE)
    assert {record.cell.images for record in read_records(tmp_path)} == {40}, "a run keeps the images it began with"
    assert "[1/1] bn on pure:fog, seed 0" in again.output


def test_a_budget_for_everything_runs_nothing_again(tmp_path: Path) -> None:
    images = midway.data.load("cifar10-mini").images[:20]
    for number, image in enumerate(images):
        (folder := tmp_path / "images" / f"class{number % 10}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{number}.png")
    own = ["--data", "folder", "--root", str(tmp_path / "images"), "--methods", "bn", "--shifts", "fog"]
    command = ["paper", "pure", *own, "--batch-size", "10", "--out", str(tmp_path / "out")]
    assert runner.invoke(app, command, env=WIDE).exit_code == 0
    again = runner.invoke(app, [*command, "--budget", "1h"], env=WIDE)
    assert "2 cells are already finished" in again.output, again.output
    assert len(read_records(tmp_path / "out")) == 2


def test_seeds_give_means_with_their_spread(tmp_path: Path) -> None:
    options = ["--images", "40", "--batch-size", "20", "--seeds", "2", "--shifts", "fog"]
    answer = runner.invoke(app, ["paper", "pure", "--methods", "bn", *options, "--out", str(tmp_path)], env=WIDE)
    assert answer.exit_code == 0, answer.output
    table = json.loads((tmp_path / "table.json").read_text())[0]
    measured = [r.result.accuracy for r in read_records(tmp_path) if r.result is not None and r.cell.label == "bn"]
    cell = next(row for row in table["rows"] if row["label"] == "bn")["values"][0]
    assert cell["mean"] == sum(measured) / 2
    assert cell["spread"] == pytest.approx(abs(measured[0] - measured[1]) / 2**0.5)
    assert "mean ± standard deviation over 2 seeds" in table["notes"]


def test_complexity_shows_both_counts(tmp_path: Path) -> None:
    options = ["--network", "resnet20", "--methods", "source,tent", "--images", "4", "--out", str(tmp_path)]
    answer = runner.invoke(app, ["paper", "complexity", *options], env={"COLUMNS": "200"})
    assert answer.exit_code == 0, answer.output
    found = numbers(tmp_path)
    assert found["mita_1_sgld_step", "as published", "GFLOPs per image", "paper"] == 42.02
    forward = found["source", "as published", "GFLOPs per image", "ours"]
    assert found["mita_1_sgld_step", "as published", "GFLOPs per image", "ours"] == pytest.approx(8 * forward)
    assert found["tent", "true cost", "backward passes", "ours"] == 1
    true = found["source", "true cost", "GFLOPs per image", "ours"]
    assert 2 * forward * 0.9 < true < 2 * forward  # two for a multiply-add, but nothing for the norms
    assert ("lame", "true cost", "GFLOPs per image", "ours") not in found


def test_mistakes_are_named_before_any_work(tmp_path: Path) -> None:
    for options, message in (
        (["pure", "--methods", "tnet"], "unknown row of the pure table 'tnet': did you mean 'tent'"),
        (["mixture", "--shifts", "fog/snow"], "unknown column of the mixture table 'fog/snow'"),
        (["pure", "--budget", "soon"], "'soon' is not a duration"),
        (["pure", "--data", "cifar10-mega"], "unknown data set 'cifar10-mega'"),
    ):
        answer = runner.invoke(app, ["paper", *options, "--out", str(tmp_path)])
        assert message in str(answer.exception)
        assert not (tmp_path / "table.md").exists()


def test_what_means_nothing_for_complexity_is_refused() -> None:
    answer = runner.invoke(app, ["paper", "complexity", "--seeds", "5", "--jobs", "7"])
    assert isinstance(answer.exception, ValueError)
    assert str(answer.exception).startswith("--seeds, --jobs: the complexity table is of one batch on one core")
