from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from midway.bench import Comparison, Result
from midway.report import accuracy_table, to_markdown, to_rich
from midway.report.figures import draw_bars, scenario_bars

PAIR = "outlier:glass_blur/gaussian_noise@0.005"


def result(method: str, stream: str, by_group: dict[str, float], accuracy: float, counts: list[int]) -> Result:
    images = dict(zip(by_group, counts, strict=True))
    return Result(method, method, {}, stream, sum(counts), accuracy, by_group, images, (accuracy,), 0.125)


@pytest.fixture
def comparison() -> Comparison:
    return Comparison(
        "A <b>title</b>",
        "midway demo",
        {"network": "<script>alert(1)</script>"},
        (
            result("source", "pure:fog", {"fog": 60.0}, 60.0, [200]),
            result("source", PAIR, {"glass_blur": 50.0, "gaussian_noise": 20.0}, 20.15, [1, 199]),
            result("tent", "pure:fog", {"fog": 75.5}, 75.5, [200]),
            result("tent", PAIR, {"glass_blur": 0.0, "gaussian_noise": 70.0}, 69.65, [1, 199]),
            result("<img src=x>", "pure:fog", {"fog": 75.5}, 75.5, [200]),
        ),
        {"memo": "would take about 500 s of the 120 s there are"},
    )


def test_the_table_marks_the_best_and_what_falls_below_source(comparison: Comparison) -> None:
    table = accuracy_table(comparison)
    assert [(c.group, c.images) for c in table.columns] == [
        ("fog", 200),
        ("glass_blur", 1),
        ("gaussian_noise", 199),
        ("all", 200),
    ]
    rows = {
        method: [None if c is None else (c.value, c.best, c.below_source) for c in cells]
        for method, cells in table.rows
    }
    assert rows["source"] == [(60, False, False), (50, True, False), (20, False, False), (20.15, False, False)]
    assert rows["tent"] == [(75.5, True, False), (0, False, True), (70, True, False), (69.65, True, False)]
    assert rows["<img src=x>"] == [(75.5, True, False), None, None, None]
    assert "columns with only 1 images move in steps of 100 points" in table.notes
    assert "memo was left out: would take about 500 s of the 120 s there are" in table.notes


def test_markdown(comparison: Comparison) -> None:
    lines = to_markdown(accuracy_table(comparison)).splitlines()
    assert lines[0].startswith("| method | pure: fog (200) | outlier: glass blur (1) |")
    assert lines[3] == "| tent | **75.50** | 0.00* | **70.00** | **69.65** |"
    assert lines[4] == "| <img src=x> | **75.50** | - | - | - |"


def test_the_terminal_table_fits_eighty_columns(comparison: Comparison) -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(to_rich(accuracy_table(comparison)))
    text = out.getvalue()
    assert "gaussian" in text
    assert "…" not in text
    assert "0.00*" in text


def test_bars_are_plain_data_first(comparison: Comparison) -> None:
    bars = scenario_bars(comparison)
    assert bars.clusters == ("pure:fog", PAIR)
    assert bars.heights == ((60.0, 20.15), (75.5, 69.65), (75.5, None))
    axes = draw_bars(bars).axes[0]
    assert [text.get_text() for text in axes.figure.legends[0].get_texts()] == ["Source", "TENT", "<img src=x>"]


def test_a_comparison_survives_the_disk(comparison: Comparison, tmp_path: Path) -> None:
    comparison.save(tmp_path / "run" / "results.json")
    assert Comparison.load(tmp_path / "run" / "results.json") == comparison
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["results.json"]
    (tmp_path / "cut.json").write_text('{"title": "x"')
    with pytest.raises(ValueError, match=r"cut\.json is not a stored comparison"):
        Comparison.load(tmp_path / "cut.json")
