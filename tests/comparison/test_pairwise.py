"""The score of recommend: by hand, against a naive second implementation, and its laws."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from midway.bench.entries import parse_entries
from midway.comparison.pairwise import Predicted, evidence, family, standard_error
from midway.metrics.label_free import shared_information

CLASSES, IMAGES = 4, 12
Answers = tuple[list[int], list[int], str]
"""Predicted classes of images and of mirrored images, and the family."""


def predicted(candidates: dict[str, Answers]) -> dict[str, Predicted]:
    return {
        label: Predicted(torch.tensor(images), torch.tensor(mirrored), name)
        for label, (images, mirrored, name) in candidates.items()
    }


def scores(candidates: dict[str, Answers], classes: int = CLASSES, collapsed: tuple[str, ...] = ()) -> dict[str, float]:
    found = evidence(predicted(candidates), classes, collapsed)
    return {label: values.mean().item() for label, values in found.items()}


def naive(candidates: dict[str, Answers], classes: int, collapsed: tuple[str, ...]) -> dict[str, float]:
    """Compute the scores from counts, pair by pair."""

    def information(answers: list[int], mirrored: list[int]) -> float:
        count = len(answers)
        total = -sum(answers.count(c) / count * math.log(answers.count(c) / count) for c in set(answers))
        wrong = min(sum(a != b for a, b in zip(answers, mirrored, strict=True)) / count, 1 - 1 / classes)
        for share in (wrong, 1 - wrong):
            total += share * math.log(share) if share else 0
        return 100 * (total - wrong * math.log(classes - 1)) / math.log(classes)

    result = {}
    for label, (images, mirrored, _) in candidates.items():
        gains: dict[str, list[float]] = {}
        for other, (other_images, other_mirrored, name) in candidates.items():
            if other in collapsed:
                continue
            chosen = [index for index in range(len(images)) if images[index] != other_images[index]]
            gain = 0.0
            if chosen:
                own = information([images[i] for i in chosen], [mirrored[i] for i in chosen])
                others = information([other_images[i] for i in chosen], [other_mirrored[i] for i in chosen])
                gain = len(chosen) / len(images) * (own - others)
            gains.setdefault(name, []).append(gain)
        means = [sum(values) / len(values) for values in gains.values()]
        result[label] = sum(means) / len(means) if means else 0.0
    return result


answer_lists = st.lists(st.integers(0, CLASSES - 1), min_size=IMAGES, max_size=IMAGES)
candidate_sets = st.dictionaries(
    st.sampled_from(["source", "bn", "tent", "lame", "mita"]),
    st.tuples(answer_lists, answer_lists, st.sampled_from(["source", "batch", "clustered"])),
    min_size=1,
)


def test_by_hand() -> None:
    # They differ on images 0 and 1 of 4. There a answers 0, 1 and stays: ln 2 - 0 = 100 % of ln 2. b answers 1, 0 and
    # always changes, as by chance: ln 2 - ln 2 = 0. The gain is 2/4 of 100, and half of it after the mean with the
    # own family, which has no other member.
    candidates = {"a": ([0, 1, 0, 1], [0, 1, 0, 1], "source"), "b": ([1, 0, 0, 1], [0, 1, 0, 1], "batch")}
    assert scores(candidates, classes=2) == pytest.approx({"a": 25.0, "b": -25.0})


def test_one_class_on_the_disputed_images_loses_to_many_by_hand() -> None:
    # Both are stable on all four images; a has four classes there (ln 4), b one class (0).
    candidates = {"a": ([1, 2, 3, 0], [1, 2, 3, 0], "source"), "b": ([0, 0, 0, 1], [0, 0, 0, 1], "batch")}
    b = -(3 / 4 * math.log(3 / 4) + 1 / 4 * math.log(1 / 4)) / math.log(4)
    assert scores(candidates) == pytest.approx({"a": 50 * (1 - b), "b": -50 * (1 - b)})


@given(candidate_sets, st.sets(st.sampled_from(["bn", "mita"])))
def test_naive(candidates: dict[str, Answers], collapsed: set[str]) -> None:
    given_up = tuple(collapsed)
    assert scores(candidates, CLASSES, given_up) == pytest.approx(naive(candidates, CLASSES, given_up), abs=1e-9)


@given(answer_lists, answer_lists)
def test_terms_add_up_to_the_shared_information(images: list[int], mirrored: list[int]) -> None:
    other = [(answer + 1) % CLASSES for answer in images]  # every image is disputed
    candidates = {"a": (images, mirrored, "source"), "b": (other, other, "batch")}
    own = shared_information(torch.tensor(images), torch.tensor(mirrored), CLASSES)
    others = shared_information(torch.tensor(other), torch.tensor(other), CLASSES)
    assert scores(candidates)["a"] == pytest.approx((own - others) / 2, abs=1e-9)


@given(candidate_sets, st.permutations(range(IMAGES)), st.permutations(range(CLASSES)))
def test_neither_order_nor_names_matter(candidates: dict[str, Answers], order: list[int], names: list[int]) -> None:
    changed = {
        label: ([names[images[index]] for index in order], [names[mirrored[index]] for index in order], name)
        for label, (images, mirrored, name) in candidates.items()
    }
    before, after = evidence(predicted(candidates), CLASSES), evidence(predicted(changed), CLASSES)
    first = next(iter(before))
    for label in before:
        assert after[label].mean().item() == pytest.approx(before[label].mean().item(), abs=1e-9)
        error = standard_error(before[label], before[first])
        assert standard_error(after[label], after[first]) == pytest.approx(error, abs=1e-9)


@given(answer_lists, answer_lists)
def test_repeating_a_candidate_of_a_family_changes_no_score(images: list[int], mirrored: list[int]) -> None:
    source = ([0, 1, 2, 3] * 3, [0, 1, 2, 3] * 3, "source")
    one = scores({"source": source, "bn": (images, mirrored, "batch")})
    many = scores({"source": source, **{f"bn{index}": (images, mirrored, "batch") for index in range(4)}})
    assert many["source"] == pytest.approx(one["source"], abs=1e-9)
    assert many["bn3"] == pytest.approx(one["bn"], abs=1e-9)


def test_a_collapsed_method_has_the_lowest_score() -> None:
    generator = torch.Generator().manual_seed(0)
    truth = torch.randint(10, (500,), generator=generator)

    def view(accuracy: float) -> torch.Tensor:
        """Answers that are right with a probability, and otherwise guesses."""
        guesses = torch.randint(10, (500,), generator=generator)
        return torch.where(torch.rand(500, generator=generator) < accuracy, truth, guesses)

    def answers(accuracy: float, name: str) -> Predicted:
        return Predicted(view(accuracy), view(accuracy), name)

    found = evidence(
        {
            "source": answers(0.4, "source"),
            "bn": answers(0.7, "batch"),
            "tent": answers(0.6, "batch"),
            "one class": Predicted(torch.zeros(500).long(), torch.zeros(500).long(), "batch"),
        },
        10,
    )
    order = sorted(found, key=lambda label: -found[label].mean().item())
    assert order == ["bn", "tent", "source", "one class"]


def test_the_standard_error_is_that_of_a_bootstrap() -> None:
    generator = torch.Generator().manual_seed(0)
    truth = torch.randint(10, (400,), generator=generator)

    def candidates(chosen: torch.Tensor) -> dict[str, Predicted]:
        return {label: Predicted(a[chosen], b[chosen], label) for label, (a, b) in answers.items()}

    def view(accuracy: float) -> torch.Tensor:
        guesses = torch.randint(10, (400,), generator=generator)
        return torch.where(torch.rand(400, generator=generator) < accuracy, truth, guesses)

    answers = {label: (view(accuracy), view(accuracy)) for label, accuracy in (("a", 0.8), ("b", 0.6), ("c", 0.5))}
    found = evidence(candidates(torch.arange(400)), 10)
    differences = []
    for _ in range(200):
        again = evidence(candidates(torch.randint(400, (400,), generator=generator)), 10)
        differences.append((again["a"] - again["b"]).mean())
    assert standard_error(found["a"], found["b"]) == pytest.approx(torch.stack(differences).std().item(), rel=0.2)


def test_families_are_the_statistics() -> None:
    entries = parse_entries("source,memo,eata,tent(statistics='clustered'),bn(statistics='alpha')")
    assert [family(entry) for entry in entries] == ["source", "source", "batch", "clustered", "alpha"]
