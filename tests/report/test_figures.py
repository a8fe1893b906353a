from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from toy_runs import PAIR, result_of, written

from midway.report import Frame, frame
from midway.report.figures import FIGURES, SOURCES, all_figures, draw_figures, figure, save
from midway.report.figures.bars import draw_bars, scenario_bars
from midway.report.figures.drawing import new_figure, styled
from midway.report.figures.heat_map import corruption_map, draw_corruption_map
from midway.report.figures.motivation import Gain, draw_gains, gains_over_source
from midway.report.figures.over_time import draw_over_time, far_below, one_of_each_kind, spread_out
from midway.report.figures.pareto import draw_accuracy_and_cost
from midway.report.figures.sweep import draw_sweeps
from midway.report.series import accuracy_and_cost, accuracy_over_time, ratio_sweeps, running_mean
from midway.report.tidy import plot_styles

HOSTILE = r"$\frac{<script>$"


def test_every_figure_describes_itself() -> None:
    assert {spec.name for spec in all_figures()} == set(FIGURES)
    for name, spec in FIGURES.items():
        assert spec.name == name
        assert spec.source in SOURCES
        assert spec.title
        assert spec.caption.endswith(".")
        assert spec.requires


def test_a_figure_of_another_package_is_drawn_with_the_others() -> None:
    def register() -> None:
        @figure(
            "labels",
            title="Labels",
            caption="All labels.",
            source=Frame,
            build=lambda frame: frame.unique("label"),
            requires="a result",
        )
        def draw_labels(labels: list[str]) -> Figure:
            drawing = new_figure(1, 1)
            drawing.text(0, 0, ",".join(labels))
            return drawing

    register()
    register()  # as a notebook cell does
    try:
        drawn = dict(draw_figures(frame([result_of("bn", "pure:fog", 70.0)])))
        assert written(drawn["labels"]) == {"bn"}
        assert dict(draw_figures(Frame(()), only=["labels"])) == {}
        with pytest.raises(ValueError, match="unknown figure 'lables': did you mean 'labels'"):
            next(draw_figures(Frame(()), only=["lables"]))
    finally:
        FIGURES.remove("labels")


def test_a_run_gets_the_figures_it_is_enough_for() -> None:
    one = [result_of("source", "pure:fog", 60.0, batches=(1.0, 2.0))]
    assert [name for name, _ in draw_figures(frame(one))] == ["over_time", "scenarios"]
    two = [*one, result_of("bn", "pure:fog", 70.0), result_of("bn", "pure:snow", 70.0)]
    assert {name for name, _ in draw_figures(frame(two))} == {
        "scenarios", "motivation", "over_time", "corruptions", "cost_seconds", "cost_gflops",
    }  # fmt: skip
    assert [name for name, _ in draw_figures(frame(two), only=["corruptions", "outlier_ratio"])] == ["corruptions"]
    assert list(draw_figures(Frame(()))) == []


def test_gains_are_against_source_on_the_same_stream_and_seed() -> None:
    gains = gains_over_source(frame([
        result_of("source", "pure:fog", 60.0),
        result_of("source", "pure:fog", 50.0, seed=1),
        result_of("source", "pure:snow", 40.0),
        result_of("bn", "pure:fog", 70.0),
        result_of("bn", "pure:fog", 64.0, seed=1),
        result_of("bn", "pure:snow", 39.0),
        result_of("source", f"mixture:{PAIR}@0.5", 40.0, 20.0, 30.0),
        result_of("bn", f"mixture:{PAIR}@0.5", 40.0, 30.0, 35.0),
        result_of("bn", f"mixture:{PAIR}@0.1", 0.0, 0.0, 0.0),
        result_of("source", f"mixture:{PAIR}@0.1", 90.0, 90.0, 90.0),
        result_of("source", f"outlier:{PAIR}@0.005", 50.0, 20.0, 20.15),
        result_of("bn", f"outlier:{PAIR}@0.005", 30.0, 60.0, 59.85),
        result_of("tent", "pure:frost", 50.0),
    ]))  # fmt: skip
    assert list(gains.styles) == ["bn", "tent"]
    assert gains.clusters == {
        "pure": {"bn": Gain((-1.0, 12.0))},
        "mixture": {"bn": Gain((5.0,))},
        "outlier streams: the rest": {"bn": Gain((40.0,))},
        "outlier streams: the outliers": {"bn": Gain((-20.0,))},
    }
    shown = written(draw_gains(gains))
    assert {"pure\n2 streams", "mixture\n1 stream", "Source", "BN"} <= shown
    assert "TENT" not in shown


