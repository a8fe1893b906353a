"""midway.recommend: scores by hand, the guard against collapse, the ranking, and when to leave a network as it is."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import midway
from midway.adaptation.registry import METHODS
from midway.comparison.recommend import has_collapsed, rank
from midway.metrics import Predictions, compute
from midway.testing import tiny_network

SIDE, CLASSES = 8, 4


def quiet(*arguments: Any, **options: Any) -> midway.Recommendation:
    return midway.recommend(*arguments, progress=False, **options)


def scores_of(
    predictions: list[int], mirrored: list[int], source: list[int] | None = None, classes: int = 2
) -> dict[str, float]:
    def logits(chosen: list[int]) -> Tensor:
        return 9.0 * nn.functional.one_hot(torch.tensor(chosen), classes)

    count = len(predictions)
    made = Predictions(
        logits(predictions),
        torch.full((count,), -1),
        torch.zeros(count),
        mirrored=logits(mirrored),
        source=None if source is None else logits(source),
    )
    return compute(made, label_free=True)


@pytest.mark.parametrize(
    ("predictions", "mirrored", "classes", "expected"),
    [
        ([0, 1, 0, 1], [0, 1, 0, 1], 2, 100.0),  # ln 2 of ln 2
        ([0, 0, 0, 0], [0, 0, 0, 0], 2, 0.0),  # one class
        ([0, 1, 0, 1], [0, 1, 1, 0], 2, 0.0),  # e = 1/2: ln 2 - h(1/2) - 0
        ([0, 1, 2, 3], [0, 1, 2, 0], 4, 100 * (math.log(4) - 0.5623351446 - 0.25 * math.log(3)) / math.log(4)),
        ([0, 1, 0, 1], [1, 0, 1, 0], 2, 0.0),  # no better than by chance
        ([0, 0, 0, 1], [0, 0, 0, 1], 2, 100 * 0.5623351446 / math.log(2)),  # h(1/4) of ln 2
    ],
)
def test_information_by_hand(predictions: list[int], mirrored: list[int], classes: int, expected: float) -> None:
    scores = scores_of(predictions, mirrored, classes=classes)
    assert scores["mirror_information"] == pytest.approx(expected, abs=1e-6)


def test_information_is_a_lower_bound_of_the_mutual_information() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        first = torch.randint(3, (60,), generator=generator)
        other = torch.randint(3, (60,), generator=generator)
        second = torch.where(torch.rand(60, generator=generator) < 0.7, first, other)
        joint = torch.stack([((first == a) & (second == b)).double().mean() for a in range(3) for b in range(3)]).view(
            3, 3
        )
        independent = joint.sum(1, keepdim=True) * joint.sum(0, keepdim=True)
        naive = torch.xlogy(joint, joint / independent).sum().item() / math.log(3)
        bound = scores_of(first.tolist(), second.tolist(), classes=3)["mirror_information"]
        assert bound <= 100 * naive + 1e-9


def test_the_last_classes_by_hand() -> None:
    source = [0, 1, 0, 1, 0, 1, 0, 1]
    late = scores_of([0, 1, 0, 1, 0, 1, 0, 0], source, source)["late_classes"]
    assert late == pytest.approx(50.0)  # one class for the last two images, where the source has two
    assert scores_of(source, source, [0] * 8)["late_classes"] == pytest.approx(200.0)
    assert "late_classes" not in scores_of(source, source)


class Columns(nn.Module):
    """Class c if columns c from the left and from the right are brightest; with a lower gain, from the left alone."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(()))

    def forward(self, images: Tensor) -> Tensor:
        columns = images.mean(dim=(1, 2))
        both = columns[:, :CLASSES] + columns.flip(-1)[:, :CLASSES]
        sided = columns[:, :CLASSES] - columns.flip(-1)[:, :CLASSES]
        return 50 * (both + (1 - self.gain) * 20 * sided)


def striped(count: int) -> Tensor:
    """Images whose class is the brightest of four columns, on the left or on the right."""
    images = 0.3 * torch.rand(count, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))
    for index, image in enumerate(images):
        image[:, :, index % CLASSES] += 0.5
    return torch.cat([images[::2], images[1::2].flip(-1)])


def about(name: str) -> midway.methods.About:
    return midway.methods.About(
        name=name, title=name.title(), paper="-", paradigm="batch", adapts="weights", predicts="after", passes="1 F"
    )


