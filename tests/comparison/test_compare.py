"""midway.compare: the same images for every method, with labels and without, stored and resumed."""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import midway
from midway.bench import read_records
from midway.metrics import METRICS, Predictions, compute, metric
from midway.testing import tiny_network

IMAGES = torch.rand(24, 3, 8, 8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(24) % 4


def quiet(*arguments: Any, **options: Any) -> midway.CompareResult:
    return midway.compare(*arguments, progress=False, **options)


def test_with_labels_the_numbers_are_those_of_evaluate() -> None:
    result = quiet(tiny_network(), (IMAGES, LABELS), "tent,bn", batch_size=8)
    assert [row["method"] for row in result.rows()] == ["source", "tent", "bn"]
    batches = [(IMAGES[start : start + 8], LABELS[start : start + 8]) for start in (0, 8, 16)]
    for name in ("source", "tent", "bn"):
        alone = midway.evaluate(midway.adapt(tiny_network(), name), batches)
        assert result[name].accuracy == alone.accuracy
        assert result[name].metrics["nll"] == alone.metrics["nll"]
    assert result.labelled
    assert "mirror_agreement" not in result["bn"].metrics


class Sided(nn.Module):
    """Class 1 if the right half is brighter than the left one, else class 0."""

    def forward(self, images: Tensor) -> Tensor:
        difference = images[..., 4:].mean(dim=(1, 2, 3)) - images[..., :4].mean(dim=(1, 2, 3))
        return 20 * torch.stack([-difference, difference], dim=1)


def test_scores_without_labels_by_hand() -> None:
    result = quiet(Sided(), IMAGES, "source(label='again')")
    metrics = result["source"].metrics
    assert not result.labelled
    assert metrics["mirror_agreement"] == 0
    assert metrics["changed"] == 0
    assert result["again"].metrics["changed"] == 0
    logits = Sided()(IMAGES).double()
    assert metrics["mean_entropy"] == pytest.approx(midway.functional.entropy(logits).mean().item(), abs=1e-6)
    share = (logits.argmax(1) == 1).double().mean()
    expected = torch.distributions.Bernoulli(share).entropy().exp().item()
    assert metrics["classes_used"] == pytest.approx(expected, abs=1e-5)
    assert "accuracy" not in metrics


def test_scores_of_known_answers() -> None:
    logits = torch.tensor([[9.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 0.0]])
    labels, group = torch.full((4,), -1), torch.zeros(4)
    scores = compute(
        Predictions(logits, labels, group, source=logits.flip(1), mirrored=logits[[0, 1, 2, 2]]), label_free=True
    )
    assert scores["changed"] == 100
    assert scores["mirror_agreement"] == 75
    collapsed = compute(Predictions(logits[[0, 0, 0, 0]], labels, group), label_free=True)
    assert collapsed["classes_used"] == pytest.approx(1)
    assert "changed" not in collapsed


def test_answering_mirrored_images_changes_nothing_else() -> None:
    plain = quiet(tiny_network(), (IMAGES, LABELS), "tent,mita", batch_size=8)
    scored = quiet(tiny_network(), (IMAGES, LABELS), "tent,mita", batch_size=8, scores=True)
    for name in ("tent", "mita"):
        assert scored[name].metrics["nll"] == plain[name].metrics["nll"]
        assert 0 <= scored[name].metrics["mirror_agreement"] <= 100


def test_a_new_score_is_a_column() -> None:
    @metric("confidence", unit="%", needs="logits")
    def confidence(predictions: Predictions) -> float:
        return 100 * predictions.logits.softmax(dim=1).amax(dim=1).mean().item()

    try:
        assert "confidence %" in str(quiet(tiny_network(), IMAGES, "bn"))
    finally:
        METRICS.remove("confidence")


def test_sources_that_can_be_read_once_are_kept_for_the_next_method() -> None:
    def once() -> Iterator[Any]:
        for start in (0, 8, 16):
            yield {"pixel_values": IMAGES[start : start + 8], "labels": LABELS[start : start + 8]}

    expected = quiet(tiny_network(), (IMAGES, LABELS), "bn", batch_size=8)
    assert quiet(tiny_network(), once(), "bn")["bn"].accuracy == expected["bn"].accuracy
    shuffled = DataLoader(TensorDataset(IMAGES, LABELS), batch_size=8, shuffle=True)
    result = quiet(tiny_network(), shuffled, "source(label='again')")
    assert result["again"].metrics["changed"] == 0
    assert quiet(tiny_network(), once(), "bn", images=10)["bn"].images == 10
    loader = DataLoader(TensorDataset(IMAGES, LABELS), batch_size=8)
    assert quiet(tiny_network(), loader, "bn")["bn"].accuracy == expected["bn"].accuracy


def test_folders_with_and_without_class_folders(tmp_path: Path) -> None:
    for name, value in (("cat", 0), ("dog", 100), ("hen", 200), ("owl", 250)):
        (tmp_path / name).mkdir()
        for index in range(3):
            Image.new("RGB", (8, 8), (value + index,) * 3).save(tmp_path / name / f"{index}.png")
    result = quiet(tiny_network(), tmp_path, "bn")
    assert (result.labelled, result["bn"].images) == (True, 12)
    unlabelled = quiet(tiny_network(), str(tmp_path / "cat"), "bn")
    assert (unlabelled.labelled, unlabelled["bn"].images) == (False, 3)
    subset = quiet(tiny_network(classes=1000), tmp_path, "bn", classes=[0, 10, 20, 30])
    assert subset["bn"].images == 12
    with pytest.raises(ValueError, match=r"^folder .* has 4 class folders and the network 1000 logits"):
        quiet(tiny_network(classes=1000), tmp_path, "bn")


def test_methods_are_given_as_text_or_as_classes() -> None:
    written, classes = (quiet(tiny_network(), IMAGES, methods) for methods in ("tent,bn", [midway.Tent, "bn"]))
    assert [row["method"] for row in classes.rows()] == ["source", "tent", "bn"]
    assert written["tent"].metrics["changed"] == classes["tent"].metrics["changed"]
    assert [row["method"] for row in quiet(tiny_network(), IMAGES, midway.BN).rows()] == ["source", "bn"]


def test_files_of_arrays_and_data_sets_with_a_corruption(tmp_path: Path) -> None:
    model = midway.models.load("wrn16_2.cifar10")
    data = midway.data.load("cifar10-mini", corruption="fog").first(20)
    direct = quiet(model, data, "bn")
    assert set(midway.evaluate(model, data).by_group) == {"images"}  # whether they are clean is not known
    np.savez(tmp_path / "both.npz", images=data.images[list(range(20))], labels=data.labels)
    np.savez(tmp_path / "alone.npz", image=data.images[list(range(20))])
    np.savez(tmp_path / "strange.npz", pictures=data.labels)
    for given in (tmp_path / "both.npz", "cifar10-mini:fog"):
        same = quiet(model, given, "bn", images=20)
        assert same["bn"].metrics["accuracy"] == direct["bn"].metrics["accuracy"]
    assert not quiet(model, str(tmp_path / "alone.npz"), "bn").labelled
    with pytest.raises(ValueError, match="has the arrays pictures: name that of the images image or"):
        quiet(model, tmp_path / "strange.npz", "bn")
    for name, content in {"text.npz": b"hello", "half.npz": (tmp_path / "both.npz").read_bytes()[:500]}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=r"cannot be read \(.*\): write it by numpy.savez"):
            quiet(model, tmp_path / name, "bn")
    with pytest.raises(ValueError, match="classes= and size= apply to images in files, not to arrays"):
        quiet(model, tmp_path / "both.npz", "bn", size=8)
    folder = tmp_path / "CIFAR-10-C"
    folder.mkdir()
    np.save(folder / "fog.npy", np.tile(data.images[list(range(20))], (5, 1, 1, 1)))
    np.save(folder / "labels.npy", np.tile(data.labels, 5))
    same = quiet(model, f"cifar10-c:fog@{folder}", "bn")
    assert same["bn"].metrics["accuracy"] == direct["bn"].metrics["accuracy"]
    with pytest.raises(ValueError, match=r"needs corruption=, .*fog. Write cifar10-c:CORRUPTION\."):
        quiet(model, f"cifar10-c@{folder}", "bn")