def test_gains_over_several_pairs_and_seeds() -> None:
    records = []
    for label, gain in (("source", 0.0), ("bn", 10.0), ("mita", 20.0)):
        for pair, start in ((PAIR, 30.0), ("fog/snow", 40.0)):
            for seed in range(3 if label == "bn" else 2):
                reached = start + gain * (1 + seed)
                records.append(result_of(label, f"mixture:{pair}@0.5", 0.0, 0.0, reached, seed=seed))
                records.append(result_of(label, f"outlier:{pair}@0.005", start - gain, 50.0, 50.0, seed=seed))
    gains = gains_over_source(frame(records))
    assert {label: gain.scenarios for label, gain in gains.clusters["mixture"].items()} == {
        "bn": (15.0, 15.0),  # of two seeds, not three
        "mita": (30.0, 30.0),
    }
    assert gains.clusters["mixture"]["mita"].spread == pytest.approx(20 / 2**0.5)
    assert gains.clusters["outlier streams: the outliers"] == {
        "bn": Gain((-10.0, -10.0), 0.0),
        "mita": Gain((-20.0, -20.0), 0.0),
    }
    assert {"mixture\n2 streams", "outlier streams: the outliers\n2 streams"} <= written(draw_gains(gains))


def means(rows: Sequence[tuple[str, Sequence[Any]]]) -> dict[str, list[float | None]]:
    return {label: [None if value is None else value.mean for value in values] for label, values in rows}


def test_every_figure_is_over_the_seeds_that_all_methods_share() -> None:
    records = []
    for scenario in ("pure:fog", *(f"mixture:{PAIR}@{ratio}" for ratio in (0.005, 0.1, 0.5))):
        records += [result_of("bn", scenario, 60.0, 60.0, 60.0, batches=(60.0, 60.0))]
        records += [result_of("mita", scenario, 50.0, 50.0, 50.0, batches=(50.0, 50.0))]
        records += [result_of("bn", scenario, 0.0, 0.0, 0.0, seed=1, batches=(0.0, 0.0))]
    results = frame(records)
    assert means(scenario_bars(results).table.rows) == {"bn": [60.0] * 4, "mita": [50.0] * 4}
    assert corruption_map(results).accuracies == {"bn": (60.0,), "mita": (50.0,)}
    assert accuracy_over_time(results)[0].lines == {"bn": (60.0, 60.0), "mita": (50.0, 50.0)}
    assert {value.mean for value in ratio_sweeps(results).sweeps[0].lines["bn"].values()} == {60.0}


def test_a_sweep_has_means_over_seeds_and_takes_the_mixture() -> None:
    records = [
        result_of("bn", f"mixture:{PAIR}@{r}", a, 80.0, 70.0) for r, a in ((0.5, 50.0), (0.1, 40.0), (0.005, 30.0))
    ]
    records += [result_of("bn", f"mixture:{PAIR}@0.5", 54.0, 80.0, 70.0, seed=1, seconds_per_batch=1.3)]
    records += [
        result_of("bn", f"outlier:{PAIR}@0.005", 1.0, 80.0, 70.0),
        result_of("bn", "mixture:fog/snow@0.5", 1.0, 1.0, 1.0),
    ]
    data = ratio_sweeps(frame(records))
    assert [(sweep.shifts, sweep.severity) for sweep in data.sweeps] == [(("glass_blur", "fog"), 5)]
    line = data.sweeps[0].lines["bn"]
    assert [(ratio, value.mean) for ratio, value in line.items()] == [(0.005, 30.0), (0.1, 40.0), (0.5, 52.0)]
    assert line[0.5].spread == pytest.approx(8**0.5)
    assert line[0.005].spread is None
    assert data.seconds == {"bn": pytest.approx((3 * 0.5 + 1.3) / 4)}
    assert {"glass blur\namong fog", "BN", "0.7 s", "0.5", "10", "50"} <= written(draw_sweeps(data))
    styles = plot_styles({"bn": "bn", "mita": "mita"})
    times = draw_sweeps(data._replace(seconds={"bn": 0.9, "mita": 20.0}, styles=styles))
    assert {1.0, 10.0} <= set(times.axes[-1].get_xticks())
    assert ratio_sweeps(frame(records[:2])).sweeps == ()


def test_a_group_without_images_is_not_part_of_a_sweep() -> None:
    nan = float("nan")
    records = [
        result_of("bn", f"mixture:{PAIR}@{r}", a, 80.0, 70.0) for r, a in ((0.5, 50.0), (0.1, 40.0), (0.005, nan))
    ]
    assert ratio_sweeps(frame(records)).sweeps == ()


