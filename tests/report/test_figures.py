from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.markers import MarkerStyle
from matplotlib.text import Text

import midway
from midway.bench import Comparison, Record, Result
from midway.bench.entries import Entry
from midway.data import ImageSet, corruption_names
from midway.report.common_seeds import common_seeds
from midway.report.figures import (
    accuracy_and_cost,
    accuracy_over_time,
    corruption_map,
    draw_accuracy_and_cost,
    draw_bars,
    draw_corruption_map,
    draw_gains,
    draw_over_time,
    draw_sweeps,
    gains_over_source,
    looks,
    ratio_sweeps,
    save,
    scenario_bars,
    stored_figures,
)
from midway.report.figures.corrections import draw_corrections, find_corrections
from midway.report.figures.energies import KINDS, draw_energies, image_energies
from midway.report.figures.moves import draw_moves, draw_severities, moved_images
from midway.report.figures.over_time import far_below, spread_out
from midway.report.figures.pictures import PICTURES, Setting, cell_of, entry_of, picture_figures
from midway.report.figures.samples import draw_samples, langevin_samples
from midway.report.figures.stored import one_of_each_kind
from midway.report.figures.style import styled, title
from midway.report.figures.tiles import difference, to_picture
from midway.report.labels import stream_title, words
from midway.streams import Stream
from midway.testing import tiny_network

Made = Callable[..., Result]
PAIR = "glass_blur/fog"
HOSTILE = r"$\frac{<script>$"


def written(figure: Figure) -> set[str]:
    """Return all words of a figure."""
    return {text.get_text() for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text()}


def toy_data(count: int = 12, side: int = 16) -> ImageSet:
    rng = np.random.default_rng(0)
    return ImageSet(rng.integers(0, 256, (count, side, side, 3), np.uint8), np.arange(count) % 4, tuple("abcd"), "toy")


def test_a_method_keeps_its_look_whoever_else_is_there() -> None:
    alone = looks({"mita": "mita"})["mita"]
    everybody = looks({name: name for name in midway.methods.names()})
    assert everybody["mita"] == alone
    assert list(everybody) == midway.methods.names()
    assert len({look.colour for look in everybody.values()}) == len(everybody)
    assert len({look.marker for look in everybody.values()}) == len(everybody)
    same = looks({"mita": "mita", "mita_same": "mita"})["mita_same"]
    assert same == looks({"mita_same": "mita"})["mita_same"]
    assert same.marker == alone.marker
    assert same.dash
    assert same.hatch
    assert same.colour != alone.colour


def test_a_colour_is_that_of_the_label_and_likeness_is_mended_by_patterns() -> None:
    labels = {"mita": "mita", **{f"mita_{letter}": "mita" for letter in "abcdefg"}}
    labels |= {f"method {number}": f"method {number}" for number in range(7)}
    together = looks(labels)
    for label, name in labels.items():
        alone = looks({label: name})[label]
        assert (together[label].colour, together[label].marker) == (alone.colour, alone.marker)
    shown = [(look.colour, look.dash, look.hatch) for look in together.values()]
    assert len(set(shown)) == len(shown)
    assert len({look.colour for look in together.values()}) < len(shown)


def test_methods_of_others_get_colours_too() -> None:
    found = looks({"mine": "mine", "yours": "yours", "source": "source"})
    assert list(found) == ["source", "mine", "yours"]
    assert len({look.colour for look in found.values()}) == 3
    assert all(MarkerStyle(look.marker).is_filled() for look in found.values())
    assert title("mine", "mine") == "mine"
    assert title("tent_slow", "tent") == "TENT slow"
    assert words("jpeg_compression") == "JPEG compression"
    assert stream_title("continual:" + "+".join(corruption_names("benchmark"))) == "continual: 15 shifts"
    assert stream_title("dirichlet:fog@0.1") == "dirichlet: fog (0.1)"