def test_images_in_files_are_resized_on_request(tmp_path: Path) -> None:
    for index in range(4):
        Image.new("RGB", (20, 16), (60 * index,) * 3).save(tmp_path / f"{index}.png")
    sides = set()
    network = tiny_network()
    network.register_forward_pre_hook(lambda _, inputs: sides.add(tuple(inputs[0].shape[2:])))
    quiet(network, tmp_path, "bn", size=12)
    midway.recommend(network, tmp_path, "bn", size=12, progress=False)
    assert midway.evaluate(network, tmp_path, size=12).images == 4
    assert sides == {(12, 12)}
    with pytest.raises(ValueError, match="size= applies to images in files"):
        quiet(network, IMAGES, "bn", size=12)
    with pytest.raises(ValueError, match="size= does not apply to the data set cifar10-mini"):
        quiet(network, "cifar10-mini", "bn", size=12)


def test_results_are_stored_and_resumed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "midway")
    first = quiet(tiny_network(), IMAGES, "bn", out=tmp_path, batch_size=8)
    assert [record.name for record in caplog.records] == ["midway", "midway"]
    caplog.clear()
    second = quiet(tiny_network(), IMAGES, "bn,tent", out=tmp_path, batch_size=8)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["tent"]
    assert second["bn"] == first["bn"]
    fresh = quiet(tiny_network(), IMAGES, "bn,tent", batch_size=8)
    assert second["tent"].metrics["changed"] == fresh["tent"].metrics["changed"]
    caplog.clear()
    quiet(tiny_network(), IMAGES.flip(0), "bn", out=tmp_path, batch_size=8)
    assert len(caplog.records) == 2, "other images are run again"
    assert {record.cell.label for record in read_records(tmp_path)} == {"source", "bn", "tent"}


