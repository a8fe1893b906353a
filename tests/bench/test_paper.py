from __future__ import annotations

import csv
import tomllib
from pathlib import Path

import pytest

from midway.bench import paper
from midway.data import corruption_names
from midway.metrics import average_accuracy, mean_corruption_error
from midway.streams.parsing import RATIOS

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "src/midway/bench/assets/paper"


def rows(name: str) -> list[dict[str, str]]:
    with (ASSETS / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_every_row_is_reachable_with_its_value() -> None:
    asked = 0
    for name in ("outlier_and_mixture", "ratio_sweep"):
        for row in rows(name):
            pair = (row["dist_a"], row["dist_b"])
            found = paper.accuracy(shifts=pair, ratio=float(row["ratio_a"]), method=row["method"], group=row["group"])
            assert found == float(row["accuracy"]), row
            asked += 1
    for row in rows("ablation"):
        pure = row["scenario"] == "pure"
        found = paper.accuracy(
            shifts=(row["group"],) if pure else ("impulse_noise", "gaussian_noise"),
            ratio=None if pure else float(row["ratio_a"]),
            method=row["variant"],
            group=row["group"],
        )
        assert found == float(row["accuracy"]), row
        asked += 1
    averages = {(row.data, row.method): row for row in paper.averages()}
    for row in rows("pure"):
        column, place = row["corruption"], (row["dataset"], row["method"])
        if column in ("mean_accuracy", "mce"):
            found = averages[place].accuracy if column == "mean_accuracy" else averages[place].mce
        else:
            found = paper.accuracy(shifts=(column,), data=place[0], method=place[1], group=column)
            asked += 1
        assert found == float(row["value"]), row
    assert asked == len(paper.scores()) == 324 + 756 + 40 + 270


def test_the_shape_of_the_tables() -> None:
    def there(table: str) -> list[paper.PublishedScore]:
        return [score for score in paper.scores() if score.table == table]

    for table, ratio in (("outlier", 0.005), ("mixture", 0.5)):
        assert {score.ratio for score in there(table)} == {ratio}
        assert tuple(dict.fromkeys(s.shifts for s in there(table))) == paper.PAIRS
        assert tuple(dict.fromkeys(s.method for s in there(table))) == paper.METHODS
    assert tuple(dict.fromkeys(s.ratio for s in there("sweep"))) == RATIOS
    assert {s.method for s in there("sweep")} == set(paper.METHODS) - {"tea", "memo"}
    assert tuple(dict.fromkeys(s.group for s in there("pure"))) == corruption_names("benchmark")
    assert tuple(dict.fromkeys(s.method for s in there("ablation"))) == (
        "source", "mita_without_data", "mita_without_model", "mita_same", "mita",
    )  # fmt: skip


def test_tables_that_share_numbers_agree() -> None:
    seen: dict[tuple[object, ...], float] = {}
    for score in paper.scores():
        place = (score.data, score.shifts, score.ratio, score.method, score.group)
        assert seen.setdefault(place, score.accuracy) == score.accuracy
        if score.method == "mita_without_data":  # which is TEA
            assert score.accuracy == paper.accuracy(
                shifts=score.shifts, ratio=score.ratio, method="tea", group=score.group
            )


def test_all_is_the_weighted_mean_of_the_groups_but_for_two_slips_of_the_paper() -> None:
    slips = {}
    for score in paper.scores():
        if score.group == "all" and score.table != "ablation":
            assert score.ratio is not None
            parts = [
                paper.accuracy(shifts=score.shifts, ratio=score.ratio, method=score.method, group=group)
                for group in score.shifts
            ]
            assert parts[0] is not None
            assert parts[1] is not None
            mean = score.ratio * parts[0] + (1 - score.ratio) * parts[1]
            if abs(mean - score.accuracy) > 0.0151:
                slips[score.method, score.shifts, score.ratio] = (score.accuracy, round(mean, 2))
    assert slips == {
        ("memo", ("impulse_noise", "gaussian_noise"), 0.5): (64.60, 64.40),
        ("mita", ("glass_blur", "gaussian_noise"), 0.2): (74.81, 75.31),
    }


@pytest.mark.parametrize("data", paper.DATA)
def test_averages_come_from_the_corruptions(data: str) -> None:
    def by_corruption(method: str) -> dict[str, list[float]]:
        found = {s.group: [s.accuracy] for s in paper.scores() if (s.data, s.method, s.table) == (data, method, "pure")}
        assert len(found) == 15
        return found

    here = [row for row in paper.averages() if row.data == data]
    assert tuple(row.method for row in here) == paper.METHODS
    for row in here:
        assert average_accuracy(by_corruption(row.method)) == pytest.approx(row.accuracy, abs=0.01)
        mce = mean_corruption_error(by_corruption(row.method), by_corruption("source"))
        assert mce == pytest.approx(row.mce, abs=0.0051)


def test_complexity_row_by_row() -> None:
    given = {row["method"]: row for row in rows("complexity")}
    assert [row.label for row in paper.complexity()] == list(given)
    for row in paper.complexity():
        assert row.million_parameters == float(given[row.label]["params_m"])
        assert row.gflops == float(given[row.label]["gflops_per_image"])
        assert row.seconds == float(given[row.label]["seconds_for_200_images_a800"])
    settings = {row.label: (row.method, row.langevin_steps, row.views) for row in paper.complexity()}
    assert settings["source"] == ("source", None, None)
    assert settings["tea"] == ("tea", 1, None)
    assert settings["memo_16_views"] == ("memo", None, 16)
    assert settings["mita_5_sgld_steps"] == ("mita", 5, None)


def test_what_the_paper_lacks() -> None:
    assert paper.accuracy(shifts=("pixelate", "shot_noise"), ratio=0.02, method="tea", group="all") is None
    assert paper.accuracy(shifts=("fog",), method="tent", group="snow") is None
    with pytest.raises(ValueError, match="unknown data set of the paper 'cifar10': did you mean 'cifar10c'"):
        paper.accuracy(shifts=("fog",), method="tent", group="fog", data="cifar10")


def test_the_numbers_are_part_of_the_package() -> None:
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["midway"]
    assert "bench/assets/**" in packaged


def test_data_sets_that_compare_to_those_of_the_paper() -> None:
    names = ("cifar10-mini", "cifar100-c", "pacs")
    assert [paper.find_comparable(name) for name in names] == ["cifar10c", "cifar100c", None]
