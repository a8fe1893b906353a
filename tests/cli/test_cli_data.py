from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from midway import data
from midway.cli.data import app
from midway.cli.options import parse_severities

run = CliRunner()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIDWAY_DATA", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "300")
    return tmp_path / "home"


def test_make_then_list_then_read(home: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    (home / "cifar10").mkdir(parents=True)
    np.savez(home / "cifar10" / "test.npz", images=images, labels=[1, 2, 3])
    arguments = ["make", "cifar10-c", "--severity", "4-5", "--corruption", "contrast,pixelate", "--jobs", "1"]
    made = run.invoke(app, arguments)
    assert made.exit_code == 0, made.output
    assert f"cifar10-c is in {home / 'cifar10-c'}" in made.stdout
    assert "contrast: done" in made.stderr
    loaded = data.load("cifar10-c", corruption="pixelate", severity=4)
    np.testing.assert_array_equal(loaded.images[:], data.corrupt(images, "pixelate", severity=4))
    listed = run.invoke(app, ["ls", "--check"])
    assert listed.exit_code == 0
    where, *lines = listed.stdout.splitlines()
    assert where == f"Data sets in {home}, a folder each:"
    rows = [line.split() for line in lines if not line.startswith("  ")]
    remedies = dict(line.strip().split(": ", 1) for line in lines if line.startswith("  "))
    assert remedies["imagenet-v2"].startswith("get the matched-frequency set from github.com/modestyachts/ImageNetV2")
    assert {"imagenet-r", "imagenet-a", "imagenet-sketch", "imagenet-d109", "pacs"} < set(remedies)
    assert "cifar10" not in remedies
    assert [row[0] for row in rows] == ["data", "cifar10-mini", "cifar10", "cifar10-c", "Not"]
    assert rows[-1][:6] == ["Not", "on", "this", "machine:", "cifar100,", "cifar100-c,"]
    assert "`midway data fetch` downloads cifar10 and cifar100," in listed.stdout
    assert "folder" not in rows[-1][:14]
    assert ["yes" in row for row in rows[1:-1]] == [True, False, True]


def test_make_from_a_folder(tmp_path: Path, home: Path) -> None:
    (tmp_path / "clean" / "cat").mkdir(parents=True)
    Image.new("RGB", (50, 40), (9, 90, 200)).save(tmp_path / "clean" / "cat" / "tom.png")
    arguments = ["make", "mine", "--from", str(tmp_path / "clean"), "--corruption", "fog", "--severity", "3"]
    made = run.invoke(app, [*arguments, "--jobs", "1", "--size", "64"])
    assert made.exit_code == 0, made.output
    with Image.open(home / "mine" / "fog" / "3" / "cat" / "tom.JPEG") as image:
        assert image.size == (64, 64)


def test_preview(tmp_path: Path) -> None:
    shown = run.invoke(app, ["preview", "--out", str(tmp_path / "sheet.png"), "--image", "2"])
    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "sheet.png").stat().st_size > 50_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fetch", "imagenet"], "imagenet cannot be fetched"),
        (["make", "cifar10-c"], "midway data fetch cifar10"),
        (["make", "mine"], "must be given with --from"),
        (["make", "cifar10-mini-c", "--severity", "0-5"], "severities are 1 to 5"),
        (["make", "cifar10-mini-c", "--corruption", "frog"], "did you mean 'fog'"),
        (["preview", "--from", "no/such/folder"], "unknown data set"),
    ],
)
def test_user_errors_are_one_sentence(arguments: list[str], message: str) -> None:
    outcome = run.invoke(app, arguments)
    assert isinstance(outcome.exception, ValueError | FileNotFoundError)
    assert message in str(outcome.exception)


@pytest.mark.parametrize(("text", "expected"), [("5", (5,)), ("1-5", (1, 2, 3, 4, 5)), ("3,1-2", (1, 2, 3))])
def test_severities(text: str, expected: tuple[int, ...]) -> None:
    assert parse_severities(text) == expected


@pytest.mark.parametrize("text", ["", "a", "1-", "5-1", "1-9", "-3"])
def test_invalid_severities(text: str) -> None:
    with pytest.raises(ValueError, match="is not understood"):
        parse_severities(text)
