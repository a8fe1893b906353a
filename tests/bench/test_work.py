from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import midway
from midway.bench import Cell, Grid, Result, run_cell
from midway.bench.benchmark import benchmark_entries
from midway.bench.budget import CostEstimator
from midway.bench.entries import Entry
from midway.bench.resources import Picked, ResourceCache, arrange, load_network
from midway.data import ImageSet
from midway.methods import METHODS, About, Method


def cells(**plan: Any) -> list[Cell]:
    small = {"images": 24, "batch_sizes": 12, "device": "cpu"}
    return Grid.from_dict({"methods": "source", **small, **plan}).cells()


def result_of(cell: Cell, resources: ResourceCache | None = None) -> Result:
    record = run_cell(cell, resources or ResourceCache())
    assert record.failure is None, record.failure.traceback
    assert record.result is not None
    return record.result


@pytest.fixture(scope="module")
def resources() -> ResourceCache:
    return ResourceCache()


def test_a_cell_is_the_evaluation_it_describes(resources: ResourceCache) -> None:
    (cell,) = cells(methods="mita(data_model_steps=1)", scenarios="mixture:fog/snow#3", seeds=5)
    result = result_of(cell, resources)
    data = midway.data.load("cifar10-mini").first(24)
    stream = midway.streams.mixture(data, "fog", "snow", severity=3, batch_size=12, seed=5)
    model = midway.models.load("wrn16_2.cifar10")
    plain = midway.evaluate(midway.MITA(model, data_model_steps=1, seed=5), stream)
    measured = result.repeatable()
    assert plain.repeatable().pop("metrics").items() <= measured.pop("metrics").items()
    assert measured == {name: value for name, value in plain.repeatable().items() if name != "metrics"}


def test_running_twice_and_beside_others_gives_the_same_bits(resources: ResourceCache) -> None:
    plan = cells(methods="bn,tea(langevin_steps=1)", scenarios=["pure:fog", "dirichlet:snow"], images=8, batch_sizes=4)
    together = [result_of(cell, resources).repeatable() for cell in plan]
    alone = [result_of(cell).repeatable() for cell in reversed(plan)][::-1]
    assert together == alone


def test_the_cost_is_of_the_first_batch(resources: ResourceCache) -> None:
    tent, source = (result_of(cell, resources) for cell in cells(methods="tent,source"))
    assert (tent.metrics["forward_passes"], tent.metrics["backward_passes"]) == (1, 1)
    assert (source.metrics["forward_passes"], source.metrics["backward_passes"]) == (1, 0)
    assert tent.metrics["gflops_forward"] == source.metrics["gflops"] > 0


def test_predictions_are_kept_on_request(resources: ResourceCache) -> None:
    (cell,) = cells(methods="bn", scenarios="outlier:fog/snow@0.1")
    assert run_cell(cell, resources).arrays == {}
    record = run_cell(cell, resources, keep_predictions=True)
    assert record.result is not None
    kept = record.arrays
    assert {name: array.shape for name, array in kept.items()} == {"logits": (24, 10), "labels": (24,), "group": (24,)}
    assert 100 * (kept["logits"].argmax(axis=1) == kept["labels"]).mean() == pytest.approx(record.result.accuracy)
    assert np.bincount(kept["group"]).tolist() == [group["images"] for group in record.result.groups.values()]


class Moody(Method):
    """Raises on its second batch."""

    about = About("moody", "Moody", "-", "none", "-", "-", "1 F")

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)
        self.seen = self.add_state("seen", 0)

    def step(self, images: Tensor) -> Tensor:
        self.seen += 1
        if self.seen > 1:
            raise RuntimeError("not in the mood\nat all")
        logits: Tensor = self.model(images)
        return logits


@pytest.fixture
def moody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(METHODS, "_objects", dict(METHODS) | {"moody": Moody})


@pytest.mark.usefixtures("moody")
def test_an_error_becomes_a_failed_record(resources: ResourceCache) -> None:
    seen: list[int] = []
    (cell,) = cells(methods="moody")
    record = run_cell(cell, resources, on_batch=lambda cell, done, total, running: seen.append(done))
    assert record.result is None
    assert record.failure is not None
    assert record.failure.error == "RuntimeError: not in the mood"
    assert 'raise RuntimeError("not in the mood' in record.failure.traceback
    assert seen == [1]
    assert record.environment["threads"] == 1


def test_missing_data_fails_the_cell_with_the_reason(tmp_path: Path) -> None:
    (cell,) = cells(data=f"cifar10-c@{tmp_path}")
    failure = run_cell(cell, ResourceCache()).failure
    assert failure is not None
    assert "has no CORRUPTION.npy files: make it with `midway data make cifar10-c`" in failure.error


def test_threads_are_the_cells_own_and_given_back(resources: ResourceCache) -> None:
    before = torch.get_num_threads()
    seen: list[int] = []
    (cell,) = cells(threads=2)
    run_cell(cell, resources, on_batch=lambda *progress: seen.append(torch.get_num_threads()))
    assert seen == [2, 2]
    assert torch.get_num_threads() == before


def test_bf16_computes_in_bf16_and_answers_in_float32() -> None:
    half, full = (cells(precision=precision)[0] for precision in ("bf16", "float32"))
    resources = ResourceCache()
    images = midway.streams.to_tensor(np.asarray(midway.data.load("cifar10-mini").images[:4]))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected = resources.network(full)(images).float()
    logits = resources.network(half)(images)
    assert logits.dtype == torch.float32
    assert torch.equal(logits, expected)
    assert not torch.equal(logits, resources.network(full)(images))