@pytest.mark.parametrize("change", ["the last image", "the order of the last batch", "one image less", "a label"])
def test_stored_results_are_of_exactly_these_images(
    change: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    images, labels = IMAGES.clone(), LABELS.clone()
    quiet(tiny_network(), (images, labels), "bn", out=tmp_path, batch_size=8)
    caplog.set_level(logging.INFO, "midway")
    if change == "the last image":
        images[-1] = 1 - images[-1]
    elif change == "the order of the last batch":
        images[16:], labels[16:] = images[16:].flip(0), labels[16:].flip(0)
    elif change == "one image less":
        images, labels = images[:-1], labels[:-1]
    else:
        labels[-1] = (labels[-1] + 1) % 4
    result = quiet(tiny_network(), (images, labels), "bn", out=tmp_path, batch_size=8)
    assert len(caplog.records) == 2
    alone = quiet(tiny_network(), (images, labels), "bn", batch_size=8)
    assert result["bn"].batch_accuracies == alone["bn"].batch_accuracies


def test_a_method_that_fails_has_its_reason_in_the_table() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 4))
    result = quiet(network, (IMAGES, LABELS), "tent,lame")
    assert "tent failed: ValueError: the model has no normalisation layer" in str(result)
    assert result["lame"].images == 24
    with pytest.raises(ValueError, match="tent failed: ValueError: the model has no normalisation"):
        _ = result["tent"]
    with pytest.raises(KeyError):
        _ = result["bn"]


