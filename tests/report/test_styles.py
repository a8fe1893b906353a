"""Colours, markers and patterns of methods."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.markers import MarkerStyle
from toy_runs import result_of

import midway
from midway.methods import METHODS
from midway.report import frame
from midway.report.figures.bars import draw_bars, scenario_bars
from midway.report.figures.drawing import legend_columns
from midway.report.tidy import plot_styles


def test_a_legend_of_long_names_fits_its_figure() -> None:
    names = [f"mita(lr=0.001, langevin_steps={steps})" for steps in range(12)]
    drawing = draw_bars(scenario_bars(frame([result_of(name, "pure:fog", 60.0, method="mita") for name in names])))
    drawing.draw_without_rendering()
    box = drawing.legends[0].get_window_extent()
    assert 0 <= box.x0 < box.x1 <= drawing.bbox.x1
    assert [legend_columns(entries) for entries in (3, 7, 8, 16)] == [3, 7, 4, 6]


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