def test_gains_are_against_source_on_the_same_stream_and_seed(made: Made) -> None:
    results = [
        made("source", "pure:fog", 60.0),
        made("source", "pure:fog", 50.0, seed=1),
        made("source", "pure:snow", 40.0),
        made("bn", "pure:fog", 70.0),
        made("bn", "pure:fog", 64.0, seed=1),
        made("bn", "pure:snow", 39.0),
        made("source", f"mixture:{PAIR}@0.5", 40.0, 20.0, 30.0),
        made("bn", f"mixture:{PAIR}@0.5", 40.0, 30.0, 35.0),
        made("bn", f"mixture:{PAIR}@0.1", 0.0, 0.0, 0.0),
        made("source", f"mixture:{PAIR}@0.1", 90.0, 90.0, 90.0),
        made("source", f"outlier:{PAIR}@0.005", 50.0, 20.0, 20.15),
        made("bn", f"outlier:{PAIR}@0.005", 30.0, 60.0, 59.85),
        made("tent", "pure:frost", 50.0),
    ]
    found = gains_over_source(results)
    assert found.methods == ("bn", "tent")
    assert found.scenarios == ("pure", "mixture", "outlier streams: the rest", "outlier streams: the outliers")
    assert found.gains == (((-1.0, 12.0), (5.0,), (40.0,), (-20.0,)), ((), (), (), ()))
    assert found.spreads == ((None,) * 4,) * 2
    shown = written(draw_gains(found))
    assert {"pure\n2 streams", "mixture\n1 stream", "Source", "BN"} <= shown
    assert "TENT" not in shown


def test_gains_over_several_pairs_and_seeds(made: Made) -> None:
    results = []
    for label, gain in (("source", 0.0), ("bn", 10.0), ("mita", 20.0)):
        for pair, start in ((PAIR, 30.0), ("fog/snow", 40.0)):
            for seed in range(3 if label == "bn" else 2):
                reached = start + gain * (1 + seed)
                results.append(made(label, f"mixture:{pair}@0.5", 0.0, 0.0, reached, seed=seed))
                results.append(made(label, f"outlier:{pair}@0.005", start - gain, 50.0, 50.0, seed=seed))
    found = gains_over_source(results)
    assert found.methods == ("bn", "mita")
    assert [row[0] for row in found.gains] == [(15.0, 15.0), (30.0, 30.0)]  # of two seeds, not three
    assert [row[2] for row in found.gains] == [(-10.0, -10.0), (-20.0, -20.0)]
    assert found.spreads == (
        (pytest.approx(10 / 2**0.5), 0.0, 0.0),
        (pytest.approx(20 / 2**0.5), 0.0, 0.0),
    )
    assert {"mixture\n2 streams", "outlier streams: the outliers\n2 streams"} <= written(draw_gains(found))


def test_every_figure_is_over_the_seeds_that_all_methods_share(made: Made) -> None:
    ratios = [f"mixture:{PAIR}@{ratio}" for ratio in (0.005, 0.1, 0.5)]
    results = []
    for stream in ("pure:fog", *ratios):
        batches = {"batch_accuracies": (60.0, 60.0)}
        results += [made("bn", stream, 60.0, 60.0, 60.0, **batches), made("mita", stream, 50.0, 50.0, 50.0, **batches)]
        results += [made("bn", stream, 0.0, 0.0, 0.0, seed=1, batch_accuracies=(0.0, 0.0))]
    assert [(r.label, r.seed) for r in common_seeds(results[:3])] == [("bn", 0), ("mita", 0)]
    assert [r.label for r in common_seeds([*results[1:3], made("bn", "pure:fog", 1.0, seed=2)])] == ["bn", "bn"]
    assert scenario_bars(Comparison("x", "", {}, tuple(results))).heights == ((60.0,) * 4, (50.0,) * 4)
    assert corruption_map(results).accuracies == ((60.0,), (50.0,))
    assert accuracy_over_time(results)[0].lines == {"bn": (60.0, 60.0), "mita": (60.0, 60.0)}
    assert {point.accuracy for point in ratio_sweeps(results).sweeps[0].lines["bn"]} == {60.0}


