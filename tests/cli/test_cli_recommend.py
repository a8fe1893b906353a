"""`midway recommend`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

import midway
from midway.cli import app

runner = CliRunner()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Thirty images of CIFAR-10 under noise, without class folders."""
    (tmp_path / "images").mkdir()
    data = midway.data.load("cifar10-mini", corruption="gaussian_noise").first(30)
    for index, image in enumerate(data.images[:]):
        Image.fromarray(image).save(tmp_path / "images" / f"{index:02}.png")
    return tmp_path / "images"


def test_a_folder_without_labels(folder: Path) -> None:
    arguments = ["recommend", "wrn16_2.cifar10", str(folder), "--methods", "bn,lame", "--batch-size", "15"]
    answer = runner.invoke(app, [*arguments, "--json"])
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    assert {row["method"] for row in found["methods"]} == {"source", "bn", "lame"}
    assert found["recommended"] == next(row["method"] for row in found["methods"] if row["recommended"])
    assert found["leave"] == (found["recommended"] == "source")
    shown = runner.invoke(app, arguments)
    assert "agrees with mirrored views in" in " ".join(shown.stdout.split())
    assert "adapted = midway.adapt(model, " in shown.stdout or "Leave the network as it is" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_the_status_says_whether_every_candidate_failed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {"bn"}

    def failing(network: Any, name: str, **settings: Any) -> Any:
        if name in failed:
            raise RuntimeError("no")
        return midway.adapt(network, name, **settings)

    monkeypatch.setattr("midway.comparison.run.adapt", failing)
    arguments = ["recommend", "wrn16_2.cifar10", str(folder), "--methods", "bn,lame", "--batch-size", "15"]
    assert runner.invoke(app, arguments).exit_code == 0
    failed.add("lame")
    answer = runner.invoke(app, arguments)
    assert answer.exit_code == 1
    assert "failed: RuntimeError: no" in answer.stdout
    assert "Leave the network as it is" in answer.stdout


def test_what_is_missing_is_named() -> None:
    answer = runner.invoke(app, ["recommend", "wrn16_2.cifar10", "/no/such/folder"])
    assert isinstance(answer.exception, FileNotFoundError)
    assert "there is no folder /no/such/folder: give one with" in str(answer.exception)
