from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.markers import MarkerStyle
from matplotlib.text import Text

import midway
from midway.bench import Cell, Record, Result
from midway.bench.entries import Entry
from midway.cli.figures import cell_of, entry_of
from midway.data import ImageSet
from midway.methods import METHODS
from midway.report import Frame, frame
from midway.report.figures import (
    FIGURES,
    SOURCES,
    NetworkAndImages,
    Predictions,
    all_figures,
    draw_figures,
    figure,
    save,
)
from midway.report.figures.bars import draw_bars, scenario_bars
from midway.report.figures.corrections import compare_predictions, corrections_of, draw_corrections
from midway.report.figures.drawing import legend_columns, new_figure, styled, to_picture
from midway.report.figures.heat_map import corruption_map, draw_corruption_map
from midway.report.figures.image_changes import difference, draw_image_changes, draw_severities, image_changes
from midway.report.figures.langevin import KINDS, draw_energies, draw_samples, image_energies, langevin_samples
from midway.report.figures.motivation import Gain, draw_gains, gains_over_source
from midway.report.figures.over_time import (
    draw_over_time,
    far_below,
    one_of_each_kind,
    spread_out,
)
from midway.report.figures.pareto import draw_accuracy_and_cost
from midway.report.figures.sweep import draw_sweeps
from midway.report.series import accuracy_and_cost, accuracy_over_time, ratio_sweeps, running_mean
from midway.report.tidy import plot_styles
from midway.streams import Scenario, Stream
from midway.testing import tiny_network

PAIR = "glass_blur/fog"
HOSTILE = r"$\frac{<script>$"


def result_of(
    label: str,
    scenario: str,
    *accuracies: float,
    method: str = "",
    seed: int = 0,
    settings: dict[str, Any] | None = None,
    batches: Sequence[float] = (),
    **metrics: float,
) -> Record:
    """Return a record: one accuracy for a pure stream; those of A, of B and of all images for a pair."""
    parsed = Scenario.parse(scenario)
    metrics = {"seconds_per_batch": 0.5, "gflops": 2.0} | metrics
    groups = {
        shift: {"images": 500.0, "accuracy": value} for shift, value in zip(parsed.shifts, accuracies, strict=False)
    }
    cell = Cell(
        method or label, label, settings or {}, "wrn16_2.cifar10", "0", "cifar10", None, None, None, parsed, seed, 200,
        "float32", "cpu", 1, "midway.methods",
    )  # fmt: skip
    result = Result({"accuracy": accuracies[-1]} | metrics, groups, tuple(batches))
    return Record(cell, result, None, 1.0, {})


def written(figure: Figure) -> set[str]:
    """Return all texts of a figure."""
    return {text.get_text() for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text()}


def toy_data(count: int = 12, side: int = 16) -> ImageSet:
    rng = np.random.default_rng(0)
    return ImageSet(rng.integers(0, 256, (count, side, side, 3), np.uint8), np.arange(count) % 4, tuple("abcd"), "toy")


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


def test_a_legend_of_long_names_fits_its_figure() -> None:
    names = [f"mita(lr=0.001, langevin_steps={steps})" for steps in range(12)]
    drawing = draw_bars(scenario_bars(frame([result_of(name, "pure:fog", 60.0, method="mita") for name in names])))
    drawing.draw_without_rendering()
    box = drawing.legends[0].get_window_extent()
    assert 0 <= box.x0 < box.x1 <= drawing.bbox.x1
    assert [legend_columns(entries) for entries in (3, 7, 8, 16)] == [3, 7, 4, 6]


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


def test_pictures_and_differences() -> None:
    image = torch.tensor([[[0.0, 2.0]], [[0.5, -1.0]], [[1.0, 0.25]]])
    assert to_picture(image).tolist() == [[[0.0, 0.5, 1.0], [1.0, 0.0, 0.25]]]
    assert to_picture(torch.full((1, 1, 1), 0.5)).tolist() == [[[0.5, 0.5, 0.5]]]
    before, after = np.full((1, 1, 3), 0.5, np.float32), np.array([[[0.5, 0.75, 0.0]]], np.float32)
    assert difference(before, after, factor=1).tolist() == [[[0.5, 0.75, 0.0]]]
    assert difference(before, after, factor=4).tolist() == [[[0.5, 1.0, 0.0]]]


