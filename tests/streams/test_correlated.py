from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import midway
from midway.data import ImageSet
from midway.streams import Scenario, Stream
from midway.streams.correlated import _divide, correlate, in_slots, shares_of
from midway.streams.domains import PartOfImages


def toy(count: int, classes: int = 4, name: str = "toy", value: int | None = None) -> ImageSet:
    """Images that hold their own index, or one value, with labels in turn."""
    images = np.broadcast_to(np.arange(count, dtype=np.uint8).reshape(-1, 1, 1, 1), (count, 8, 8, 3)).copy()
    if value is not None:
        images[:] = value
    return ImageSet(images, np.arange(count) % classes, tuple(map(str, range(classes))), name)


def runs(labels: np.ndarray) -> int:
    return 1 + int((np.diff(labels) != 0).sum())


def everything(stream: Stream) -> tuple[np.ndarray, np.ndarray]:
    return stream.labels[stream.order], stream.group


def test_mixed_domains_show_every_image_under_every_shift_in_one_order() -> None:
    stream = midway.streams.mixed(toy(60), ["clean", "fog", "snow"], batch_size=30)
    assert sorted(zip(stream.order.tolist(), stream.group.tolist(), strict=True)) == [
        (i, g) for i in range(60) for g in range(3)
    ]
    assert all(len(batch.group.unique()) == 3 for batch in stream)
    again = midway.streams.mixed(toy(60), ["clean", "fog", "snow"], batch_size=7)
    assert np.array_equal(stream.order, again.order)
    other = midway.streams.mixed(toy(60), ["clean", "fog", "snow"], seed=1)
    assert not np.array_equal(stream.order, other.order)
    assert len(Scenario.parse("mixed:all").shifts) == 15


def test_shuffled_has_one_permutation_for_all_shifts() -> None:
    stream = midway.streams.shuffled(toy(50), ["clean", "fog"], batch_size=50)
    first, second = stream.order.reshape(2, 50)
    assert np.array_equal(first, second)
    assert sorted(first.tolist()) == list(range(50)) != first.tolist()
    assert stream.group.tolist() == [0] * 50 + [1] * 50


def test_random_orders_of_the_shifts() -> None:
    names = ["clean", "fog", "snow", "frost"]
    orders = set()
    for seed in range(8):
        stream = midway.streams.random_order(toy(10), names, batch_size=10, seed=seed)
        assert stream.order.tolist() == list(range(10)) * 4
        orders.add(tuple(stream.group[::10].tolist()))
    assert len(orders) > 4
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)


def naive_divide(labels: list[int], concentration: float, rng: np.random.Generator) -> list[list[list[int]]]:
    """NOTE's division by its description, with plain lists and numpy's own Dirichlet distribution."""
    classes = sorted(set(labels))
    sections: list[list[list[int]]] = [[] for _ in classes]
    for label in classes:
        members = [i for i, each in enumerate(labels) if each == label]
        shares = rng.dirichlet([concentration] * len(classes)).tolist()
        for j, section in enumerate(sections):
            if sum(map(len, section)) >= len(labels) / len(classes):
                shares[j] = 0.0
        total, before = sum(shares), 0
        for j, section in enumerate(sections):
            until = len(members) if j == len(classes) - 1 else math.floor(sum(shares[: j + 1]) / total * len(members))
            section.append(members[before:until])
            before = until
    return sections


def test_sections_are_those_of_the_description() -> None:
    """The distribution of section sizes and of shares of classes agrees with a plain implementation."""
    labels = np.arange(400) % 4
    largest: dict[str, list[float]] = {"ours": [], "naive": []}
    sizes: dict[str, list[float]] = {"ours": [], "naive": []}
    for seed in range(300):
        ours = _divide(labels, 1.0, np.random.default_rng(seed))
        naive = naive_divide(labels.tolist(), 1.0, np.random.default_rng(10_000 + seed))
        for key, sections in (("ours", ours), ("naive", naive)):
            assert sum(len(part) for section in sections for part in section) == 400
            largest[key].append(max(len(part) for section in sections for part in section))
            sizes[key].append(max(sum(map(len, section)) for section in sections))
    for found in (largest, sizes):
        error = math.hypot(*(np.std(values) / math.sqrt(300) for values in found.values()))
        assert abs(np.mean(found["ours"]) - np.mean(found["naive"])) < 4 * error


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 6), st.integers(12, 120), st.floats(1e-3, 10), st.integers(0, 9))
def test_correlated_orders_keep_every_image(classes: int, count: int, concentration: float, seed: int) -> None:
    labels = np.arange(count) % classes
    order = correlate(labels, concentration, np.random.default_rng(seed))
    assert sorted(order.tolist()) == list(range(count))
    assert runs(labels[order]) <= classes * classes  # a class is one run in each section


