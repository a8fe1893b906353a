from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midway.bench import Cell, Grid, Store
from midway.bench.budget import BudgetChoice, CostEstimate, CostEstimator, fit_budget, fit_grid, read_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("30m", 1800), ("1.5h", 5400), ("1h30m", 5400), ("2h5s", 7205), (" 1m ", 60)],
)
def test_durations(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0m", "-5m", "m", "5 minutes", "1..5h", "5m1h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: write it like 90s, 30m or 1h30m"):
        read_duration(text)


def test_fewer_images_before_fewer_entries() -> None:
    seconds = {"source": 0.125, "tent": 0.25, "memo": 64.0, "mita": 0.625}
    prices = {label: CostEstimate(price, price) for label, price in seconds.items()}
    sizes: Any = {"streams": dict.fromkeys(prices, 2), "available": 1000, "batch_size": 100}
    # an image of all four costs 65 x 2 = 130 s, two batches 26,000 s
    assert fit_budget(prices, budget=1e9, **sizes) == BudgetChoice(1000, 1000, 130_000)
    assert fit_budget(prices, budget=130_000, **sizes) == BudgetChoice(1000, 1000, 130_000)
    assert fit_budget(prices, budget=129_999, **sizes) == BudgetChoice(900, 1000, 117_000)
    assert fit_budget(prices, budget=26_000, **sizes) == BudgetChoice(200, 1000, 26_000)
    without = fit_budget(prices, budget=25_999, **sizes)
    assert (without.images, without.seconds) == (1000, 2000)
    assert without.left_out == {"memo": "200 images would take about 25600 s, more than the others leave of 25999 s"}
    halved = fit_budget(prices, budget=12_999, jobs=2, **sizes)
    assert halved.left_out == {"memo": "200 images would take about 12800 s, more than the others leave of 12999 s"}
    assert halved.seconds == 1000
    assert fit_budget(prices, budget=1e9, jobs=100, **sizes).seconds == 64_000  # one cell of memo, whatever the jobs
    least = fit_budget(prices, budget=1, **sizes)
    assert (least.images, least.seconds, list(least.left_out)) == (200, 300, ["memo", "tent"])


def test_images_that_are_not_adapted_to_are_cheap_and_finished_rows_stay() -> None:
    prices = {
        "source": CostEstimate(0.01, 0.01),
        "dua": CostEstimate(1.0, 0.01, adapts_to=100),
        "memo": CostEstimate(50.0, 50.0),
    }
    streams = {"source": 1, "dua": 1, "memo": 0}  # memo is finished
    sizes: Any = {"streams": streams, "available": 1000, "batch_size": 100}
    # dua: 100 s for the first hundred images, one more second for each hundred after them
    assert fit_budget(prices, budget=110, **sizes) == BudgetChoice(500, 1000, 109.0)
    assert list(fit_budget(prices, budget=50, **sizes).left_out) == ["dua"]


def test_starts_and_the_images_of_streams_take_time_too() -> None:
    prices = {"source": CostEstimate(0.1, 0.1, start=2.0), "tent": CostEstimate(0.2, 0.2, start=5.0)}
    sizes: Any = {"streams": {"source": 3, "tent": 3}, "available": 1000, "batch_size": 100}
    counts: Any = {"starts": {"source": 3, "tent": 3}, "image_seconds": 0.1}
    # 21 s for six starts, and for an image of all streams 0.9 s of the methods and 0.1 s to compute it
    assert fit_budget(prices, budget=1021, **sizes, **counts) == BudgetChoice(1000, 1000, pytest.approx(1021))
    assert fit_budget(prices, budget=1020, **sizes, **counts) == BudgetChoice(900, 1000, pytest.approx(921))
    assert fit_budget(prices, budget=220, **sizes, **counts).left_out == {
        "tent": "200 images would take about 135 s, more than the others leave of 220 s"
    }
    assert fit_budget(prices, budget=1e9, jobs=2, **sizes, **counts).seconds == pytest.approx(1021 / 2)


def cells_on(scenarios: str) -> list[Cell]:
    plan = {"methods": "source,bn", "scenarios": scenarios, "images": 24, "batch_sizes": 12, "device": "cpu"}
    return Grid.from_dict(plan).cells()


def test_the_start_and_the_images_of_a_cell_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    estimator, (cell, other) = CostEstimator(), cells_on("pure:fog")
    first = estimator.estimate(cell)
    spent = estimator.spent
    assert 0 < first.start < spent
    assert estimator.estimate(cell) == first
    assert estimator.spent == spent  # nothing was tried again
    estimator.estimate(other)
    assert estimator.spent > spent
    monkeypatch.setattr("midway.streams.Stream.pixels", lambda self, positions: time.sleep(0.01 * len(positions)))
    assert 0.01 <= estimator.image_seconds(cell) < 0.1


def test_trials_starts_and_images_are_part_of_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tried(self: CostEstimator, cell: Cell) -> CostEstimate:
        self.spent += 100.0
        return CostEstimate(1.0, 1.0, start=10.0)

    given: list[dict[str, Any]] = []

    def noted(*arguments: Any, **settings: Any) -> BudgetChoice:
        given.append(settings)
        return fit_budget(*arguments, **settings)

    monkeypatch.setattr(CostEstimator, "estimate", tried)
    monkeypatch.setattr(CostEstimator, "image_seconds", lambda self, cell: 0.5)
    monkeypatch.setattr("midway.bench.budget.fit_budget", noted)
    grid = Grid.from_dict({"methods": "source,bn", "scenarios": "pure:fog,pure:snow", "images": 24, "batch_sizes": 12})
    with Store(tmp_path) as store:
        _, chosen = fit_grid(grid, store, 1000.0)
        assert given[0]["budget"] == 1000.0 - 2 * 100
        assert given[0]["starts"] == {"source": 2, "bn": 2}
        assert given[0]["image_seconds"] == 2 * 0.5  # two streams, whatever the number of methods
        assert chosen.seconds == 4 * (10 + 24) + 24
        fit_grid(grid, store, 100.0)
        assert given[1]["budget"] == 0.0


def test_whether_it_is_everything() -> None:
    assert not BudgetChoice(10, 10, 1.0).reduced
    assert BudgetChoice(9, 10, 1.0).reduced
    assert BudgetChoice(10, 10, 1.0, {"memo": "too dear"}).reduced


@settings(max_examples=60)
@given(
    st.dictionaries(st.sampled_from(["source", "tent", "tea", "memo", "mita"]), st.floats(1e-3, 10), min_size=1),
    st.integers(1, 20),
    st.integers(1, 5000),
    st.integers(1, 500),
    st.floats(1, 1e6),
)
def test_what_is_chosen_fits_or_is_the_least(
    prices: dict[str, float], streams: int, available: int, batch_size: int, budget: float
) -> None:
    chosen = fit_budget(
        {label: CostEstimate(price, price) for label, price in prices.items()},
        streams=dict.fromkeys(prices, streams),
        available=available,
        batch_size=batch_size,
        budget=budget,
    )
    kept = {name: price for name, price in prices.items() if name not in chosen.left_out}
    least = min(available, 2 * batch_size)
    assert least <= chosen.images <= available
    assert chosen.images == available or chosen.images % batch_size == 0 or chosen.images == least
    assert chosen.seconds == pytest.approx(sum(kept.values()) * streams * chosen.images)
    assert chosen.seconds <= budget * (1 + 1e-6) or chosen.images == least
    assert {"source", "mita"} & prices.keys() <= kept.keys()
    if chosen.left_out:  # with the dearest of them it would not have fitted
        back = sum(kept.values()) + min(prices[name] for name in chosen.left_out)
        assert back * streams * least > budget * (1 - 1e-6)


def test_a_choice_is_kept(tmp_path: Path) -> None:
    choice = BudgetChoice(400, 2000, 12.5, {"memo": "too dear"})
    choice.save(tmp_path / "budget.json")
    assert BudgetChoice.load(tmp_path / "budget.json") == choice
    assert [path.name for path in tmp_path.iterdir()] == ["budget.json"]
    for content in ("", "[1]", '{"images": 4}'):
        (tmp_path / "budget.json").write_text(content)
        with pytest.raises(ValueError, match="delete it to choose again"):
            BudgetChoice.load(tmp_path / "budget.json")
