from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import midway
from midway.data import ImageSet
from midway.streams import Stream, build
from midway.streams.correlated import distribute_classes, shares_of


def toy(count: int, classes: int = 3) -> ImageSet:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(count, 8, 8, 3), dtype=np.uint8)
    return ImageSet(images, np.arange(count) % classes, tuple("abcdefghijkl"[:classes]), "toy")


def pixels(stream: Stream) -> np.ndarray:
    images = torch.cat([batch.images for batch in stream])
    return images.mul(255).round().byte().permute(0, 2, 3, 1).numpy()


def test_continual_shows_every_image_under_each_corruption_in_turn() -> None:
    data = toy(7)
    stream = midway.streams.continual(data, ["contrast", "clean", "brightness"], severity=3, batch_size=5, seed=1)
    clean = np.asarray(data.images)
    expected = [
        midway.corrupt(clean, "contrast", severity=3, seed=1),
        clean,
        midway.corrupt(clean, "brightness", severity=3, seed=1),
    ]
    assert np.array_equal(pixels(stream), np.concatenate(expected))
    assert stream.group.tolist() == [0] * 7 + [1] * 7 + [2] * 7
    assert [len(batch) for batch in stream] == [5, 5, 5, 5, 1]
    assert stream.name == "continual:contrast+clean+brightness#3"


def test_recurring_is_the_continual_stream_again_and_again() -> None:
    once = midway.streams.continual(toy(4), ["contrast", "brightness"], batch_size=4)
    thrice = midway.streams.recurring(toy(4), ["contrast", "brightness"], rounds=3, batch_size=4)
    assert np.array_equal(pixels(thrice), np.tile(pixels(once), (3, 1, 1, 1)))
    assert thrice.group.tolist() == once.group.tolist() * 3
    assert thrice.name == "recurring:contrast+brightness@3"


def test_gradual_rises_and_falls() -> None:
    data = toy(18)
    stream = midway.streams.gradual(data, ["contrast", "pixelate"], batch_size=6, seed=2)
    assert stream.groups == tuple(f"{name}#{level}" for name in ("contrast", "pixelate") for level in range(1, 6))
    levels = [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1]
    assert (stream.group % 5 + 1).tolist() == levels * 2
    clean = np.asarray(data.images)
    expected = [
        midway.corrupt(clean[[place]], name, severity=level, seed=2, indices=[place])[0]
        for name in ("contrast", "pixelate")
        for place, level in enumerate(levels)
    ]
    assert np.array_equal(pixels(stream), np.stack(expected))


@given(count=st.integers(9, 200), severity=st.integers(1, 5))
def test_gradual_parts_are_equal_give_or_take_an_image(count: int, severity: int) -> None:
    group = midway.streams.gradual(toy(count), "contrast", severity=severity).group
    changes = np.flatnonzero(np.diff(group)) + 1
    lengths = [len(part) for part in np.split(group, changes)]
    assert len(lengths) == 2 * severity - 1
    assert max(lengths) - min(lengths) <= 1


@given(classes=st.integers(1, 6), count=st.integers(1, 120), concentration=st.floats(1e-3, 1e3), seed=st.integers(0, 9))
def test_dealing_out_keeps_every_image(classes: int, count: int, concentration: float, seed: int) -> None:
    labels = np.arange(count) % classes
    order = distribute_classes(labels, concentration=concentration, seed=seed)
    assert sorted(order.tolist()) == list(range(count))
    assert np.array_equal(order, distribute_classes(labels, concentration=concentration, seed=seed))


def test_concentration_goes_from_runs_to_even() -> None:
    """The chance that neighbours share a class: 0.1 for ten classes in any order, more in runs."""
    labels = np.arange(2000) % 10
    together = {}
    for concentration in (0.01, 0.1, 1, 1000):
        orders = [distribute_classes(labels, concentration=concentration, seed=seed) for seed in range(10)]
        together[concentration] = np.mean([(labels[o][1:] == labels[o][:-1]).mean() for o in orders])
    assert together[0.01] > together[0.1] > together[1] > together[1000]
    assert together[1000] == pytest.approx(0.1, abs=0.01)
    assert together[0.01] > 0.4