def test_smaller_concentrations_give_longer_runs_and_zero_sorts() -> None:
    labels = np.arange(1000) % 10
    counts = [runs(labels[correlate(labels, c, np.random.default_rng(0))]) for c in (0, 0.01, 0.1, 10)]
    assert counts[0] == 10
    assert counts == sorted(counts)
    assert counts[-1] > 80
    assert labels[correlate(labels, 0, np.random.default_rng(0))].tolist() == sorted(labels.tolist())


def test_sections_have_ten_images_if_that_can_be() -> None:
    labels = np.arange(2000) % 10
    for seed in range(5):
        rng = np.random.default_rng(seed)
        order = labels[correlate(labels, 0.1, rng)]
        assert len(order) == 2000
    many = np.arange(400) % 200  # two images a class: ten in each section cannot be
    assert len(correlate(many, 0.01, np.random.default_rng(0))) == 400


def test_correlated_over_one_and_over_all_corruptions() -> None:
    one = midway.streams.build("correlated:fog@0.05", toy(120))
    several = midway.streams.build("correlated:clean+fog+snow@0.05", toy(120))
    assert several.group.tolist() == [0] * 120 + [1] * 120 + [2] * 120
    assert np.array_equal(several.order, np.tile(one.order, 3))
    assert runs(everything(one)[0]) < 17
    assert str(Scenario.parse("correlated:fog@0")) == "correlated:fog@0"


def test_mixed_and_correlated_has_runs_of_labels_and_all_shifts_within() -> None:
    stream = midway.streams.mixed_correlated(toy(120), ["clean", "fog"], concentration=0)
    labels, group = everything(stream)
    assert labels.tolist() == sorted(labels.tolist())
    assert 15 < group[:60].sum() < 45  # the first class
    soft = midway.streams.mixed_correlated(toy(120), ["clean", "fog"], concentration=0.1)
    assert sorted(zip(soft.order.tolist(), soft.group.tolist(), strict=True)) == [
        (i, g) for i in range(120) for g in (0, 1)
    ]
    assert runs(everything(soft)[0]) <= 16


def naive_slots(labels: list[int], shares: list[list[float]], turns: list[list[int]]) -> list[int]:
    """The stream of one corruption, image by image: class c has its first round(share x count) images in slot 0, ..."""
    stream = []
    for slot, order in enumerate(turns):
        for label in order:
            members = [index for index, each in enumerate(labels) if each == label]
            start, stop = (round(sum(shares[label][:count]) * len(members)) for count in (slot, slot + 1))
            stream += members[start : len(members) if slot == len(turns) - 1 else stop]
    return stream


def test_slots_are_those_of_the_description() -> None:
    labels = np.random.default_rng(3).integers(0, 4, size=90)
    for seed in range(5):
        rng, again = np.random.default_rng(seed), np.random.default_rng(seed)
        shares = [shares_of(again, 4, 0.3).tolist() for _ in range(4)]
        turns = [again.permutation(4).tolist() for _ in range(4)]
        assert in_slots(labels, 0.3, rng).tolist() == naive_slots(labels.tolist(), shares, turns)


def test_the_practical_stream_draws_anew_for_each_shift() -> None:
    stream = midway.streams.practical(toy(200), ["clean", "fog"], batch_size=64)
    assert stream.group.tolist() == [0] * 200 + [1] * 200
    first, second = stream.order.reshape(2, 200)
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(200))
    assert not np.array_equal(first, second)
    assert runs(stream.labels[first]) <= 4 * 4
    many = in_slots(np.arange(400) % 200, 0.1, np.random.default_rng(0))  # 200 classes have 100 slots
    assert sorted(many.tolist()) == list(range(400))