def test_a_sweep_has_means_over_seeds_and_takes_the_mixture(made: Made) -> None:
    results = [made("bn", f"mixture:{PAIR}@{r}", a, 80.0, 70.0) for r, a in ((0.5, 50.0), (0.1, 40.0), (0.005, 30.0))]
    results += [made("bn", f"mixture:{PAIR}@0.5", 54.0, 80.0, 70.0, seed=1, seconds_per_batch=1.3)]
    results += [made("bn", f"outlier:{PAIR}@0.005", 1.0, 80.0, 70.0), made("bn", "mixture:fog/snow@0.5", 1.0, 1.0, 1.0)]
    found = ratio_sweeps(results)
    assert [(s.shift_a, s.shift_b, s.severity) for s in found.sweeps] == [("glass_blur", "fog", 5)]
    points = found.sweeps[0].lines["bn"]
    assert [(p.ratio, p.accuracy) for p in points] == [(0.005, 30.0), (0.1, 40.0), (0.5, 52.0)]
    assert points[2].spread == pytest.approx(8**0.5)
    assert points[0].spread is None
    assert found.seconds == {"bn": pytest.approx((3 * 0.5 + 1.3) / 4)}
    figure = draw_sweeps(found)
    assert {"glass blur\namong fog", "BN", "0.7 s", "0.5", "10", "50"} <= written(figure)
    times = draw_sweeps(replace(found, seconds={"bn": 0.9, "mita": 20.0}, looks=looks({"bn": "bn", "mita": "mita"})))
    assert {1.0, 10.0} <= set(times.axes[-1].get_xticks())
    assert ratio_sweeps(results[:2]).sweeps == ()


def test_accuracy_over_time_is_a_running_mean_of_the_mean_over_seeds(made: Made) -> None:
    results = [
        made("bn", "pure:fog", 50.0, batch_accuracies=(40.0, 60.0, 80.0, 20.0)),
        made("bn", "pure:fog", 50.0, batch_accuracies=(60.0, 60.0, 60.0, 60.0), seed=1),
    ]
    (found,) = accuracy_over_time(results, window=2)
    assert found.lines == {"bn": (55.0, 65.0, 55.0)}
    (plain,) = accuracy_over_time(results)
    assert plain.window == 1
    assert plain.lines == {"bn": (50.0, 60.0, 70.0, 40.0)}
    figure = draw_over_time([found], looks({"bn": "bn"}))
    line = figure.axes[0].lines[0]
    assert list(line.get_xdata()) == [2, 3, 4]
    assert list(line.get_ydata()) == [55.0, 65.0, 55.0]


def test_lines_far_below_are_noted_and_names_keep_clear_of_each_other(made: Made) -> None:
    values = {"source": 20.0, "bn": 60.0, "tent": 60.1, "shot": 60.2, "mita": 63.0}
    results = [made(label, "pure:fog", v, batch_accuracies=(v, v + 0.5, v)) for label, v in values.items()]
    figure = draw_over_time(accuracy_over_time(results), looks({label: label for label in values}))
    (axes,) = figure.axes
    assert "far below: Source 20.2" in written(figure)
    assert [line.get_label() for line in axes.lines] == ["BN", "SHOT", "TENT", "MITA"]
    assert axes.get_ylim()[0] > 59
    figure.draw_without_rendering()
    names = [note for note in axes.texts if note.get_text() in ("BN", "TENT", "SHOT", "MITA")]
    boxes = [Text.get_window_extent(name) for name in names]  # without the lines that lead to them
    assert len(boxes) == 4
    assert not any(a.overlaps(b) for place, a in enumerate(boxes) for b in boxes[:place])
    assert far_below({"source": (20.0,), "bn": (60.0,)}) == ()  # one line is no company
    assert spread_out([9.0, 9.0, 9.0], 2.0, (0.0, 10.0)) == (6.0, 8.0, 10.0)
    assert spread_out([1.0, 5.0], 2.0, (0.0, 10.0)) == (1.0, 5.0)


def test_the_heat_map_is_in_the_benchmarks_order(made: Made) -> None:
    results = [made("tent", f"pure:{s}", v) for s, v in (("snow", 60.0), ("gaussian_noise", 50.0), ("fog#3", 70.0))]
    results += [made("No adaptation", f"pure:{s}", 40.0, method="source") for s in ("snow", "gaussian_noise")]
    found = corruption_map(results)
    assert found.methods == ("No adaptation", "tent")
    assert found.shifts == ("gaussian_noise", "snow", "fog 3")
    assert found.accuracies == ((40.0, 40.0, None), (50.0, 60.0, 70.0))
    assert found.gains == ((0.0, 0.0, None), (10.0, 20.0, None))
    assert (found.mean("tent"), found.mean("No adaptation")) == (60.0, None)
    assert {"50.0", "60.0", "70.0", "gaussian noise", "mean", "-"} <= written(draw_corruption_map(found))


