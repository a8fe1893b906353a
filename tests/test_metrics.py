from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from midway.metrics import average_accuracy, calibration_error, mean_corruption_error, negative_log_likelihood

PURE = Path(__file__).parents[1] / "src/midway/bench/assets/paper/pure.csv"


def answers(count: int, classes: int, seed: int, scale: float = 3.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(count, classes, generator=generator, dtype=torch.float64)
    return logits, torch.randint(classes, (count,), generator=generator)


def naive_probabilities(row: list[float]) -> list[float]:
    powers = [math.exp(value - max(row)) for value in row]
    return [power / sum(powers) for power in powers]


def naive_calibration_error(logits: Tensor, labels: Tensor, bins: int) -> float:
    """Sort image by image into bins (low, high], then compare two means a bin."""
    members: dict[int, list[tuple[float, bool]]] = {}
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        probabilities = naive_probabilities(row)
        confidence = max(probabilities)
        number = next(b for b in range(bins) if confidence <= (b + 1) / bins or b == bins - 1)
        members.setdefault(number, []).append((confidence, probabilities.index(confidence) == label))
    error = 0.0
    for inside in members.values():
        confidence = sum(c for c, _ in inside) / len(inside)
        accuracy = sum(right for _, right in inside) / len(inside)
        error += len(inside) / len(labels) * abs(confidence - accuracy)
    return 100 * error


@settings(max_examples=40)
@given(st.integers(1, 60), st.integers(2, 7), st.integers(0, 10_000), st.sampled_from([1, 4, 15]))
def test_calibration_error_and_likelihood_against_plain_python(count: int, classes: int, seed: int, bins: int) -> None:
    logits, labels = answers(count, classes, seed)
    assert calibration_error(logits, labels, bins=bins) == pytest.approx(naive_calibration_error(logits, labels, bins))
    surprise = [
        -math.log(naive_probabilities(row)[label]) for row, label in zip(logits.tolist(), labels.tolist(), strict=True)
    ]
    assert negative_log_likelihood(logits, labels) == pytest.approx(sum(surprise) / count)


def test_calibration_error_by_hand() -> None:
    sure = math.log(9)  # two classes: probability 0.9
    logits = torch.tensor([[sure, 0.0], [sure, 0.0], [0.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 0, 0])
    # bin of 0.9: right in one of two, gap 0.4; bin of 0.5: right in two of two, gap 0.5; half of the images each
    assert calibration_error(logits, labels) == pytest.approx(45)
    assert calibration_error(logits, labels, bins=1) == pytest.approx(abs(70 - 75))  # one bin lets the gaps cancel


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(0, 10_000))
def test_order_offsets_and_one_bin(count: int, seed: int) -> None:
    logits, labels = answers(count, 5, seed)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    offset = torch.arange(count, dtype=torch.float64)[:, None]
    for metric in (calibration_error, negative_log_likelihood):
        assert metric(logits[order], labels[order]) == pytest.approx(metric(logits, labels))
        assert metric(logits + offset, labels) == pytest.approx(metric(logits, labels))
        assert metric(logits.log_softmax(1), labels) == pytest.approx(metric(logits, labels))
    confidence, predicted = logits.softmax(1).max(1)
    gap = confidence.mean() - (predicted == labels).double().mean()
    assert calibration_error(logits, labels, bins=1) == pytest.approx(100 * abs(gap.item()))
    assert calibration_error(logits, labels) >= 100 * abs(gap.item()) - 1e-9  # finer bins never hide more


def test_certain_and_empty_answers() -> None:
    certain = torch.tensor([[1e4, 0.0], [0.0, 1e4]])
    assert calibration_error(certain, torch.tensor([0, 1])) == 0
    assert calibration_error(certain, torch.tensor([1, 0])) == 100
    assert negative_log_likelihood(certain, torch.tensor([1, 0])) == 1e4
    empty = torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)
    assert math.isnan(calibration_error(*empty))
    assert math.isnan(negative_log_likelihood(*empty))


def published() -> dict[str, dict[str, dict[str, float]]]:
    table: dict[str, dict[str, dict[str, float]]] = {}
    with PURE.open() as file:
        for row in csv.DictReader(file):
            table.setdefault(row["dataset"], {}).setdefault(row["method"], {})[row["corruption"]] = float(row["value"])
    return table


@pytest.mark.parametrize("data", ["cifar10c", "cifar100c"])
def test_the_papers_own_averages_come_out(data: str) -> None:
    rows = published()[data]
    reported = {method: (row.pop("mean_accuracy"), row.pop("mce")) for method, row in rows.items()}
    by_corruption = {method: {name: [value] for name, value in row.items()} for method, row in rows.items()}
    assert len(rows) == 9
    for method, (mean, mce) in reported.items():
        assert average_accuracy(by_corruption[method]) == pytest.approx(mean, abs=0.01)  # the paper cuts, not rounds
        assert mean_corruption_error(by_corruption[method], by_corruption["source"]) == pytest.approx(mce, abs=0.0051)


def test_severities_are_summed_before_dividing() -> None:
    source = {"fog": [90.0, 50.0], "snow": [80.0, 80.0]}
    better = {"fog": [100.0, 70.0], "snow": [80.0, 90.0]}
    # fog: (0 + 30) / (10 + 50) = 1/2; snow: (20 + 10) / 40 = 3/4
    assert mean_corruption_error(better, source) == pytest.approx(62.5)
    assert average_accuracy(better) == 85


percent = st.floats(0, 99)


@settings(max_examples=40)
@given(st.lists(st.tuples(percent, percent), min_size=1, max_size=6), st.floats(0, 1))
def test_laws_of_the_corruption_error(rows: list[tuple[float, float]], share: float) -> None:
    source = {str(number): list(row) for number, row in enumerate(rows)}
    assert mean_corruption_error(source, source) == pytest.approx(100)
    partly = {name: [100 - share * (100 - value) for value in row] for name, row in source.items()}
    assert mean_corruption_error(partly, source) == pytest.approx(100 * share, abs=1e-9)
    assert average_accuracy(partly) == pytest.approx(100 - share * (100 - average_accuracy(source)))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"logits must be \(N, C\) and labels \(N,\), got \(2, 3\) and \(3,\)"):
        calibration_error(torch.zeros(2, 3), torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match="bins must be at least 1, got 0"):
        calibration_error(torch.zeros(2, 3), torch.zeros(2, dtype=torch.long), bins=0)
    with pytest.raises(ValueError, match="same number of severities"):
        average_accuracy({"fog": [1.0], "snow": [1.0, 2.0]})
    with pytest.raises(ValueError, match="same number of severities"):
        average_accuracy({"fog": []})
    with pytest.raises(ValueError, match="only one has: snow"):
        mean_corruption_error({"fog": [1.0]}, {"fog": [1.0], "snow": [1.0]})
    with pytest.raises(ValueError, match="fog: 1 severities, but 2 of the source"):
        mean_corruption_error({"fog": [1.0]}, {"fog": [1.0, 2.0]})
    with pytest.raises(ValueError, match="fog: the source makes no error"):
        mean_corruption_error({"fog": [1.0]}, {"fog": [100.0]})