def test_accuracy_over_time_is_a_running_mean_of_the_mean_over_seeds() -> None:
    results = frame([
        result_of("bn", "pure:fog", 50.0, batches=(40.0, 60.0, 80.0, 20.0)),
        result_of("bn", "pure:fog", 50.0, batches=(60.0, 60.0, 60.0, 60.0), seed=1),
    ])  # fmt: skip
    (stream,) = accuracy_over_time(results, window=2)
    assert stream.lines == {"bn": (55.0, 65.0, 55.0)}
    (plain,) = accuracy_over_time(results)
    assert plain.window == 1
    assert plain.lines == {"bn": (50.0, 60.0, 70.0, 40.0)}
    line = draw_over_time((stream,)).axes[0].lines[0]
    assert list(line.get_xdata()) == [2, 3, 4]
    assert list(line.get_ydata()) == [55.0, 65.0, 55.0]
    assert running_mean([1.0, 2.0, 6.0], 2) == (1.5, 4.0)


def test_a_few_streams_of_each_kind_are_drawn_over_time() -> None:
    names = ("pure:fog", "pure:snow", "mixture:fog/snow@0.5")
    streams = accuracy_over_time(frame([result_of("bn", name, 1.0, 1.0, 1.0, batches=(1.0, 2.0)) for name in names]))
    assert [str(stream.scenario) for stream in one_of_each_kind(streams)] == [names[0], names[2], names[1]]


def test_lines_far_below_are_noted_and_names_do_not_overlap() -> None:
    values = {"source": 20.0, "bn": 60.0, "tent": 60.1, "shot": 60.2, "mita": 63.0}
    records = [result_of(label, "pure:fog", v, batches=(v, v + 0.5, v)) for label, v in values.items()]
    drawing = draw_over_time(accuracy_over_time(frame(records)))
    (axes,) = drawing.axes
    assert "far below: Source 20.2" in written(drawing)
    assert {line.get_label() for line in axes.lines} == {"BN", "TENT", "SHOT", "MITA"}
    assert axes.get_ylim()[0] > 59
    drawing.draw_without_rendering()
    names = [text for text in axes.texts if text.get_text() in ("BN", "TENT", "SHOT", "MITA")]
    boxes = [Text.get_window_extent(name) for name in names]  # without the lines that lead to them
    assert len(boxes) == 4
    assert not any(a.overlaps(b) for index, a in enumerate(boxes) for b in boxes[:index])
    assert far_below({"source": (20.0, 22.0), "bn": (60.0, 61.0), "tent": (61.0, 66.0)}) == ("source",)
    assert far_below({"source": (58.0, 57.0), "bn": (60.0, 61.0), "tent": (61.0, 66.0)}) == ()
    assert far_below({"source": (20.0,), "bn": (60.0,)}) == ()  # one line would remain
    assert spread_out([5.0, 5.0, 9.0], 2.0, (0.0, 10.0)) == (4.0, 6.0, 9.0)
    assert spread_out([1.0, 1.0, 1.0], 2.0, (0.0, 10.0)) == (0.0, 2.0, 4.0)
    assert spread_out([9.0, 9.0, 9.0], 2.0, (0.0, 10.0)) == (6.0, 8.0, 10.0)
    assert spread_out([1.0, 5.0], 2.0, (0.0, 10.0)) == (1.0, 5.0)


def test_the_heat_map_is_in_the_order_of_the_benchmark() -> None:
    records = [
        result_of("tent", f"pure:{s}", v) for s, v in (("snow", 60.0), ("gaussian_noise", 50.0), ("fog#3", 70.0))
    ]
    records += [result_of("No adaptation", f"pure:{s}", 40.0, method="source") for s in ("snow", "gaussian_noise")]
    heat_map = corruption_map(frame(records))
    assert list(heat_map.styles) == ["No adaptation", "tent"]
    assert heat_map.shifts == ("gaussian_noise", "snow", "fog 3")
    assert heat_map.accuracies == {"No adaptation": (40.0, 40.0, None), "tent": (50.0, 60.0, 70.0)}
    assert heat_map.gains == {"No adaptation": (0.0, 0.0, None), "tent": (10.0, 20.0, None)}
    assert (heat_map.mean("tent"), heat_map.mean("No adaptation")) == (60.0, None)
    assert {"50.0", "60.0", "70.0", "gaussian noise", "mean", "-"} <= written(draw_corruption_map(heat_map))


def test_clean_images_do_not_count_in_the_mean() -> None:
    records = [result_of("bn", f"pure:{shift}", value) for shift, value in (("fog", 60.0), ("clean", 90.0))]
    assert corruption_map(frame(records)).mean("bn") == 60


def test_the_ticks_of_batches_are_integers() -> None:
    results = frame([result_of("bn", "pure:fog", 60.0, batches=(60.0, 70.0, 65.0))])
    drawing = draw_over_time(accuracy_over_time(results))
    assert all(float(tick).is_integer() for tick in drawing.axes[0].get_xticks())