def test_a_legend_of_long_names_fits_its_figure(made: Made) -> None:
    names = [f"mita(lr=0.001, langevin_steps={steps})" for steps in range(12)]
    results = [made(name, "pure:fog", 60.0, method="mita") for name in names]
    figure = draw_bars(scenario_bars(Comparison("", "", {}, tuple(results))))
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.x1


def test_batches_are_counted_in_whole_numbers(made: Made) -> None:
    results = [made("bn", "pure:fog", 60.0, batch_accuracies=(60.0, 70.0, 65.0))]
    figure = draw_over_time(accuracy_over_time(results), looks({"bn": "bn"}))
    assert all(float(tick).is_integer() for tick in figure.axes[0].get_xticks())


def test_clean_images_do_not_count_in_the_mean(made: Made) -> None:
    found = corruption_map([made("bn", f"pure:{shift}", value) for shift, value in (("fog", 60.0), ("clean", 90.0))])
    assert found.mean("bn") == 60


def test_accuracy_and_cost_are_over_common_streams(made: Made) -> None:
    results = [
        made("source", "pure:fog", 50.0, seconds_per_batch=0.1),
        made("bn", "pure:fog", 60.0, seconds_per_batch=0.2),
        made("bn", "pure:snow", 0.0, seconds_per_batch=0.2),
        made("tent", "pure:fog", 59.0, seconds_per_batch=0.4, cost={}),
        made("mita", "pure:fog", 66.0, seconds_per_batch=2.0),
    ]
    found = accuracy_and_cost(results)
    assert [(p.label, p.cost, p.accuracy) for p in found.points] == [
        ("source", 0.1, 50.0),
        ("bn", 0.2, 60.0),
        ("tent", 0.4, 59.0),
        ("mita", 2.0, 66.0),
    ]
    assert found.front == ("source", "bn", "mita")
    counted = accuracy_and_cost(results, kind="gflops")
    assert [(p.label, p.cost) for p in counted.points] == [("mita", 2.0), ("bn", 2.0), ("source", 2.0)]
    assert counted.front == ("mita",)
    drawn = draw_accuracy_and_cost(found)
    assert {"Source", "BN", "TENT", "MITA", "seconds a batch"} <= written(drawn)
    boxes = [note.get_window_extent() for note in drawn.axes[0].texts]
    assert not any(a.overlaps(b) for place, a in enumerate(boxes) for b in boxes[:place])


def test_bars_have_the_colours_of_their_methods(made: Made) -> None:
    comparison = Comparison("x", "", {}, (made("mita", "pure:fog", 75.5), made("source", "pure:fog", 60.0)))
    bars = scenario_bars(comparison)
    assert (bars.methods, bars.heights) == (("source", "mita"), ((60.0,), (75.5,)))
    patches = draw_bars(bars).axes[0].patches
    assert [to_hex(patch.get_facecolor()) for patch in patches] == ["#6e6e6e", "#d55e00"]


def test_bars_are_means_with_as_many_digits_as_it_takes(made: Made) -> None:
    results = [made("bn", "pure:fog", 62.0), made("bn", "pure:fog", 63.0, seed=1)]
    results += [made("tent", "pure:fog", 70.0, seed=seed) for seed in (0, 1)]
    bars = scenario_bars(Comparison("x", "", {}, tuple(results)))
    assert bars.heights == ((62.5,), (70.0,))
    assert bars.spreads == ((pytest.approx(0.5**0.5),), (0.0,))
    figure = draw_bars(bars)
    assert {"62", "70"} <= written(figure)
    assert figure.axes[0].get_ylim()[1] < 80
    near = (made("bn", "pure:fog", 62.1), made("tent", "pure:fog", 62.4))
    assert {"62.1", "62.4"} <= written(draw_bars(scenario_bars(Comparison("x", "", {}, near))))