def test_shares_are_dirichlet() -> None:
    """Mean 1/k and variance (k - 1) / (k^2 (k a + 1)) of a symmetric Dirichlet distribution."""
    for a in (0.05, 0.7, 4.0):
        rng = np.random.default_rng(0)
        drawn = np.stack([shares_of(rng, 4, a) for _ in range(20_000)])
        assert np.allclose(drawn.sum(axis=1), 1)
        assert drawn.mean(axis=0) == pytest.approx(np.full(4, 0.25), abs=0.01)
        assert drawn.var(axis=0) == pytest.approx(np.full(4, 3 / (16 * (4 * a + 1))), rel=0.05)


def test_dirichlet_moves_images_with_their_labels() -> None:
    data = toy(60)
    stream = midway.streams.dirichlet(data, "clean", concentration=0.2, batch_size=7, seed=4)
    order = distribute_classes(data.labels, concentration=0.2, seed=4)
    assert np.array_equal(pixels(stream), np.asarray(data.images)[order])
    assert torch.cat([batch.labels for batch in stream]).tolist() == data.labels[order].tolist()
    assert stream.name == "dirichlet:clean@0.2"


SOME = ["pure:contrast#2", "outlier:contrast/pixelate@0.1", "mixture:contrast/clean", "continual:contrast+clean"]
SOME += ["recurring:contrast+pixelate@2", "gradual:contrast+pixelate#3", "dirichlet:contrast@0.3"]


@pytest.mark.parametrize("text", SOME)
def test_building_from_clean_images_and_from_shifted_ones_is_the_same(text: str) -> None:
    data = toy(30)

    def shifted(shift: str, severity: int) -> ImageSet:
        images = np.asarray(data.images)
        made = images if shift == "clean" else midway.corrupt(images, shift, severity=severity, seed=3)
        return ImageSet(made, data.labels, data.class_names, shift)

    one, two = build(text, data, batch_size=8, seed=3), build(text, shifted, batch_size=8, seed=3)
    assert one.name == two.name == str(midway.streams.Scenario.parse(text))
    assert one.groups == two.groups
    assert np.array_equal(one.group, two.group)
    assert np.array_equal(pixels(one), pixels(two))


@settings(max_examples=20)
@given(text=st.sampled_from(SOME), batch_size=st.integers(1, 500))
def test_any_batch_size(text: str, batch_size: int) -> None:
    stream = build(text, toy(30), batch_size=batch_size)
    sizes = [len(batch) for batch in stream]
    assert sizes[:-1] == [batch_size] * (len(sizes) - 1)
    assert sum(sizes) == len(stream.order)
    assert len(sizes) == len(stream)


def test_errors_say_what_is_wrong() -> None:
    data = toy(8)
    with pytest.raises(ValueError, match="continual names a shift twice"):
        midway.streams.continual(data, ["contrast", "contrast"])
    with pytest.raises(ValueError, match="continual needs at least one shift"):
        midway.streams.continual(data, [])
    with pytest.raises(ValueError, match="the rounds in recurring must be an integer of at least 1, got 0"):
        midway.streams.recurring(data, ["contrast"], rounds=0)
    with pytest.raises(ValueError, match="8 images are fewer than 9 steps of severity"):
        midway.streams.gradual(data, "contrast")
    with pytest.raises(ValueError, match="severity must be an integer from 1 to 5, got 6"):
        midway.streams.gradual(data, "contrast", severity=6)
    with pytest.raises(ValueError, match="gradual names a corruption twice"):
        midway.streams.gradual(toy(20), ["contrast", "contrast"])
    with pytest.raises(ValueError, match="the concentration in dirichlet must be above 0, got 0"):
        midway.streams.dirichlet(data, "contrast", concentration=0)
    with pytest.raises(ValueError, match="did you mean 'contrast'"):
        midway.streams.gradual(toy(20), "contrats")


def test_a_small_concentration_gives_runs_of_labels() -> None:
    labels = np.tile(np.arange(3), 4)
    order = distribute_classes(labels, concentration=1e-3, seed=0)
    assert labels[order].tolist() == [2, 1, 2, 1, 2, 2, 1, 1, 0, 0, 0, 0]


def test_order_and_group_of_a_stream_have_defaults() -> None:
    data = toy(5)
    stream = Stream({"clean": data.images}, data.labels, batch_size=2)
    assert torch.cat([batch.labels for batch in stream]).tolist() == data.labels.tolist()
    assert torch.cat([batch.group for batch in stream]).tolist() == [0] * 5