def test_frame_and_reports(tmp_path: Path) -> None:
    labelled = quiet(tiny_network(), (IMAGES, LABELS), "bn,tent", batch_size=8)
    unlabelled = quiet(tiny_network(), IMAGES, "bn,tent(lr=0.01)", batch_size=8)
    for result in (labelled, unlabelled):
        frame = result.frame()
        shown = "accuracy" if result.labelled else "changed"
        assert len(frame.where(metric=shown, group="all")) == 3
        for suffix in (".html", ".md", ".csv"):
            text = result.report(tmp_path / f"report{suffix}").read_text()
            assert "bn" in text.lower()
        assert (tmp_path / "report.csv").read_text().count("\n") == 4
    with pytest.raises(ValueError, match=r"must be a \.html, \.md or \.csv file, got report\.txt"):
        labelled.report(tmp_path / "report.txt")
    assert json.dumps(unlabelled.rows())


@pytest.mark.parametrize("suffix", [".html", ".md", ".csv"])
def test_a_full_disk_leaves_the_previous_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    result, path = quiet(tiny_network(), IMAGES, "bn", batch_size=8), tmp_path / f"report{suffix}"
    before = result.report(path).read_text()

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"No space left on device: .*report{suffix}"):
        result.report(path)
    assert (path.read_text(), list(tmp_path.iterdir())) == (before, [path])


def test_tables_are_at_most_80_columns_wide() -> None:
    data = midway.data.load("cifar10-mini").first(40)
    stream = midway.streams.mixture(data, "glass_blur", "gaussian_noise", batch_size=20)
    long = "tent(lr=1e-3, label='a label that is much longer than any that a reader would choose')"
    result = quiet(tiny_network(classes=10), stream, ["bn", long])
    assert "glass_blur %" in str(result)
    assert repr(result) == str(result)
    for shown in (result, quiet(tiny_network(classes=10), (IMAGES, LABELS), long), quiet(tiny_network(), IMAGES, long)):
        assert max(map(len, str(shown).splitlines())) <= 80


def test_labels_that_are_no_indices_are_refused() -> None:
    images, one_hot = torch.rand(4, 3, 8, 8), torch.eye(4)
    with pytest.raises(ValueError, match=r"labels have shape \(4, 4\): give one class index for each image"):
        midway.compare(tiny_network(), (images, one_hot), "bn", progress=False)


def test_long_labels_keep_both_ends() -> None:
    long = 'mita(statistics="clustered",adapt_data={})'
    shown = str(
        midway.compare(
            midway.models.create("resnet20"),
            torch.rand(4, 3, 8, 8),
            [long.format(True), long.format(False)],
            progress=False,
        )
    )
    assert sum("=True" in line for line in shown.splitlines()) == 1
    assert sum("=False" in line for line in shown.splitlines()) == 1


@pytest.mark.parametrize(
    ("model", "data", "methods", "message"),
    [
        (midway.Source(tiny_network()), IMAGES, "bn", "already adapted by Source"),
        (tiny_network(), [], "bn", "stream has no batches"),
        (tiny_network(), IMAGES, "bn,bn", "two methods are called 'bn'"),
        (tiny_network(), IMAGES, "bm", "unknown method 'bm'"),
        (
            tiny_network(),
            IMAGES,
            [nn.ReLU],
            "given as text, .* or as classes with @midway.methods.register, got .*ReLU",
        ),
        (tiny_network(), IMAGES, [midway.Tent(tiny_network())], "or as classes with @midway.methods.register"),
        (tiny_network(), __file__, "bn", "is a file: give a folder of images, or a .npz file"),
        (tiny_network(), "cifar10-mini:fgo", "bn", "unknown corruption 'fgo': did you mean 'fog'"),
        (nn.Identity(), IMAGES, "bn", "must return logits"),
    ],
)
def test_what_is_refused(model: nn.Module, data: Any, methods: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        quiet(model, data, methods)