def test_accuracy_and_cost_are_over_common_streams() -> None:
    records = [
        result_of("source", "pure:fog", 50.0, seconds_per_batch=0.1),
        result_of("bn", "pure:fog", 60.0, seconds_per_batch=0.2),
        result_of("bn", "pure:snow", 0.0, seconds_per_batch=0.2),
        result_of("tent", "pure:fog", 59.0, seconds_per_batch=0.4, gflops=0.0),
        result_of("mita", "pure:fog", 66.0, seconds_per_batch=2.0),
    ]
    timed = accuracy_and_cost(frame(records))
    assert [(p.label, p.cost, p.accuracy) for p in timed.points] == [
        ("source", 0.1, 50.0),
        ("bn", 0.2, 60.0),
        ("tent", 0.4, 59.0),
        ("mita", 2.0, 66.0),
    ]
    assert timed.front == ("source", "bn", "mita")
    counted = accuracy_and_cost(frame(records), metric="gflops")
    assert {(p.label, p.cost) for p in counted.points} == {("mita", 2.0), ("bn", 2.0), ("source", 2.0)}
    assert counted.front == ("mita",)
    drawn = draw_accuracy_and_cost(timed)
    assert {"Source", "BN", "TENT", "MITA", "seconds per batch"} <= written(drawn)
    boxes = [text.get_window_extent() for text in drawn.axes[0].texts]
    assert not any(a.overlaps(b) for index, a in enumerate(boxes) for b in boxes[:index])


def test_bars_have_the_colours_of_their_methods() -> None:
    bars = scenario_bars(frame([result_of("mita", "pure:fog", 75.5), result_of("source", "pure:fog", 60.0)]))
    assert list(bars.styles) == ["source", "mita"]
    assert means(bars.table.rows) == {"source": [60.0], "mita": [75.5]}
    patches = draw_bars(bars).axes[0].patches
    assert [to_hex(patch.get_facecolor()) for patch in patches] == ["#6e6e6e", "#d55e00"]


def test_bars_are_means_with_as_many_digits_as_they_need() -> None:
    records = [result_of("bn", "pure:fog", 62.0), result_of("bn", "pure:fog", 63.0, seed=1)]
    records += [result_of("tent", "pure:fog", 70.0, seed=seed) for seed in (0, 1)]
    bars = scenario_bars(frame(records))
    assert means(bars.table.rows) == {"bn": [62.5], "tent": [70.0]}
    assert [value.spread for _, (value,) in bars.table.rows if value] == [pytest.approx(0.5**0.5), 0.0]
    drawing = draw_bars(bars)
    assert {"62", "70"} <= written(drawing)
    assert drawing.axes[0].get_ylim()[1] < 80
    near = frame([result_of("bn", "pure:fog", 62.1), result_of("tent", "pure:fog", 62.4)])
    assert {"62.1", "62.4"} <= written(draw_bars(scenario_bars(near)))


def test_hostile_labels_are_plain_text(tmp_path: Path) -> None:
    results = frame([result_of(HOSTILE, "pure:fog", 75.5), result_of("source", "pure:fog", 60.0)])
    for name, drawing in draw_figures(results):
        assert all(path.stat().st_size for path in save(drawing, tmp_path / name))
    assert HOSTILE in written(draw_bars(scenario_bars(results)))


@pytest.mark.filterwarnings("ignore:Glyph")
def test_control_characters_leave_an_svg_readable(tmp_path: Path) -> None:
    results = frame([result_of("a\x1bb\x00", "pure:fog", 75.5), result_of("source", "pure:fog", 60.0)])
    drawn = save(draw_bars(scenario_bars(results)), tmp_path / "bars")[0]
    assert ElementTree.parse(drawn).getroot().tag.endswith("svg")


def test_the_same_figure_gives_the_same_bytes(tmp_path: Path) -> None:
    results = frame([result_of("mita", "pure:fog", 75.5), result_of("source", "pure:fog", 60.0)])
    for folder in ("first", "second"):
        save(draw_bars(scenario_bars(results)), tmp_path / folder / "bars")
    for suffix in (".svg", ".pdf", ".png"):
        first, second = ((tmp_path / folder / f"bars{suffix}").read_bytes() for folder in ("first", "second"))
        assert first == second


def test_drawing_does_not_change_the_settings_of_matplotlib() -> None:
    import matplotlib

    before = matplotlib.rcParams["font.size"]
    assert styled(lambda: matplotlib.rcParams["font.size"])() == 8
    assert matplotlib.rcParams["font.size"] == before