def test_a_run_gets_the_figures_it_is_enough_for(made: Made) -> None:
    one = Comparison("x", "", {}, (made("source", "pure:fog", 60.0, batch_accuracies=(1.0, 2.0)),))
    assert list(stored_figures(one)) == ["scenarios", "over_time"]
    two = Comparison("x", "", {}, (*one.results, made("bn", "pure:fog", 70.0), made("bn", "pure:snow", 70.0)))
    assert list(stored_figures(two)) == [
        "scenarios", "motivation", "over_time", "corruptions", "cost_seconds", "cost_gflops",
    ]  # fmt: skip
    assert list(stored_figures(two, only=["corruptions", "outlier_ratio"])) == ["corruptions"]
    assert stored_figures(Comparison("x", "", {}, ())) == {}
    streams = [made("bn", name, 1.0, 1.0, 1.0) for name in ("pure:fog", "pure:snow", "mixture:fog/snow@0.5")]
    assert [r.stream for r in one_of_each_kind(streams)] == ["pure:fog", "mixture:fog/snow@0.5", "pure:snow"]


def test_hostile_labels_are_only_words(made: Made, tmp_path: Path) -> None:
    comparison = Comparison("x", "", {}, (made(HOSTILE, "pure:fog", 75.5), made("source", HOSTILE, 60.0)))
    for name, figure in stored_figures(comparison).items():
        assert all(path.stat().st_size for path in save(figure, tmp_path / name))
    assert HOSTILE in written(draw_bars(scenario_bars(comparison)))


def test_the_same_figure_gives_the_same_bytes(made: Made, tmp_path: Path) -> None:
    comparison = Comparison("x", "", {}, (made("mita", "pure:fog", 75.5), made("source", "pure:fog", 60.0)))
    for place in ("first", "second"):
        save(draw_bars(scenario_bars(comparison)), tmp_path / place / "bars")
    for ending in (".svg", ".pdf", ".png"):
        first, second = ((tmp_path / place / f"bars{ending}").read_bytes() for place in ("first", "second"))
        assert first == second


def test_the_look_of_the_house_stays_in_the_house() -> None:
    import matplotlib

    before = matplotlib.rcParams["font.size"]
    assert styled(lambda: matplotlib.rcParams["font.size"])() == 8
    assert matplotlib.rcParams["font.size"] == before


def test_pictures_and_differences() -> None:
    image = torch.tensor([[[0.0, 2.0]], [[0.5, -1.0]], [[1.0, 0.25]]])
    assert to_picture(image).tolist() == [[[0.0, 0.5, 1.0], [1.0, 0.0, 0.25]]]
    assert to_picture(torch.full((1, 1, 1), 0.5)).tolist() == [[[0.5, 0.5, 0.5]]]
    before, after = np.full((1, 1, 3), 0.5, np.float32), np.array([[[0.5, 0.75, 0.0]]], np.float32)
    assert difference(before, after, times=1).tolist() == [[[0.5, 0.75, 0.0]]]
    assert difference(before, after, times=4).tolist() == [[[0.5, 1.0, 0.0]]]


def test_moves_are_those_of_mita_at_that_image() -> None:
    data, network = toy_data(), tiny_network()
    (move,) = moved_images(network, data, image=9, shifts=["fog"], batch_size=4, data_step_size=0.5)
    method = midway.MITA(network, data_step_size=0.5)
    for batch in list(midway.streams.pure(data, "fog", batch_size=4))[:3]:
        method(batch.images)
    assert method.adapted_images is not None
    assert np.array_equal(move.adapted, to_picture(method.adapted_images[1]))
    assert np.array_equal(move.original, to_picture(batch.images[1]))
    assert move.distance == pytest.approx((method.adapted_images[1] - batch.images[1]).norm().item())
    assert move.distance > 0
    with pytest.raises(ValueError, match="there is no image 12 in toy: it has 0 to 11"):
        moved_images(network, data, image=12)
    several = moved_images(network, data.first(4), shifts=["fog", "snow"], severities=(1, 5), batch_size=4)
    assert [(m.shift, m.severity) for m in several] == [("fog", 1), ("fog", 5), ("snow", 1), ("snow", 5)]
    assert {"fog", "snow", "severity 1", "severity 5"} <= written(draw_severities(several))
    assert len(draw_moves(several).axes) == 12