def test_rottas_order_has_the_fifteen_corruptions() -> None:
    scenario = Scenario.parse("practical:rotta")
    assert scenario.shifts[:2] == ("motion_blur", "snow")
    assert sorted(scenario.shifts) == sorted(Scenario.parse("continual:all").shifts)


def test_label_shift_by_period() -> None:
    infinite = midway.streams.imbalanced(toy(200), "clean")
    labels = everything(infinite)[0].reshape(4, 100)  # two draws per image, a period for each class
    assert all(len(set(period)) == 1 for period in labels.tolist())
    assert sorted(period[0] for period in labels.tolist()) == [0, 1, 2, 3]
    mild = everything(midway.streams.imbalanced(toy(2000), "clean", ratio=3))[0].reshape(4, 1000)
    for period in mild:
        shares = np.sort(np.bincount(period, minlength=4) / 1000)
        assert shares[-1] == pytest.approx(3 / 6, abs=0.06)
        assert shares[:3].tolist() == pytest.approx([1 / 6] * 3, abs=0.05)
    assert len(set(infinite.order.tolist())) < 200  # with replacement


def test_long_tails_by_hand() -> None:
    """Three classes at 0.25: shares 1, 1/2, 1/4 of 7/4, so floor(140 x 4/7) + 1, floor(140 x 2/7) + 1, ..."""
    stream = midway.streams.long_tailed(toy(140, classes=3), "clean", ratio=0.25)
    labels = everything(stream)[0]
    assert np.bincount(labels).tolist() == [81, 41, 21]
    assert runs(labels) > 30


def test_domains_may_have_images_of_their_own() -> None:
    photo, sketch = toy(30, name="photo", value=10), toy(12, name="sketch", value=200)

    def domain(name: str, severity: int) -> ImageSet:
        return {"photo": photo, "sketch": sketch}[name]

    turn = midway.streams.build("continual:photo+sketch", domain, batch_size=21)
    assert turn.groups == ("photo", "sketch")
    first, second = turn
    assert (first.group.tolist(), second.group.tolist()) == ([0] * 21, [0] * 9 + [1] * 12)
    assert second.images[:, 0, 0, 0].mul(255).round().tolist() == [10] * 9 + [200] * 12
    assert second.labels[9:].tolist() == sketch.labels.tolist()
    for text in (
        "mixed:photo+sketch",
        "correlated:photo+sketch@0",
        "shuffled:photo+sketch",
        "random_order:photo+sketch",
    ):
        stream = midway.streams.build(text, domain, batch_size=42)
        (batch,) = stream
        expected = np.where(batch.group.numpy() == 0, 10, 200)
        assert batch.images[:, 0, 0, 0].mul(255).round().tolist() == expected.tolist()
        assert batch.group.bincount().tolist() == [30, 12]
        assert sorted(batch.labels[batch.group == 1].tolist()) == sorted(sketch.labels.tolist())
    assert stream.cached().group.tolist() == stream.group.tolist()
    with pytest.raises(IndexError, match="indices 5 to 5 are of other domains"):
        PartOfImages(sketch.images, 30, 42)[np.array([5])]


def test_errors_say_what_is_wrong() -> None:
    for text, message in [
        ("correlated:fog@-1", "the concentration in correlated must be 0 or more, got -1"),
        ("imbalanced:fog@0", "the ratio in imbalanced must be above 0, got 0"),
        ("long_tailed:fog@2", "the ratio in long_tailed must be between 0 and 1, got 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            midway.streams.build(text, toy(40))
    nameless = dataclasses.replace(toy(40), labels=np.full(40, -1))
    for text in ("dirichlet:fog@1", "correlated:fog@1", "practical:fog@1", "imbalanced:fog@9", "long_tailed:fog@0.1"):
        with pytest.raises(ValueError, match="orders images by their labels, and fog has images without"):
            midway.streams.build(text, nameless)
    for build in (midway.streams.mixed, midway.streams.shuffled, midway.streams.continual):
        with pytest.raises(ValueError, match="needs at least one shift"):
            build(toy(40), [])
        with pytest.raises(ValueError, match="names a shift twice"):
            build(toy(40), ["fog", "fog"])