def test_image_changes_are_those_of_mita_at_that_image() -> None:
    data, network = toy_data(), tiny_network()
    given = NetworkAndImages(network, data, image=9, batch_size=4, mita={"data_step_size": 0.5})
    (change,) = image_changes(given, shifts=["fog"])
    method = midway.MITA(network, data_step_size=0.5)
    for batch in list(midway.streams.pure(data, "fog", batch_size=4))[:3]:
        method(batch.images)
    assert method.adapted_images is not None
    assert np.array_equal(change.adapted, to_picture(method.adapted_images[1]))
    assert np.array_equal(change.original, to_picture(batch.images[1]))
    assert change.distance == pytest.approx((method.adapted_images[1] - batch.images[1]).norm().item())
    assert change.distance > 0
    with pytest.raises(ValueError, match="there is no image 12 in toy: it has 0 to 11"):
        image_changes(replace(given, image=12))
    several = image_changes(replace(given, image=0), shifts=["fog", "snow"], severities=(1, 5))
    assert [(c.shift, c.severity) for c in several] == [("fog", 1), ("fog", 5), ("snow", 1), ("snow", 5)]
    assert {"fog", "snow", "severity 1", "severity 5"} <= written(draw_severities(several))
    assert len(draw_image_changes(several).axes) == 12


