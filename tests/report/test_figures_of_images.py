"""Figures that are computed from a network and images."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from toy_runs import result_of, toy_data, written

import midway
from midway.bench import Record
from midway.bench.entries import Entry
from midway.cli.figures import cell_of, entry_of
from midway.report.figures import FIGURES, NetworkAndImages, PredictionPair, draw_figures
from midway.report.figures.corrections import compare_predictions, corrections_of, draw_corrections
from midway.report.figures.drawing import to_picture
from midway.report.figures.image_changes import difference, draw_image_changes, draw_severities, image_changes
from midway.report.figures.langevin import KINDS, draw_energies, draw_samples, image_energies, langevin_samples
from midway.report.tidy import plot_styles
from midway.streams import Stream
from midway.testing import tiny_network


def test_pictures_and_differences() -> None:
    image = torch.tensor([[[0.0, 2.0]], [[0.5, -1.0]], [[1.0, 0.25]]])
    assert to_picture(image).tolist() == [[[0.0, 0.5, 1.0], [1.0, 0.0, 0.25]]]
    assert to_picture(torch.full((1, 1, 1), 0.5)).tolist() == [[[0.5, 0.5, 0.5]]]
    before, after = np.full((1, 1, 3), 0.5, np.float32), np.array([[[0.5, 0.75, 0.0]]], np.float32)
    assert difference(before, after, factor=1).tolist() == [[[0.5, 0.75, 0.0]]]
    assert difference(before, after, factor=4).tolist() == [[[0.5, 1.0, 0.0]]]


def test_image_changes_are_those_of_mita_at_that_image() -> None:
    data, network = toy_data(), tiny_network()
    given = NetworkAndImages(network, data, image=9, batch_size=4, mita={"data_step_size": 0.5})
    (change,) = (each for each in image_changes(given) if each.shift == "fog")
    method = midway.MITA(network, data_step_size=0.5)
    for batch in list(midway.streams.pure(data, "fog", batch_size=4))[:3]:
        method(batch.images)
    assert method.adapted_images is not None
    assert np.array_equal(change.adapted, to_picture(method.adapted_images[1]))
    assert np.array_equal(change.original, to_picture(batch.images[1]))
    assert change.distance == pytest.approx((method.adapted_images[1] - batch.images[1]).norm().item())
    assert change.distance > 0
    with pytest.raises(ValueError, match="there is no image 12 in toy: it has 0 to 11"):
        image_changes(replace(given, image=12))
    every = image_changes(replace(given, image=0), severities=(1, 5))
    several = [each for each in every if each.shift in ("fog", "snow")]
    assert [(c.shift, c.severity) for c in several] == [("snow", 1), ("snow", 5), ("fog", 1), ("fog", 5)]
    assert {"fog", "snow", "severity 1", "severity 5"} <= written(draw_severities(several))
    assert len(draw_image_changes(several).axes) == 12


def test_corrections_are_outliers_that_only_the_second_method_classifies_correctly() -> None:
    images = np.arange(6, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    labels = np.array([0, 1, 0, 1, 0, 1])
    stream = Stream({"a": images, "b": images}, labels, order=[5, 4, 3, 2, 1, 0], group=[0, 0, 0, 0, 1, 1], name="s")
    # labels in the order of the stream: 1 0 1 0 | 1 0
    right = torch.tensor([[0.0, 2.0], [5.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    wrong = torch.tensor([[1.0, 0.0], [0.0, 3.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    corrections = compare_predictions(stream, (wrong, right), ["cat", "dog"])
    assert (corrections.corrected, corrections.spoiled, corrections.images, corrections.group) == (2, 1, 4, "a")
    assert [(c.label, c.wrong) for c in corrections.shown] == [("cat", "dog"), ("dog", "cat")]  # most confident first
    assert corrections.shown[0].right_confidence == pytest.approx(1 / (1 + np.exp(-5)))
    assert corrections.shown[0].wrong_confidence == pytest.approx(1 / (1 + np.exp(-3)))
    assert corrections.shown[0].picture[0, 0, 0] == pytest.approx(4 / 255)
    shown = written(draw_corrections(corrections))
    assert {"dog 95%", "cat 99%"} <= shown
    heading = "TENT (grey) and MITA (in colour)\nMITA corrects 2 of 4, and spoils 1"
    assert any(heading in text for text in shown)
    assert len(draw_corrections(corrections).axes) == 2
    assert compare_predictions(stream, (right, right), ["cat", "dog"]).shown == ()


def test_energies_before_and_after() -> None:
    given = NetworkAndImages(tiny_network(), toy_data(8), batch_size=4, langevin_steps=1, mita={"lr": 0.1})
    before, after = image_energies(given)
    method = midway.MITA(given.model, lr=0.1)
    stream = list(midway.streams.pure(given.data, "gaussian_noise", batch_size=4))
    for batch in (*stream, stream[0]):
        method(batch.images)
    assert method.adapted_images is not None
    adapted = (-method.data_model(method.adapted_images).logsumexp(dim=1)).tolist()
    assert after.values["adapted"] == pytest.approx(adapted)
    clean = next(iter(midway.streams.pure(given.data, "clean", batch_size=4))).images
    assert before.values["clean"] == pytest.approx((-given.model(clean).logsumexp(dim=1)).tolist())
    assert {"clean", "corrupted", "sampled", "adapted", "before: source"} <= written(draw_energies((before, after)))
    colours = {style.colour for style in plot_styles({name: name for name in midway.methods.names()}).values()}
    assert not colours & {colour for colour, _ in KINDS.values()}
    assert len({line for _, line in KINDS.values()}) == len(KINDS)


def test_samples_come_from_three_networks() -> None:
    given = NetworkAndImages(tiny_network(), toy_data(8), batch_size=4, langevin_steps=50, mita={"lr": 0.1})
    rows = langevin_samples(given)
    assert [row.title for row in rows] == ["source", "predictor", "data model"]
    assert rows[0].pictures[0].shape == (16, 16, 3)
    assert not np.array_equal(rows[0].pictures[0], rows[2].pictures[0])
    assert {f"source\nE = {rows[0].energy:.1f}"} <= written(draw_samples(rows))


def test_figures_are_computed_from_a_network_and_images() -> None:
    given = NetworkAndImages(tiny_network(), toy_data(8), batch_size=4, image=5, langevin_steps=1)
    assert {spec.name for spec in FIGURES.values() if spec.source is NetworkAndImages} == {
        "samples", "image_changes", "severities", "energies",
    }  # fmt: skip
    assert [name for name, _ in draw_figures(given, only=["samples", "energies", "scenarios"])] == [
        "samples",
        "energies",
    ]
    nothing = PredictionPair((), compute=lambda: replace(given, method=given.baseline))
    assert list(draw_figures(nothing)) == []  # both methods predict the same
    computed = corrections_of(nothing)
    assert computed is not None
    assert (computed.corrected, computed.spoiled, computed.images) == (0, 0, 2)
    assert corrections_of(PredictionPair(())) is None


def test_figures_show_the_method_with_its_settings_in_the_run() -> None:
    def of(label: str, network: str, **settings: float) -> Record:
        record = result_of(label, "pure:fog", 60.0, method="mita", settings=settings)
        return replace(record, cell=replace(record.cell, network=network))

    records = [result_of("tent", "pure:fog", 60.0), of("slow", "a", lr=1e-5, seed=3), of("mita", "b", lr=0.1)]
    assert entry_of(records, "mita").settings == {"lr": 0.1}
    assert entry_of(records[:2], "mita") == Entry("mita", {"lr": 1e-5}, "slow")
    assert entry_of(records[:1], "mita") == Entry("mita", {}, "mita")
    cell = cell_of(records, "mita")
    assert cell is not None
    assert cell.network == "b"
    with pytest.raises(ValueError, match="unknown method 'mtia': did you mean 'mita'"):
        entry_of(records, "mtia")
