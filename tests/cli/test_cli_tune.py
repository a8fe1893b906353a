from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import midway
from midway.adaptation import registry
from midway.bench import Cell, load_plan, read_records
from midway.cli import app
from midway.report import read_run
from midway.tune import SettingsAccuracy, result
from midway.tune import study as studies

runner = CliRunner()
SMALL = ["--images", "120", "--batch-size", "60", "--trials", "6"]
ONE = ["--scenarios", "pure:spatter"]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """SettingsAccuracy TENT by a formula, and measure the gain on two small streams."""

    def toy(cells: Sequence[Cell], streams: Any, resources: Any, *, on_round: Any) -> SettingsAccuracy:
        value = 80.0 - abs(cells[0].settings["lr"] - 0.003) * 1000
        return SettingsAccuracy(value, {str(cell.scenario): value for cell in cells}, {})

    monkeypatch.setattr(studies, "measure_accuracy", toy)
    monkeypatch.setattr(result, "HELD_OUT_SCENARIOS", ("pure:fog", "mixture:fog/snow@0.5"))


def test_tune_finds_writes_and_measures_the_gain(tmp_path: Path) -> None:
    answer = runner.invoke(app, ["tune", "tent", *SMALL, "--out", str(tmp_path)], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    found = json.loads((tmp_path / "study.json").read_text())
    values = [trial["accuracy"] for trial in found["trials"]]
    assert values[0] == pytest.approx(78)
    best = max(values)
    assert f"Best, trial {values.index(best)}: {best:.2f} %, {best - values[0]:+.2f} points against" in answer.output
    grid = load_plan(tmp_path / "best.toml")
    assert grid.methods[1].settings == found["trials"][values.index(best)]["settings"]
    measured = {(r.cell.label, str(r.cell.scenario)): r.result for r in read_records(tmp_path / "held_out")}
    assert len(measured) == 4
    tuned, defaults = (
        [r.accuracy for (label, _), r in measured.items() if r and word in label] for word in ("tuned", "def")
    )
    difference = sum(tuned) / 2 - sum(defaults) / 2
    assert f"On corruptions outside the search: {difference:+.2f}" in answer.output
    assert "against the defaults (" in answer.output
    for name in ("history.svg", "importance.svg", "study.journal"):
        assert (tmp_path / name).stat().st_size > 0
    page = (tmp_path / "report.html").read_text()
    assert 'id="search"' in page
    assert page.count('data-section="') == 2  # the search, and the gain on other streams

    again = runner.invoke(app, ["tune", "tent", *SMALL, "--out", str(tmp_path), "--no-gain"])
    assert again.exit_code == 0
    assert "trial 0" not in again.output  # nothing is left to do
    assert json.loads((tmp_path / "study.json").read_text()) == found


def test_streams_without_an_outlier_are_left_out_of_the_gain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        result, "HELD_OUT_SCENARIOS", ("pure:fog", "outlier:fog/snow@0.001")
    )  # no outlier in 120 images
    answer = runner.invoke(app, ["tune", "tent", *SMALL, *ONE, "--out", str(tmp_path)], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    assert load_plan(tmp_path / "best.toml").scenarios == ("pure:fog",)
    assert "there are no outliers in outlier:fog/snow@0.001: left out" in (tmp_path / "best.toml").read_text()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--address", "auto"], "--address is not an option of the engine local; it is one of ray"),
        (["--gpus-per-task", "1"], "--gpus-per-task is not an option of the engine local"),
        (["--device", "cuda"], "--device: this machine has no GPU"),
        (["--data", "pacs", "--root", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_is_said_before_the_search(tmp_path: Path, flags: list[str], message: str) -> None:
    if "cuda" in flags and torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    answer = runner.invoke(app, ["tune", "tent", *SMALL, *flags, "--out", str(tmp_path / "out")])
    assert answer.exit_code == 1
    assert message in str(answer.exception)
    assert not (tmp_path / "out").exists()


def test_an_interrupt_while_the_gain_is_measured_keeps_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("midway.cli.tune.measure_gain", interrupted)
    answer = runner.invoke(app, ["tune", "tent", *SMALL, *ONE, "--out", str(tmp_path)])
    assert answer.exit_code == 130
    assert "Stopped while measuring the gain" in answer.output
    assert 'id="search"' in (tmp_path / "report.html").read_text()


def test_another_search_does_not_take_the_place_of_one(tmp_path: Path) -> None:
    command = ["tune", "tent", *SMALL, *ONE, "--no-gain", "--out", str(tmp_path)]
    assert runner.invoke(app, command, catch_exceptions=False).exit_code == 0
    found = (tmp_path / "study.json").read_bytes()
    answer = runner.invoke(app, [*command, "--seed", "1"])
    assert "has the result of another search (tent-" in str(answer.exception)
    assert (tmp_path / "study.json").read_bytes() == found


def test_what_was_the_best_before_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = itertools.count(60)
    monkeypatch.setattr(
        studies, "measure_accuracy", lambda *_, **__: SettingsAccuracy(float(next(values)), {}, {})
    )  # each better
    settings = []
    for trials in ("2", "3"):
        command = ["tune", "tent", *SMALL[:4], *ONE, "--trials", trials, "--out", str(tmp_path)]
        assert runner.invoke(app, command, catch_exceptions=False).exit_code == 0
        settings.append(load_plan(tmp_path / "best.toml").methods[-1].settings)
    assert settings[0] != settings[1]
    assert len(read_records(tmp_path / "held_out")) == 6
    (comparison,) = read_run(tmp_path).comparisons
    assert len(comparison.records) == 4
    tuned = [record.cell for record in comparison.records if record.cell.label == "tent, tuned"]
    assert [cell.settings["lr"] for cell in tuned] == [settings[1]["lr"]] * 2


def test_a_gain_that_cannot_be_measured_costs_neither_settings_nor_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result, "HELD_OUT_SCENARIOS", ("pure:fog", "pure:nonsense"))
    answer = runner.invoke(app, ["tune", "tent", *SMALL, *ONE, "--out", str(tmp_path)])
    assert isinstance(answer.exception, ValueError)
    assert "nonsense" in str(answer.exception)
    assert "tent, tuned" in (tmp_path / "best.toml").read_text()
    assert 'id="search"' in (tmp_path / "report.html").read_text()


def test_what_is_given_is_held_and_streams_can_be_chosen(tmp_path: Path) -> None:
    command = [
        "tune",
        'tent(steps=2, statistics="clustered")',
        "--seed",
        "1",
        "--scenarios",
        "pure:spatter, mixture:saturate/spatter",
    ]
    answer = runner.invoke(app, [*command, *SMALL, "--out", str(tmp_path), "--no-gain"], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    found = json.loads((tmp_path / "study.json").read_text())
    assert {tuple(trial["settings"]) for trial in found["trials"]} == {("lr",)}
    assert list(found["trials"][0]["by_stream"]) == ["pure:spatter", "mixture:saturate/spatter@0.5"]
    planned = load_plan(tmp_path / "best.toml").methods
    assert planned[0].settings == {"steps": 2, "statistics": "clustered"}
    assert all(entry.settings.items() >= planned[0].settings.items() for entry in planned)


def test_a_method_of_ones_own_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tuned_by_me.py").write_text(
        "import midway\nfrom midway.methods import About, register\n"
        "@register\nclass Mine(midway.Tent):\n"
        '    """Is TENT.\n\n    Args:\n        lr: Step size.\n    """\n'
        "    about = About('tuned_by_me', 'Mine', '-', 'batch', 'norm scales and shifts', 'before', '1 F + 1 B')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(registry.METHODS, "_objects", dict(registry.METHODS))
    with_import = ["--import", "tuned_by_me"]
    assert "tuned_by_me" in runner.invoke(app, ["methods", *with_import]).output
    assert "Step size" in runner.invoke(app, ["methods", "show", "tuned_by_me", *with_import]).output
    command = ["tune", "tuned_by_me", *with_import, *SMALL, *ONE, "--out", str(tmp_path / "out")]
    answer = runner.invoke(app, command, catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    assert 'import = "tuned_by_me"' in (tmp_path / "out" / "best.toml").read_text()
    assert len(read_records(tmp_path / "out" / "held_out")) == 4
    del sys.modules["tuned_by_me"]


def test_an_interrupt_keeps_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole: Callable[..., SettingsAccuracy] = vars(studies)["measure_accuracy"]
    calls = 0

    def interrupted(*args: Any, **kwargs: Any) -> SettingsAccuracy:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return whole(*args, **kwargs)

    monkeypatch.setattr(studies, "measure_accuracy", interrupted)
    command = ["tune", "tent", *SMALL, "--out", str(tmp_path), "--no-gain"]
    answer = runner.invoke(app, command)
    assert answer.exit_code == 130
    assert "Run the same command to continue" in answer.output
    answer = runner.invoke(app, command)
    assert answer.exit_code == 0
    assert calls == 3 + 4  # two were finished, the third is run again
    assert len(json.loads((tmp_path / "study.json").read_text())["trials"]) == 6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tnet"], "unknown method 'tnet': did you mean 'tent'?"),
        (["source"], "source declares nothing to search"),
        (["tent,bn"], "'tent,bn' has 2 methods: search one at a time"),
        (["bn(prior=4)"], "no hyper-parameter of bn is left to search"),
        (["tent", "--scenarios", "pure:fog"], "results are reported on fog, a search must not see it"),
        (["tent", "--timeout", "soon"], "'soon' is not a duration"),
        (["tent", "--images", "20"], "20 images at ratio 0.005 contain no image of gaussian_blur"),
        (["tent", "--data", "nowhere"], "unknown data set 'nowhere'"),
    ],
)
def test_what_cannot_be_searched_is_said(arguments: list[str], said: str, tmp_path: Path) -> None:
    answer = runner.invoke(app, ["tune", *arguments, "--out", str(tmp_path)])
    assert said in str(answer.exception)


@pytest.mark.parametrize("left", [0, 40])
def test_a_truncated_result_is_written_again_from_the_journal(tmp_path: Path, left: int) -> None:
    command = ["tune", "tent", *SMALL, *ONE, "--no-gain", "--out", str(tmp_path)]
    assert runner.invoke(app, command).exit_code == 0
    before = {name: (tmp_path / name).read_bytes() for name in ("study.json", "best.toml")}
    for name, content in before.items():
        (tmp_path / name).write_bytes(content[:left])
    again = runner.invoke(app, command)
    assert again.exit_code == 0, again.output
    assert "study.json was damaged" in again.output.replace("\n", "")
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert (tmp_path / "study.json.damaged").stat().st_size == left


def class_folders(folder: Path, count: int) -> Path:
    """Write thirty images of CIFAR-10 in class folders, those of the first classes."""
    data = midway.data.load("cifar10-mini").first(200)
    chosen = [(image, label) for image, label in zip(data.images[:], data.labels, strict=True) if label < count]
    for index, (image, label) in enumerate(chosen[:30]):
        path = folder / data.class_names[label] / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    return folder


OWN = "import midway\n\n\ndef create():\n    return midway.models.load('wrn16_2.cifar10')\n"


def test_some_class_folders_of_ones_own_need_the_classes(tmp_path: Path) -> None:
    """Without them the trials would be scored against wrong labels; no trial begins and no folder is left."""
    folder, network = class_folders(tmp_path / "images", 3), tmp_path / "mynet.py"
    network.write_text(OWN)
    command = ["tune", "tent", "--data", "folder", "--root", str(folder), "--network", f"{network}:create"]
    command += ["--scenarios", "pure:clean", "--no-gain", "--trials", "1", "--batch-size", "10"]
    refused = runner.invoke(app, [*command, "--out", str(tmp_path / "refused")])
    assert isinstance(refused.exception, ValueError), refused.output
    assert "pure:clean has 3 class folders and the network 10 logits" in str(refused.exception)
    assert "trial" not in refused.output
    assert not (tmp_path / "refused").exists()

    names = ",".join(midway.data.load("cifar10-mini").class_names)
    answer = runner.invoke(app, [*command, "--classes", names, "--out", str(tmp_path / "out")], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    assert "trial 0 complete" in answer.output
    planned = load_plan(tmp_path / "out" / "best.toml")
    assert (planned.data, planned.root, planned.classes) == (("folder",), str(folder), tuple(names.split(",")))


def test_images_in_files_are_resized(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "images", 10)
    Image.new("RGB", (50, 40)).save(folder / "cat" / "large.png")
    command = ["tune", "tent", "--data", "folder", "--root", str(folder), "--scenarios", "pure:clean", "--no-gain"]
    command += ["--trials", "1", "--batch-size", "10", "--size", "32", "--out", str(tmp_path / "out")]
    names = ",".join(midway.data.load("cifar10-mini").class_names)
    answer = runner.invoke(app, [*command, "--classes", names], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    assert load_plan(tmp_path / "out" / "best.toml").size == 32


def test_a_full_disk_keeps_the_earlier_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["tune", "tent", *SMALL, *ONE, "--no-gain", "--out", str(tmp_path)]
    assert runner.invoke(app, command).exit_code == 0
    before = (tmp_path / "best.toml").read_bytes()
    replaced = Path.replace

    def full(self: Path, target: Path) -> Path:
        if target.name == "best.toml":
            raise OSError(28, "No space left on device")
        return replaced(self, target)

    monkeypatch.setattr(Path, "replace", full)
    assert isinstance(runner.invoke(app, command).exception, OSError)
    assert (tmp_path / "best.toml").read_bytes() == before
    assert not list(tmp_path.glob(".*.partial"))