def test_corrections_are_outliers_that_only_the_second_method_classifies_correctly() -> None:
    images = np.arange(6, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    labels = np.array([0, 1, 0, 1, 0, 1])
    stream = Stream({"a": images, "b": images}, labels, order=[5, 4, 3, 2, 1, 0], group=[0, 0, 0, 0, 1, 1], name="s")
    # labels in the order of the stream: 1 0 1 0 | 1 0
    right = torch.tensor([[0.0, 2.0], [5.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    wrong = torch.tensor([[1.0, 0.0], [0.0, 3.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    corrections = compare_predictions(stream, (wrong, right), ["cat", "dog"])
    assert (corrections.corrected, corrections.spoiled, corrections.images, corrections.group) == (2, 1, 4, "a")
    assert [(c.label, c.wrong) for c in corrections.shown] == [("cat", "dog"), ("dog", "cat")]  # most confident first
    assert corrections.shown[0].right_confidence == pytest.approx(1 / (1 + np.exp(-5)))
    assert corrections.shown[0].wrong_confidence == pytest.approx(1 / (1 + np.exp(-3)))
    assert corrections.shown[0].picture[0, 0, 0] == pytest.approx(4 / 255)
    shown = written(draw_corrections(corrections))
    assert {"dog 95%", "cat 99%"} <= shown
    heading = "TENT (grey) and MITA (in colour)\nMITA corrects 2 of 4, and spoils 1"
    assert any(heading in text for text in shown)
    assert len(compare_predictions(stream, (wrong, right), ["cat", "dog"], at_most=1).shown) == 1
    assert len(draw_corrections(corrections).axes) == 2
    assert compare_predictions(stream, (right, right), ["cat", "dog"]).shown == ()


def test_energies_before_and_after() -> None:
    given = NetworkAndImages(tiny_network(), toy_data(8), batch_size=4, langevin_steps=1, mita={"lr": 0.1})
    before, after = image_energies(given)
    method = midway.MITA(given.model, lr=0.1)
    stream = list(midway.streams.pure(given.data, "gaussian_noise", batch_size=4))
    for batch in (*stream, stream[0]):
        method(batch.images)
    assert method.adapted_images is not None
    adapted = (-method.data_model(method.adapted_images).logsumexp(dim=1)).tolist()
    assert after.values["adapted"] == pytest.approx(adapted)
    clean = next(iter(midway.streams.pure(given.data, "clean", batch_size=4))).images
    assert before.values["clean"] == pytest.approx((-given.model(clean).logsumexp(dim=1)).tolist())
    assert {"clean", "corrupted", "sampled", "adapted", "before: source"} <= written(draw_energies((before, after)))
    colours = {style.colour for style in plot_styles({name: name for name in midway.methods.names()}).values()}
    assert not colours & {colour for colour, _ in KINDS.values()}
    assert len({line for _, line in KINDS.values()}) == len(KINDS)


def test_samples_come_from_three_networks() -> None:
    given = NetworkAndImages(tiny_network(), toy_data(8), batch_size=4, langevin_steps=50, mita={"lr": 0.1})
    rows = langevin_samples(given, count=2)
    assert [row.title for row in rows] == ["source", "predictor", "data model"]
    assert rows[0].pictures[0].shape == (16, 16, 3)
    assert not np.array_equal(rows[0].pictures[0], rows[2].pictures[0])
    assert {f"source\nE = {rows[0].energy:.1f}"} <= written(draw_samples(rows))


def test_figures_are_computed_from_a_network_and_images() -> None:
    given = NetworkAndImages(tiny_network(), toy_data(8), batch_size=4, image=5, langevin_steps=1)
    assert {spec.name for spec in FIGURES.values() if spec.source is NetworkAndImages} == {
        "samples", "image_changes", "severities", "energies",
    }  # fmt: skip
    assert [name for name, _ in draw_figures(given, only=["samples", "energies", "scenarios"])] == [
        "samples",
        "energies",
    ]
    nothing = Predictions((), compute=lambda: replace(given, method=given.baseline))
    assert list(draw_figures(nothing)) == []  # both methods predict the same
    computed = corrections_of(nothing)
    assert computed is not None
    assert (computed.corrected, computed.spoiled, computed.images) == (0, 0, 2)
    assert corrections_of(Predictions(())) is None


def test_figures_show_the_method_with_its_settings_in_the_run() -> None:
    def of(label: str, network: str, **settings: float) -> Record:
        record = result_of(label, "pure:fog", 60.0, method="mita", settings=settings)
        return replace(record, cell=replace(record.cell, network=network))

    records = [result_of("tent", "pure:fog", 60.0), of("slow", "a", lr=1e-5, seed=3), of("mita", "b", lr=0.1)]
    assert entry_of(records, "mita").settings == {"lr": 0.1}
    assert entry_of(records[:2], "mita") == Entry("mita", {"lr": 1e-5}, "slow")
    assert entry_of(records[:1], "mita") == Entry("mita", {}, "mita")
    cell = cell_of(records, "mita")
    assert cell is not None
    assert cell.network == "b"
    with pytest.raises(ValueError, match="unknown method 'mtia': did you mean 'mita'"):
        entry_of(records, "mtia")


def test_a_method_has_its_style_whatever_else_is_compared() -> None:
    names = midway.methods.names()
    alone = plot_styles({"mita": "mita"})["mita"]
    everything = plot_styles({name: name for name in names})
    assert everything["mita"] == alone
    assert list(everything) == names
    assert len({style.colour for style in everything.values()}) == len(names)
    assert len({style.colour_on_dark for style in everything.values()}) == len(names)
    assert len({style.marker for style in everything.values()}) >= 13  # there are fewer markers than methods
    same = plot_styles({"mita": "mita", "mita_same": "mita"})["mita_same"]
    assert same == plot_styles({"mita_same": "mita"})["mita_same"]
    assert same.marker == alone.marker
    assert same.dash
    assert same.hatch
    assert same.colour != alone.colour


def contrast(colour: str, background: str) -> float:
    """Return the contrast of two colours as WCAG defines it."""
    light = []
    for each in (colour, background):
        rgb = [int(each[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in rgb]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(light) + 0.05) / (min(light) + 0.05)


def test_colours_stand_out_on_white_and_on_dark_pages() -> None:
    for style in plot_styles({name: name for name in (*midway.methods.names(), "mine", "yours")}).values():
        assert contrast(style.colour, "#ffffff") > 2.5
        assert contrast(style.colour_on_dark, "#15171b") > 4.5


def test_a_new_method_changes_no_other_style() -> None:
    class Alpha(midway.methods.Tent):
        about = replace(midway.methods.Tent.about, name="alpha", title="Alpha", colour="", marker="")

    names = midway.methods.names()
    before = plot_styles({name: name for name in names})
    METHODS.add("alpha", Alpha)
    after = plot_styles({name: name for name in ("alpha", *names)})
    METHODS.remove("alpha")
    assert {name: after[name] for name in before} == before
    assert after["alpha"].title == "Alpha"
    assert MarkerStyle(after["alpha"].marker).is_filled()


def test_a_colour_is_that_of_the_label_and_similar_colours_differ_in_pattern() -> None:
    labels = {"mita": "mita", **{f"mita_{letter}": "mita" for letter in "abcdefg"}}
    labels |= {f"method {number}": f"method {number}" for number in range(7)}
    together = plot_styles(labels)
    for label, name in labels.items():
        alone = plot_styles({label: name})[label]
        assert (together[label].colour, together[label].marker) == (alone.colour, alone.marker)
    shown = [(style.colour, style.dash, style.hatch) for style in together.values()]
    assert len(set(shown)) == len(shown)
    assert len({style.colour for style in together.values()}) < len(shown)


def test_methods_of_other_packages_have_colours_too() -> None:
    styles = plot_styles({"mine": "mine", "yours": "yours", "source": "source"})
    assert list(styles) == ["source", "mine", "yours"]
    assert len({style.colour for style in styles.values()}) == 3
    assert all(MarkerStyle(style.marker).is_filled() for style in styles.values())
