"""`midway compare`, and `--json` on listings and runs."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from torch import nn
from typer.testing import CliRunner

import midway
from midway.bench import read_records
from midway.cli import app
from midway.cli.compare import trained_network

runner = CliRunner()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve images of CIFAR-10 in class folders."""
    data = midway.data.load("cifar10-mini").first(12)
    for index, (image, label) in enumerate(zip(data.images[:], data.labels, strict=True)):
        path = tmp_path / "images" / data.class_names[label] / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    return tmp_path / "images"


def from_json(*arguments: str) -> Any:
    answer = runner.invoke(app, [*arguments, "--json"])
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def compare(folder: Path, *arguments: str) -> Any:
    return runner.invoke(app, ["compare", "wrn16_2.cifar10", str(folder), "--methods", "bn", *arguments])


def test_class_folders_need_the_classes_and_give_accuracies(folder: Path, tmp_path: Path) -> None:
    answer = compare(folder)
    assert isinstance(answer.exception, ValueError)
    assert "class folders and the network 10 logits" in str(answer.exception)
    names = ",".join(midway.data.load("cifar10-mini").class_names)
    answer = compare(folder, "--classes", names, "--out", str(tmp_path / "out"), "--report", str(tmp_path / "a.html"))
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.splitlines()[0].split() == [
        "method",
        "accuracy",
        "%",
        "NLL",
        "ECE",
        "%",
        "changed",
        "%",
        "s/batch",
    ]
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
    assert len(read_records(tmp_path / "out")) == 2
    report = runner.invoke(app, ["report", str(tmp_path / "out")])
    assert report.exit_code == 0, report.output


def test_other_folders_give_scores(folder: Path, tmp_path: Path) -> None:
    plain = next(folder.iterdir())
    rows = from_json("compare", "wrn16_2.cifar10", str(plain), "--methods", "bn", "--out", str(tmp_path / "out"))
    assert rows["labelled"] is False
    assert [row["method"] for row in rows["methods"]] == ["source", "bn"]
    assert rows["methods"][0]["changed"] == 0
    report = runner.invoke(app, ["report", str(tmp_path / "out")])
    assert isinstance(report.exception, ValueError)
    assert "has no accuracies, its images have no labels" in str(report.exception)


@pytest.mark.parametrize(
    ("network", "data", "message"),
    [
        ("wrn16_2", "cifar10-mini", "wrn16_2 is an architecture without weights: write wrn16_2@FILE"),
        ("wrn16_2.cifar", "cifar10-mini", r"did you mean 'wrn16_2\.cifar10'"),
        ("wrn16_2.cifar10", "/no/such/folder", "there is no folder /no/such/folder: give one with"),
        ("wrn16_2.cifar10", "photo", "there is no folder photo, and no data set has this name"),
        ("network.py", "cifar10-mini", "network.py names no function: write network.py:FUNCTION"),
    ],
)
def test_what_is_missing_is_named(network: str, data: str, message: str) -> None:
    answer = runner.invoke(app, ["compare", network, data])
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        raise answer.exception or AssertionError


def test_a_method_that_failed_is_told_after_the_table_and_the_status_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(network: Any, name: str, **settings: Any) -> Any:
        if name in ("bn", "tent"):
            raise RuntimeError("no")
        return midway.adapt(network, name, **settings)

    monkeypatch.setattr("midway.comparison.run.adapt", failing)
    command = ["compare", "wrn16_2.cifar10", "cifar10-mini", "--images", "8", "--batch-size", "4"]
    for methods, status in (("bn,tent", 1), ("bn,t3a", 1), ("t3a", 0), ("source", 0)):
        page = tmp_path / f"{methods}.md"
        answer = runner.invoke(app, [*command, "--methods", methods, "--report", str(page)])
        assert answer.exit_code == status, answer.output
        assert answer.stdout.startswith("method")
        assert ("bn failed: RuntimeError: no" in answer.stdout) == ("bn" in methods)
        assert page.is_file()
    assert runner.invoke(app, [*command, "--methods", "bn,t3a", "--json"]).exit_code == 1


