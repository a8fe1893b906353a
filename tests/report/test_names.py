"""Names of labels, shifts, scenarios and columns, colours, and what labels have in common."""

from __future__ import annotations

from midway.data.corruptions.registry import shift_title
from midway.report import Column
from midway.report.paper import published_in
from midway.report.ranking import independent_pairs
from midway.report.render import headings, markdown_table, show_number
from midway.report.tidy import find_common, method_title, plot_styles, scenario_title
from midway.streams import Scenario

FOG, SNOW, FEW = map(Scenario.parse, ("pure:fog", "pure:snow", "outlier:frost/fog@0.005"))


def test_titles_are_plain_words() -> None:
    assert (shift_title("jpeg_compression"), shift_title("glass_blur")) == ("JPEG compression", "glass blur")
    assert scenario_title(Scenario.parse("outlier:glass_blur/fog@0.005")) == "outlier: 0.5% glass blur in fog"
    assert scenario_title(Scenario.parse("pure:fog#3")) == "pure: fog, severity 3"
    assert method_title("tea_equal_budget", "tea") == "TEA equal budget"
    assert method_title("tent (lr=0.1)", "tent") == "TENT (lr=0.1)"
    assert method_title("tea(steps=4)", "tea") == "TEA(steps=4)"
    assert method_title("my tent", "tent") == "my tent"


def test_variants_of_a_method_are_tints_after_it() -> None:
    styles = plot_styles({"tent_slow": "tent", "tent": "tent", "source": "source"})
    shown = [(style.title, style.colour) for style in styles.values()]
    assert shown == [("Source", "#6e6e6e"), ("TENT", "#0059a0"), ("TENT slow", "#699dc7")]


def test_numbers_have_a_reasonable_number_of_digits() -> None:
    shown = [show_number(value) for value in (0.0, 0.01234, 1.5, 23.456, 1824.0)]
    assert shown == ["0", "0.012", "1.5", "23.5", "1,824"]


def test_headings_are_short_and_differ() -> None:
    columns = [Column(FOG, "fog"), Column(FOG, "fog", "nll"), Column(None, "average", "mce")]
    assert headings(columns) == [("pure", "fog"), ("pure", "fog, NLL"), ("average", "mCE")]
    assert markdown_table(["", "tent"], [["fog", "70.5"]]) == "| | tent |\n| --- | ---: |\n| fog | 70.5 |\n"
    assert (
        markdown_table(["<script>x</script>"], [["a\nb|c"]])
        == "| &lt;script>x&lt;/script> |\n| --- |\n| a b&#124;c |\n"
    )


def test_what_all_labels_have_in_common() -> None:
    assert find_common({"bn": {0, 1}, "tent": {1, 2}, "mita": {7}}) == (["bn", "tent"], {1})
    assert find_common({}) == ([], set())


def test_streams_of_nearly_the_same_images_are_one_pair_and_seeds_count_within_one_stream() -> None:
    assert independent_pairs({(FOG, 0): 60.0, (FEW, 0): 62.0, (SNOW, 0): 70.0}) == [61.0, 70.0]
    assert independent_pairs({(FOG, 0): 60.0, (FOG, 1): 62.0}) == [60.0, 62.0]


def test_the_numbers_of_the_paper() -> None:
    mixture = Scenario.parse("mixture:pixelate/shot_noise@0.5")
    assert published_in("cifar10c")("mita", mixture, "all", "accuracy") == 75.56
    assert published_in("cifar100c")("tea", None, "average", "mce") == 56.07
    assert published_in(None)("mita", mixture, "all", "accuracy") is None