@pytest.mark.parametrize("entry", benchmark_entries(), ids=lambda entry: entry.label)
def test_every_row_of_the_benchmark_runs_in_bf16(entry: Entry, resources: ResourceCache) -> None:
    grid = Grid(methods=(entry,), images=4, batch_sizes=(2,), precision="bf16", device="cpu")
    result = result_of(grid.cells()[0], resources)
    assert math.isfinite(result.metrics["nll"])


def test_stored_corruptions_are_read_not_made(tmp_path: Path) -> None:
    clean = midway.data.load("cifar10-mini").first(20)
    midway.data.make_corrupted(clean, tmp_path, corruptions=["fog", "contrast"], severities=[1, 2], seed=9, jobs=1)
    (cell,) = cells(data=f"cifar10-c@{tmp_path}", scenarios="mixture:fog/contrast#2", images=10, batch_sizes=10)
    stream = ResourceCache().stream(cell)
    assert stream.groups == ("fog", "contrast")
    assert stream.name == "mixture:fog/contrast@0.5#2"
    group = stream.group
    expected = [
        midway.corrupt(
            np.asarray(clean.images)[[place]], stream.groups[group[place]], severity=2, seed=9, indices=[place]
        )
        for place in range(10)
    ]
    assert np.array_equal(stream.pixels(np.arange(10)), np.concatenate(expected))
    (gradual,) = cells(data=f"cifar10-c@{tmp_path}", scenarios="gradual:fog#2", images=10, batch_sizes=10)
    assert ResourceCache().stream(gradual).groups == ("fog#1", "fog#2")


def test_domains_are_shifts(tmp_path: Path) -> None:
    for domain, shade in (("photo", 50), ("sketch", 200)):
        for number, name in enumerate(("cat", "dog")):
            (tmp_path / domain / name).mkdir(parents=True)
            for copy in range(6):
                pixels = np.full((32, 32, 3), shade + number, np.uint8)
                Image.fromarray(pixels).save(tmp_path / domain / name / f"{copy}.png")
    (cell,) = cells(data=f"pacs@{tmp_path}", scenarios="pure:sketch", networks="resnet20", images=8, batch_sizes=4)
    resources = ResourceCache()
    stream = resources.stream(cell)
    assert stream.groups == ("sketch",)
    labels = np.concatenate([batch.labels for batch in stream])
    assert sorted(set(labels.tolist())) == [0, 1]  # folders stand class by class, and are shuffled
    assert np.array_equal(stream.pixels(np.arange(8))[:, 0, 0, 0], 200 + labels)
    assert resources.network(cell)(torch.rand(1, 3, 32, 32)).shape == (1, 2)
    again = replace(cell, seed=1)
    assert [batch.labels.tolist() for batch in ResourceCache().stream(again)] != [
        batch.labels.tolist() for batch in stream
    ]


def test_arranging_shuffles_only_what_stands_class_by_class() -> None:
    images = np.arange(6, dtype=np.uint8).reshape(6, 1, 1, 1)
    mixed = ImageSet(images, np.array([0, 1, 0, 1, 0, 1]), ("a", "b"), "mixed")
    assert arrange(mixed, images=None, seed=0) is mixed
    assert arrange(mixed, images=4, seed=0).labels.tolist() == [0, 1, 0, 1]
    assert arrange(mixed, images=99, seed=0) is mixed
    by_class = ImageSet(images, np.array([0, 0, 0, 1, 1, 1]), ("a", "b"), "folders")
    shuffled = arrange(by_class, images=None, seed=0)
    places = np.asarray(shuffled.images[np.arange(6)]).ravel()
    assert places.tolist() != list(range(6))
    assert sorted(places.tolist()) == list(range(6))
    assert shuffled.labels.tolist() == by_class.labels[places].tolist()
    assert isinstance(shuffled.images, Picked)
    assert shuffled.images.shape == (6, 1, 1, 1)


def test_networks_as_plans_name_them(tmp_path: Path) -> None:
    one, two = load_network("resnet20", 7), load_network("resnet20", 7)
    images = torch.rand(2, 3, 32, 32)
    assert torch.equal(one(images), two(images))
    assert one(images).shape == (2, 7)
    torch.save(one.state_dict(), tmp_path / "seven.pth")
    assert torch.equal(load_network(f"resnet20@{tmp_path / 'seven.pth'}", 7)(images), one(images))
    assert torch.equal(load_network(str(tmp_path / "seven.pth"), 99)(images), one(images))


def test_a_stream_is_made_once_for_the_cells_that_share_it(resources: ResourceCache) -> None:
    first, second, other = cells(methods="source,bn")[0], cells(methods="source,bn")[1], cells(seeds=3)[0]
    stream = resources.stream(first)
    assert resources.stream(second) is stream
    assert resources.stream(other) is not stream


def test_the_estimate_counts_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    estimate = CostEstimator()
    few, many = cells()[0], cells(scenarios="continual:fog+snow+frost")[0]
    once = estimate.seconds(few)
    assert once > 0
    assert estimate.seconds(many) == pytest.approx(3 * once)  # three times as many batches at the same price
    assert len(estimate.estimates) == 1
    assert estimate.seconds(cells(methods="bn")[0]) > 0
    assert len(estimate.estimates) == 2


def test_a_method_says_how_many_images_it_adapts_to() -> None:
    estimate = CostEstimator()
    for method in ("dua(copies=4, images=5)", 'dua(copies=4, images=5, wrap="guarded")', "bn"):
        estimate.estimate(cells(methods=method, images=40)[0])
    limited, guarded, unlimited = estimate.estimates.values()
    assert (limited.adapts_to, guarded.adapts_to, unlimited.adapts_to) == (5, 5, None)
    assert unlimited.first == unlimited.later
    assert limited.seconds(40) == 5 * limited.first + 35 * limited.later