@pytest.fixture
def known_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods whose quality is known: one repairs the network, one damages it, one collapses after two batches."""
    monkeypatch.setattr(METHODS, "_objects", dict(METHODS))

    class Fixed(midway.Method):
        """Sets the gain of the network."""

        about = about("repair")
        gain = 1.0

        def step(self, images: Tensor) -> Tensor:
            with torch.no_grad():
                self.model.get_parameter("gain").fill_(self.gain)
            return self.network_logits(images)

    class Damage(Fixed):
        """Makes answers depend on the side."""

        about = about("damage")
        gain = 0.0

    class Collapse(Fixed):
        """Answers with one class after two batches."""

        about = about("collapse")

        def __init__(self, model: nn.Module) -> None:
            super().__init__(model)
            self.seen: int = self.add_state("seen", 0)

        def step(self, images: Tensor) -> Tensor:
            self.seen += 1
            logits = super().step(images)
            return logits if self.seen <= 2 else logits * 0 + 9 * torch.eye(CLASSES)[0]

    for method in (Fixed, Damage, Collapse):
        midway.methods.register(method)


def harmed() -> Columns:
    network = Columns()
    network.gain.data.fill_(0.95)
    return network


@pytest.mark.usefixtures("known_methods")
def test_the_better_method_is_first_and_a_collapsed_one_last() -> None:
    advice = quiet(harmed(), striped(32), "damage,collapse,repair", batch_size=8)
    assert [each.label for each in advice.candidates] == ["repair", "source", "damage", "collapse"]
    assert advice.best.label == "repair"
    assert not advice.leave
    assert advice.best.code == "midway.adapt(model, 'repair')"
    collapsed = advice.candidates[-1]
    assert collapsed.rejected
    assert "has collapsed: it uses 1.8 classes, for the last images 38 % as many as the source" in collapsed.reason
    assert "changes" in advice.best.reason
    assert "not collapsed" in advice.best.reason
    assert "adapted = midway.adapt(model, 'repair')" in str(advice)
    assert repr(advice) == str(advice)


@pytest.mark.usefixtures("known_methods")
def test_a_network_that_nothing_improves_is_left_as_it_is() -> None:
    advice = quiet(Columns(), striped(32), "damage,repair", batch_size=8)
    assert advice.leave
    assert advice.best.label == "source"
    assert "Leave the network as it is" in str(advice)
    assert advice.candidates[0].label == "source", "of equal scores the source is first"


@pytest.mark.usefixtures("known_methods")
def test_a_collapsed_method_is_not_recommended_even_alone() -> None:
    network = harmed()
    network.gain.data.fill_(0.0)  # far worse than the collapsing method is before it collapses
    advice = quiet(network, striped(32), "collapse", batch_size=8)
    assert advice.candidates[-1].label == "collapse"
    assert advice.leave


def test_one_class_is_a_collapse_even_if_the_source_has_hardly_more() -> None:
    assert has_collapsed({"late_classes": 100.0, "classes_used": 1.0})
    assert not has_collapsed({"late_classes": 100.0, "classes_used": 1.2})
    assert has_collapsed({"late_classes": 59.0, "classes_used": 5.0})


def test_labels_are_not_used_and_failures_are_listed(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, CLASSES))
    images = striped(16)
    first = quiet(network, (images, torch.arange(16) % CLASSES), "tent,lame", batch_size=8, out=tmp_path)
    second = quiet(network, images, "tent,lame", batch_size=8)
    assert [each.label for each in first.candidates] == [each.label for each in second.candidates]
    assert first.candidates[-1].reason.startswith("failed: ValueError: the model has no normalisation layer")
    rows = json.loads(json.dumps(first.rows()))
    assert rows[-1]["score"] is None
    assert sum(row["recommended"] for row in rows) == 1
    assert max(map(len, str(first).splitlines())) <= 80


def test_class_folders_need_no_classes(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for index in range(4):
            Image.new("RGB", (SIDE, SIDE), (60 * index,) * 3).save(tmp_path / name / f"{index}.png")
    advice = quiet(tiny_network(), tmp_path, "bn")
    assert advice.comparison["bn"].images == 8
    assert not advice.comparison.labelled


def test_what_cannot_be_ranked_is_said() -> None:
    with pytest.raises(ValueError, match=r"bn.* cannot be ranked, its answers to mirrored images are the same"):
        quiet(tiny_network(), torch.rand(8, 3, 8, 8), "bn(views='mirror')")
    with pytest.raises(ValueError, match=r"bn.* cannot be ranked, its answers to mirrored images are the same"):
        quiet(tiny_network(), torch.rand(8, 3, 8, 8), "bn(wrap='mirrored')")
    signals = nn.Sequential(nn.Conv1d(3, 4, 1), nn.AdaptiveAvgPool1d(1), nn.Flatten())
    with pytest.raises(ValueError, match="these inputs are no images"):
        quiet(signals, [(torch.rand(8, 3, 16), torch.arange(8) % 4)], "source(label='again')")


def test_the_number_of_images_is_limited() -> None:
    advice = quiet(tiny_network(), torch.rand(24, 3, 8, 8), "bn", batch_size=8, images=10)
    assert advice.comparison["bn"].images == 10


def image_evidence(mean: float, deviation: float = 1.0) -> Tensor:
    """Evidence of four images with a mean and a deviation."""
    return mean + deviation * torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)


@pytest.mark.parametrize(
    ("found", "order", "best"),
    [
        ({"source": (0, 1), "a": (10, 1), "b": (11, 1)}, ["b", "a", "source"], "b"),
        ({"source": (0, 1), "a": (-1, 1)}, ["source", "a"], "source"),
        ({"source": (0, 0), "a": (0, 0)}, ["source", "a"], "source"),  # of equal scores the source is first
        ({"source": (0, 0), "a": (1, 2.1)}, ["source", "a"], "source"),  # standard error 2.1 / 2
        ({"source": (0, 0), "a": (1, 1.9)}, ["a", "source"], "a"),
        ({"source": (0, 1), "a": (20, 1), "collapsed": (90, 1)}, ["a", "source", "collapsed"], "a"),
        ({"source": (0, 1), "collapsed": (90, 1)}, ["source", "collapsed"], "source"),
        ({"source": (0, 0), "a": (11, 0), "b": (10, 2.1)}, ["a", "b", "source"], "a"),  # the source alone wins ties
    ],
)
def test_rank(found: dict[str, tuple[float, float]], order: list[str], best: str) -> None:
    values = {label: image_evidence(mean, deviation) for label, (mean, deviation) in found.items()}
    assert rank(values, ["collapsed"]) == (order, best)


def test_a_method_that_changes_too_little_is_not_recommended() -> None:
    values = {"source": image_evidence(0), "same": image_evidence(20), "a": image_evidence(10)}
    assert rank(values, able=["a"]) == (["a", "same", "source"], "a")
    assert rank(values, able=[]) == (["source", "same", "a"], "source")


def test_a_name_is_no_network() -> None:
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, got str"):
        quiet("wrn16_2.cifar10", torch.rand(8, 3, 8, 8))


def test_scores_are_above_the_source_and_doubts_are_said() -> None:
    torch.manual_seed(0)
    advice = quiet(tiny_network(), torch.rand(40, 3, 8, 8), "bn,lame", batch_size=20)
    by_label = {each.label: each for each in advice.candidates}
    assert (by_label["source"].score, by_label["source"].error) == (0, 0)
    assert set(advice.rows()[0]) >= {"score", "standard_error", "reason", "code"}
    information = advice.comparison[advice.best.label].metrics["mirror_information"]
    assert bool(advice.note) == (information <= 0)
    assert max(map(len, str(advice).splitlines())) <= 80


def test_a_network_that_guesses_is_doubted() -> None:
    class Guesses(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return 1e4 * images[:, 0, 0, :CLASSES]

    advice = quiet(Guesses(), torch.rand(64, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0)), "lame")
    assert "are unrelated, or all images have the same prediction" in advice.note
    assert "Note: The predictions for images and their mirror images are unrelated" in " ".join(str(advice).split())


def test_stored_answers_are_used_again_only_for_the_same_images(tmp_path: Path) -> None:
    network, generator = tiny_network(), torch.Generator().manual_seed(0)
    first, second = (torch.rand(16, 3, 8, 8, generator=generator) for _ in range(2))
    expected = quiet(network, first, "bn,tent", batch_size=8).rows()
    for images in (first, second, first, first):  # the second call overwrites the answers of the first
        advice = quiet(network, images, "bn,tent", batch_size=8, out=tmp_path)
    assert [(row["method"], row["score"]) for row in advice.rows()] == [
        (row["method"], row["score"]) for row in expected
    ]