def test_default_methods_that_the_network_does_not_support_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    failed: set[str] = {"bn"}

    def failing(network: Any, name: str, **settings: Any) -> Any:
        if name in failed:
            raise RuntimeError("no")
        return midway.adapt(network, name, **settings)

    monkeypatch.setattr("midway.comparison.run.adapt", failing)
    command = ["compare", "wrn16_2.cifar10", "cifar10-mini", "--images", "8", "--batch-size", "4"]
    assert runner.invoke(app, command).exit_code == 0
    failed |= {*midway.methods.names()} - {"source"}
    assert runner.invoke(app, command).exit_code == 1


@pytest.mark.parametrize("command", ["compare", "recommend"])
def test_the_device_can_be_chosen(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = [command, "wrn16_2.cifar10", "cifar10-mini", "--images", "8", "--batch-size", "4", "--methods", "bn"]
    for device in ("cpu", "auto"):
        answer = runner.invoke(app, [*arguments, "--device", device])
        assert answer.exit_code == 0, answer.output
    unknown = runner.invoke(app, [*arguments, "--device", "gpu"])
    assert str(unknown.exception) == "device 'gpu' is not known to torch: use cpu, cuda or auto."
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    absent = runner.invoke(app, [*arguments, "--device", "cuda"])
    assert str(absent.exception) == "--device: this machine has no GPU that torch can use: use cpu or auto."


def test_the_network_is_moved_to_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = trained_network("wrn16_2.cifar10", "meta")  # a device that every machine has
    assert {parameter.device.type for parameter in moved.parameters()} == {"meta"}
    moves: list[str] = []

    def move(network: nn.Module, device: str) -> nn.Module:
        moves.append(device)
        return network

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr(nn.Module, "to", move)
    trained_network("wrn16_2.cifar10", "auto")
    assert moves[-1:] == ["cuda"]


def test_listings_as_json() -> None:
    assert {row["name"] for row in from_json("methods")} == set(midway.methods.names())
    shown = from_json("methods", "show", "tent")
    assert shown["hyperparameters"]["steps"]["default"] == 1
    assert shown["hyperparameters"]["lr"]["tuned"] == midway.methods.preset("tent", "tuned")["lr"]
    assert from_json("methods", "show", "memo")["hyperparameters"]["lr"]["tuned"] is None
    assert "accuracy" in {row["name"] for row in from_json("list", "metrics")}
    assert "changed" in {row["name"] for row in from_json("list", "metrics")}
    models = from_json("models")
    assert models["trained"][0]["name"] == "wrn16_2.cifar10"
    assert models["denoisers"][0]["name"] == "unet.cifar10"
    assert "resnet26_gn" in models["architectures"]
    assert "cifar10-mini" in {row["name"] for row in from_json("data", "ls")}


def test_runs_as_json(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "midway")
    flags = ["run", "--methods", "source,bn", "--images", "8", "--batch-sizes", "4", "--jobs", "1", "--device", "cpu"]
    planned = from_json(*flags, "--out", str(tmp_path), "--dry-run")
    assert [row["done"] for row in planned] == [False, False]
    rows = from_json(*flags, "--out", str(tmp_path))
    assert [row["label"] for row in rows] == ["source", "bn"]
    assert [row["key"] for row in rows] == [row["key"] for row in planned]
    assert rows[0]["metrics"]["accuracy"] == read_records(tmp_path)[0].result.accuracy  # type: ignore[union-attr]
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["finished", "finished"]
    assert all(row["done"] for row in from_json(*flags, "--out", str(tmp_path), "--dry-run"))


@pytest.mark.parametrize("arguments", [["models"], ["methods"], ["list", "metrics"], ["methods", "show", "mita"]])
def test_listings_fit_80_columns_without_cut_words(arguments: list[str]) -> None:
    answer = runner.invoke(app, arguments, env={"COLUMNS": "80"})
    assert max(map(len, answer.output.splitlines())) <= 80
    assert "…" not in answer.output
