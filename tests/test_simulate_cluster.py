"""The simulation of a scheduler, against a clockwork of its own and what must always hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulate_cluster import BATCHES, BatchCost, paper_cells, simulate

from midway.bench.suites import SUITES, suite

seconds = st.lists(st.integers(1, 50), min_size=1, max_size=30)


def by_clockwork(cells: list[int], workers: int, start: int, store: int) -> int:
    """Simulate second by second: results queue for the driver, who stores one after the other."""
    waiting, running, queue, stored = list(cells), [0] * workers, 0, 0
    now, driver = start, 0
    for worker in range(workers):
        if waiting:
            running[worker] = waiting.pop(0)
    while stored < len(cells):
        now += 1
        if driver:
            driver -= 1
            if not driver:
                stored += 1
        for worker in range(workers):
            if running[worker]:
                running[worker] -= 1
                if not running[worker]:
                    queue += 1
                    if waiting:
                        running[worker] = waiting.pop(0)
        while queue and not driver:
            queue -= 1
            driver = store
            stored += not store
    return now


@given(seconds, st.integers(1, 8), st.integers(0, 9), st.integers(0, 5))
def test_it_agrees_with_a_clockwork(cells: list[int], workers: int, start: int, store: int) -> None:
    predicted = simulate(list(map(float, cells)), workers, start=start, store=store)
    assert predicted.seconds == by_clockwork(cells, workers, start, store)


@given(seconds, st.integers(1, 8))
def test_no_schedule_beats_the_longest_cell_nor_the_sum_of_the_work(cells: list[int], workers: int) -> None:
    floor = max(max(cells), sum(cells) / workers)
    for longest_first in (False, True):
        predicted = simulate(list(map(float, cells)), workers, longest_first=longest_first)
        assert floor <= predicted.seconds <= 2 * floor  # Graham's bound for handing out cells as workers get free
        assert predicted.busy == pytest.approx(sum(cells) / workers / predicted.seconds)
    assert simulate(list(map(float, cells)), 1).seconds == sum(cells)


def test_a_slow_driver_is_the_bottleneck() -> None:
    assert simulate([1.0] * 100, 100, store=0.5).seconds == 1 + 100 * 0.5


def test_the_papers_tables_are_counted_cell_by_cell() -> None:
    labels = {entry.label for name in SUITES for entry in suite(name).entries}
    cells = paper_cells(dict.fromkeys(labels, 1.0))
    assert set(cells) == {float(BATCHES)}
    rows = {name: len(suite(name).entries) * len(suite(name).scenarios) for name in SUITES}
    assert len(cells) == sum(rows.values()) + rows["pure"]  # CIFAR-100 has the pure table as well
    assert sum(paper_cells(dict.fromkeys(labels, 0.0) | {"memo": 1.0})) == BATCHES * (6 + 6 + 15 + 15)


def test_a_pass_costs_what_the_paper_says() -> None:
    assert BatchCost(1.0, forward=1, backward=0).gpu_seconds == 0.03
    assert BatchCost(1.0, forward=1, backward=1).gpu_seconds == pytest.approx(0.07)