def test_corrections_are_outliers_that_only_the_second_method_knows() -> None:
    images = np.arange(6, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    labels = np.array([0, 1, 0, 1, 0, 1])
    stream = Stream({"a": images, "b": images}, labels, order=[5, 4, 3, 2, 1, 0], group=[0, 0, 0, 0, 1, 1], name="s")
    # truth in the order of the stream: 1 0 1 0 | 1 0
    right = torch.tensor([[0.0, 2.0], [5.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    wrong = torch.tensor([[1.0, 0.0], [0.0, 3.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = find_corrections(stream, wrong, right, ["cat", "dog"])
    assert (found.corrected, found.spoiled, found.images, found.group) == (2, 1, 4, "a")
    assert [(c.truth, c.wrong) for c in found.cases] == [("cat", "dog"), ("dog", "cat")]  # the surest first
    assert found.cases[0].right_confidence == pytest.approx(1 / (1 + np.exp(-5)))
    assert found.cases[0].wrong_confidence == pytest.approx(1 / (1 + np.exp(-3)))
    assert found.cases[0].picture[0, 0, 0] == pytest.approx(4 / 255)
    shown = written(draw_corrections(found))
    assert {"dog 95%", "cat 99%"} <= shown
    assert any("TENT says (grey), MITA says (in colour)\nMITA corrects 2 of 4, and spoils 1" in text for text in shown)
    assert len(find_corrections(stream, wrong, right, ["cat", "dog"], at_most=1).cases) == 1
    assert len(draw_corrections(found).axes) == 2
    assert find_corrections(stream, right, right, ["cat", "dog"]).cases == ()


def test_energies_before_and_after() -> None:
    network = tiny_network()
    method = midway.MITA(network)
    clean, corrupted = torch.rand(2, 6, 3, 16, 16).unbind()
    before, after = image_energies(network, method, clean, corrupted, steps=1)
    assert before.values["clean"] == pytest.approx((-network(clean).logsumexp(dim=1)).tolist())
    assert method.adapted_images is not None
    moved = (-method.data_model(method.adapted_images).logsumexp(dim=1)).tolist()
    assert after.values["adapted"] == pytest.approx(moved)
    assert {"clean", "corrupted", "sampled", "adapted", "before: source"} <= written(draw_energies([before, after]))
    colours = {look.colour for look in looks({name: name for name in midway.methods.names()}).values()}
    assert not colours & {colour for colour, _ in KINDS.values()}
    assert len({line for _, line in KINDS.values()}) == len(KINDS)


def test_samples_come_from_three_networks() -> None:
    network = tiny_network()
    method = midway.MITA(network, lr=0.1)
    method(torch.rand(4, 3, 16, 16))
    rows = langevin_samples(network, method, count=2, shape=(3, 16, 16), steps=2, step_size=20.0)
    assert [row.title for row in rows] == ["source", "predictor", "data model"]
    assert rows[0].pictures[0].shape == (16, 16, 3)
    assert not np.array_equal(rows[0].pictures[0], rows[2].pictures[0])
    assert {f"source\nE = {rows[0].energy:.1f}"} <= written(draw_samples(rows))


def test_every_picture_figure_is_drawn_by_name() -> None:
    setting = Setting(tiny_network(), toy_data(8), batch_size=4, image=5, langevin_steps=1)
    assert list(dict(picture_figures(setting, only=["samples", "energies"]))) == ["samples", "energies"]
    alike = replace(setting, method=setting.baseline)
    assert list(picture_figures(alike, only=["corrections"])) == []  # nothing to correct
    assert set(PICTURES) == {"samples", "moves", "severities", "corrections", "energies"}
    with pytest.raises(ValueError, match="unknown picture figure 'move': did you mean 'moves'"):
        next(picture_figures(setting, only=["move"]))


def test_pictures_show_the_method_as_the_run_has_it(made: Made, record: Callable[..., Record]) -> None:
    def line(label: str, network: str, **settings: float) -> Record:
        known = record(made(label, "pure:fog", 60.0, method="mita"))
        return replace(known, cell=replace(known.cell, settings=settings, network=network))

    records = [record(made("tent", "pure:fog", 60.0)), line("slow", "a", lr=1e-5, seed=3), line("mita", "b", lr=0.1)]
    assert entry_of(records, "mita").settings == {"lr": 0.1}
    assert entry_of(records[:2], "mita") == Entry("mita", {"lr": 1e-5}, "slow")
    assert entry_of(records[:1], "mita") == Entry("mita", {}, "mita")
    found = cell_of(records, "mita")
    assert found is not None
    assert found.network == "b"
    with pytest.raises(ValueError, match="unknown method 'mtia': did you mean 'mita'"):
        entry_of(records, "mtia")
