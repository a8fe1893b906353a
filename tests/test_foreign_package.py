"""Acceptance: a corruption and a scenario of another package are known wherever the built-in ones are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import midway
from foreign_package import environment, installed, write_package
from midway.data import corruption_names
from midway.data.corruptions import REGISTRY as CORRUPTIONS
from midway.streams import Scenario, build, expand
from midway.streams.registry import REGISTRY as SCENARIOS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_package(tmp_path / "site-packages")


def test_both_are_known_in_this_process_and_change_no_set(folder: Path) -> None:
    all_, tuning = expand("pure:all"), expand("continual:tuning")
    data = midway.data.load("cifar10-mini").first(24)
    with installed(folder, CORRUPTIONS, SCENARIOS):
        assert corruption_names("extra") == ("darkness",)
        assert expand("pure:all") == all_
        assert expand("continual:tuning") == tuning
        dark = midway.corrupt(data.images, "darkness", severity=3)
        assert np.array_equal(dark, (data.images * 0.5).astype(np.uint8))

        stream = build("alternating:darkness/clean@8#3", data, batch_size=12)
        assert str(stream.name) == "alternating:darkness/clean@8#3"
        assert stream.groups == Scenario.parse(stream.name).groups == ("darkness", "clean")
        assert stream.group.tolist() == [0] * 8 + [1] * 8 + [0] * 8
        images = np.concatenate([batch.images.permute(0, 2, 3, 1).numpy() for batch in stream])
        expected = np.where((stream.group == 0)[:, None, None, None], dark, data.images)
        assert np.array_equal((images * 255).round().astype(np.uint8), expected)
    assert "darkness" not in CORRUPTIONS
    assert "alternating" not in SCENARIOS


CODE = """
import midway
assert "darkness" in midway.data.corruption_names("extra")
data = midway.data.load("cifar10-mini", corruption="darkness").first(16)
print(midway.streams.build("alternating:darkness/fog", midway.data.load("cifar10-mini").first(16), batch_size=8))
"""


def test_both_are_known_in_a_new_process_that_imports_midway_alone(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE], capture_output=True, text=True, env=environment(folder)
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "Stream('alternating:darkness/fog@8', 16 images in 2 batches)"


def test_the_corruption_is_written_by_midway_data_make(folder: Path, tmp_path: Path) -> None:
    command = ["data", "make", "mini-c", "--from", "cifar10-mini", "--corruption", "darkness", "--severity", "5"]
    done = subprocess.run(
        [sys.executable, "-m", "midway", *command, "--jobs", "2", "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        env=environment(folder),
    )
    assert done.returncode == 0, done.stderr
    clean = midway.data.load("cifar10-mini").images
    assert np.array_equal(np.load(tmp_path / "out" / "darkness.npy"), (clean * 0.1).astype(np.uint8))


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_both_appear_in_midway_run_and_in_the_report(folder: Path, tmp_path: Path, jobs: str) -> None:
    scenarios = "pure:darkness,alternating:darkness/fog@8"
    plan = ["--methods", "source,bn", "--scenarios", scenarios, "--images", "32", "--batch-sizes", "16"]
    done = subprocess.run(
        [sys.executable, "-m", "midway", "run", *plan, "--jobs", jobs, "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        env=environment(folder),
    )
    assert done.returncode == 0, done.stderr
    assert "alternating" in done.stdout
    code = f"import midway.report as r; print(sorted(map(str, r.frame({str(tmp_path / 'out')!r}).unique('scenario'))))"
    listed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(folder))
    assert listed.stdout.strip() == "['alternating:darkness/fog@8', 'pure:darkness']", listed.stderr
    page = (tmp_path / "out" / "report.html").read_text()
    assert "darkness" in page
    assert "alternating" in page
    without = [sys.executable, "-m", "midway", "report", str(tmp_path / "out")]
    refused = subprocess.run(without, capture_output=True, text=True, env=environment(tmp_path))
    assert refused.returncode == 1
    assert "unknown scenario 'alternating'" in refused.stderr
    assert "needs that package: install it, or name it with --import" in " ".join(refused.stderr.split())


EVERYTHING = """
import midway
from midway.adaptation.about import About
from midway.adaptation.base import Method
from midway.adaptation.registry import register
from midway.bench.engines import LocalEngine, engine
from midway.data import dataset
from midway.metrics import metric
from midway.report import Frame
from midway.report.figures import figure
from midway.report.figures.drawing import new_figure


@register
class Halved(Method):
    \"\"\"Returns half of the source's logits.\"\"\"

    about = About("halved", "Halved", "-", "none", "nothing", "-", "1 F")

    def step(self, images):
        return self.model(images) / 2


@metric("mean confidence", unit="%", by_group=True)
def mean_confidence(answers):
    return 100 * answers.logits.softmax(dim=1).amax(dim=1).mean().item()


@engine("inline")
class InlineEngine(LocalEngine):
    \"\"\"Runs cells in this process.\"\"\"


@dataset("handful", remedy="it is always installed.")
def load_handful(root):
    return midway.data.load("cifar10-mini").first(32)


@figure("labels", title="Labels", caption="All labels.", source=Frame, requires="a result",
        build=lambda frame: frame.unique("label"))
def draw_labels(labels):
    drawing = new_figure(2, 2)
    drawing.text(0.1, 0.5, ", ".join(labels))
    return drawing
"""
POINTS = {
    "midway.methods": "Halved",
    "midway.metrics": "mean_confidence",
    "midway.engines": "InlineEngine",
    "midway.datasets": "load_handful",
    "midway.figures": "draw_labels",
}


def test_a_method_metric_engine_data_set_and_figure_take_one_decorator_each(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "site-packages", "other_midway", EVERYTHING, POINTS)
    out = tmp_path / "out"

    def midway_command(*arguments: str) -> str:
        command = [sys.executable, "-m", "midway", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(folder))
        assert done.returncode == 0, done.stderr
        return done.stdout

    plan = ["--methods", "source,halved", "--data", "handful", "--engine", "inline", "--batch-sizes", "16"]
    assert "halved" in midway_command("run", *plan, "--out", str(out))
    assert "mean confidence" in (out / "report.html").read_text()
    midway_command("report", str(out), "--metric", "mean_confidence", "--table", str(out / "t.csv"))
    assert "halved" in (out / "t.csv").read_text()
    assert "mean_confidence" in (out / "t.csv").read_text()
    midway_command("figures", str(out), "--only", "labels")
    assert list(out.rglob("labels.*"))
    for kind, name in {"methods": "halved", "metrics": "mean_confidence", "engines": "inline"}.items():
        assert name in midway_command("list", kind)


def test_a_broken_package_is_a_warning(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "site-packages", "broken_midway", "import no_such_module")
    message = "broken_midway:darkness cannot be imported: No module named"
    with installed(folder, CORRUPTIONS, name="broken_midway"), pytest.warns(UserWarning, match=message):
        assert "darkness" not in CORRUPTIONS
