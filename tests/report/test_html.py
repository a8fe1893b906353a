"""The HTML page of a run."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from html_page import Page
from PIL import Image

from midway.bench import Record
from midway.report import Column, Table, Value, frame, read_run, stored_run, write_report
from midway.report.html import render
from midway.report.html.views import LARGEST_PICTURE, accuracy_tables, metric_rows, pictures_of, table_view
from midway.report.ranking import find_winner, verdict
from midway.report.table import UNEQUAL
from midway.report.tidy import plot_styles
from midway.streams import Scenario

Made = Callable[..., Record]
PAIR = "outlier:glass_blur/fog@0.005"
HOSTILE = """</script><script>alert(1)</script><img src=x onerror='alert(2)'>"><b>&amp;"""


def page_of(*records: Record) -> Page:
    return Page(render(stored_run("x", records)))


def test_the_answer_comes_first_and_its_numbers_are_those_of_the_store(records: list[Record]) -> None:
    winner = find_winner(frame(records))
    assert winner is not None
    page = page_of(*records)
    text = page.words()
    assert text.index("MITA has the highest mean accuracy") < text.index("Best by scenario") < text.index("Accuracy")
    means = [sum(r.result.accuracy for r in records if r.result and r.cell.label == n) / 9 for n in ("mita", "source")]
    lead = means[0] - means[1]
    assert f"{means[0]:.2f} % over 9 streams and seeds, {lead:.2f} points above Source, the next best" in text
    assert f"Significant? {verdict(winner.lead).word}" in text
    assert "0.5 s per batch 5 times Source" in text
    assert "midway run x.toml --out 'runs/x y'" in page.words("code")


def test_every_number_of_the_store_is_in_the_tables(records: list[Record]) -> None:
    page = page_of(*records)
    shown = {round(float(cell["data-value"] or "nan"), 9) for cell in page.all("td") if "data-value" in cell}
    for label in ("source", "mita"):
        for text in ("pure:fog", "pure:snow", PAIR):
            cells = [r for r in records if (r.cell.label, str(r.cell.scenario)) == (label, text)]
            runs = [record.result for record in cells if record.result is not None]
            assert round(sum(run.accuracy for run in runs) / 3, 9) in shown
            for group in runs[0].by_group:
                assert round(sum(run.by_group[group] for run in runs) / 3, 9) in shown
    assert "±1.00" in page.words()  # of 60, 61, 62


def test_the_charts_have_the_numbers_of_the_store(records: list[Record]) -> None:
    (section,) = page_of(*records).data()
    assert [method["label"] for method in section["methods"]] == ["source", "mita"]
    charts = {chart["title"]: chart for chart in section["charts"]}
    pure = next(view for view in charts["Accuracy by stream"]["views"] if view["name"] == "pure")
    assert {row["title"]: row["values"] for row in pure["rows"]} == {
        "fog": {"source": 61.0, "mita": 76.5},
        "snow": {"source": 51.0, "mita": 73.0},
    }
    over_time = {view["name"]: view["lines"] for view in charts["Accuracy over time"]["views"]}
    assert over_time["pure: fog"]["mita"] == [[1, 70.0], [2, 81.0]]
    cost = charts["Accuracy against cost"]["views"][0]
    assert cost["front"] == ["source", "mita"]
    assert cost["points"]["mita"][0] == 0.5


def test_ratios_become_a_sweep_where_mixtures_count(made: Made) -> None:
    texts = ("outlier:fog/snow@0.1", "mixture:fog/snow@0.1", "mixture:fog/snow@0.2", "mixture:fog/snow@0.5")
    (section,) = page_of(*(made("bn", text, 60.0 + n, 80.0, 77.0) for n, text in enumerate(texts))).data()
    (sweep,) = [chart for chart in section["charts"] if chart["title"] == "Outliers by their share"]
    assert sweep["views"] == [{"name": "fog among snow", "lines": {"bn": [[10.0, 61.0], [20.0, 62.0], [50.0, 63.0]]}}]


def test_nothing_is_fetched_and_only_our_script_may_run(records: list[Record]) -> None:
    text = render(stored_run("x", records))
    page = Page(text)
    names = {tag for tag, _ in page.elements}
    assert not names & {"link", "iframe", "object", "embed", "base", "video", "audio"}
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")], tag
        for name in ("src", "href", "action", "srcset", "poster"):
            assert (attributes.get(name) or "#").startswith(("#", "data:")), (tag, attributes)
    assert re.findall(r"https?://[^\s\"']+", text) == ["http://www.w3.org/2000/svg"]  # a name, which nothing fetches
    assert "@import" not in text
    assert "url(" not in text
    assert "light-dark(" not in text  # browsers of 2023 do not know it
    policy = next(meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    script = text.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy is not None
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_hostile_strings_are_only_text(made: Made) -> None:
    settings = {HOSTILE: HOSTILE}
    records = [
        made(HOSTILE, "pure:fog", 70.0, method=HOSTILE, settings=settings, batch_accuracies=(1.0, 2.0)),
        made("source", "pure:fog", 60.0, batch_accuracies=(1.0, 2.0), diagnostics={"skipped_steps": 2}),
        made(HOSTILE, "pure:snow", error=HOSTILE),
    ]
    records = [replace(record, command=HOSTILE, environment={HOSTILE: HOSTILE}) for record in records]
    run = stored_run(HOSTILE, records, left_out={HOSTILE: HOSTILE})
    for text in (render(run), render(run, against=replace(run, name=f"{HOSTILE} again"))):
        page = Page(text)
        assert [s.get("type") for s in page.all("script")] == ["application/json", None]
        assert [image["src"] for image in page.all("img") if "src" in image] == []
        assert not any("onerror" in attributes for _, attributes in page.elements)
        assert HOSTILE in page.words("h1")
        assert any(chip.get("data-method") == HOSTILE for chip in page.all("button"))
        assert page.data()[0]["methods"][-1]["label"] == HOSTILE


def test_headings_regions_and_controls_have_names(records: list[Record]) -> None:
    page = page_of(*records)
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(region.get("aria-label") for region in page.all("div") if region.get("role") == "region")
    assert all(select.get("aria-label") for select in page.all("select"))
    assert all("scope" in head for head in page.all("th"))
    assert page.all("html")[0]["lang"] == "en"
    identifiers = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))


def test_a_tie_is_no_lead(made: Made) -> None:
    page = page_of(made("bn", "pure:fog", 70.0), made("tent", "pure:fog", 70.0))
    assert "70.00 % over one stream, level with TENT, the next best." in page.words()


def test_failures_gaps_and_unusual_diagnostics_are_shown(made: Made) -> None:
    records = [made("source", "pure:fog", 60.0), made("source", "pure:snow", 60.0)]
    records += [made("tent", "pure:fog", 61.0, diagnostics={"skipped_steps": 2})]
    records += [made("tent", "pure:snow", error="RuntimeError: no memory")]
    records[0] = replace(records[0], environment={"torch": "2.6.0", "cpu": "a processor"})
    run = stored_run("x", records)
    text = Page(render(run)).words()
    assert "1 of the cells failed; the same command tries them again." in text
    assert "tent on pure:snow, seed 0: RuntimeError: no memory" in text
    assert "Traceback: RuntimeError: no memory" in text
    assert "Not finished: 1 of 4 combinations of method, stream and seed have no result (tent)." in text
    assert "tent: 2 steps were skipped because they were not finite." in text
    assert run.remarks == ["Results were measured with different torch: 2.13.0, 2.6.0."]
    only_failed = page_of(*records[3:])
    assert "There are no results yet." in only_failed.words()
    assert "no memory" in only_failed.words()


def test_few_images_are_a_remark(made: Made) -> None:
    (comparison,) = stored_run("x", [made("bn", PAIR, 50.0, 70.0, 69.9, images=50)]).comparisons
    assert comparison.remarks() == [
        "One seed: differences between methods include the chance of that seed.",
        "Some numbers are over few images: the fewest are 50, where one image is 2.0 points.",
    ]


def test_settings_of_one_label_are_distinguished(made: Made) -> None:
    page = page_of(*(made("tent", "pure:fog", 60.0 + lr, settings={"lr": lr}) for lr in (1.0, 2.0)))
    assert {row["data-method"] for row in page.all("tr") if "data-method" in row} == {"tent (lr=1.0)", "tent (lr=2.0)"}
    assert "lr=2.0" in page.words("b")  # not the default


def test_means_are_over_the_seeds_that_all_have(made: Made) -> None:
    shifts = {"fog": 60.0, "snow": 50.0, "frost": 40.0}
    records = [
        made(label, f"pure:{shift}", value + 10 * seed + bonus, seed=seed, batch_accuracies=(value, value))
        for label, bonus in (("source", 0.0), ("mita", 5.0))
        for shift, value in shifts.items()
        for seed in range(3)
        if label == "source" or seed == 0 or (seed, shift) == (1, "fog")  # mita is not finished
    ]
    (table,) = accuracy_tables(frame(records))
    rows = {label: [None if value is None else value.mean for value in values] for label, values in table.rows}
    assert rows["source"][:4] == [65.0, 50.0, 40.0, 50.0]  # fog, snow, frost; their mean over the one complete seed
    assert rows["mita"][:4] == [70.0, 55.0, 45.0, 55.0]
    assert table.notes[1:] == ("mean ± standard deviation over 1 or 2 seeds", UNEQUAL)
    page = page_of(*records)
    assert f"{UNEQUAL[0].upper()}{UNEQUAL[1:]}." in page.words()
    dots = page.data()[0]["charts"][0]["views"][0]["rows"]
    assert [row["values"] for row in dots] == [
        {"source": 65.0, "mita": 70.0},
        {"source": 50.0, "mita": 55.0},
        {"source": 40.0, "mita": 45.0},
    ]
    (whole,) = accuracy_tables(frame(record for record in records if record.cell.label == "source"))
    assert UNEQUAL not in whole.notes


@pytest.mark.parametrize(
    ("text", "accuracies", "caption", "heads"),
    [
        ("pure:fog", (70.0,), "Pure", ["fog"]),
        (PAIR, (1.0, 2.0, 2.0), "Outlier: 0.5% glass blur in fog", ["glass blur", "fog", "all"]),
    ],
)
def test_a_single_stream_is_named_once(
    made: Made, text: str, accuracies: tuple[float, ...], caption: str, heads: list[str]
) -> None:
    (table,) = accuracy_tables(frame([made("bn", text, *accuracies)]))
    view = table_view(table, {})
    assert (view["title"], [head["name"] for head in view["heads"]], view["above"]) == (caption, heads, [])


def test_a_stream_of_one_column_is_named_once_among_others() -> None:
    pair = Scenario.parse(PAIR)
    columns = (Column(Scenario.parse("pure:fog#3"), "fog"), Column(pair, "fog"), Column(pair, "all"))
    view = table_view(Table("x", columns, (("bn", (Value(1.0), Value(2.0), Value(3.0))),)), {})
    assert [head["name"] for head in view["above"]] == ["pure", "outlier: 0.5% glass blur in fog"]
    assert [head["name"] for head in view["heads"]] == ["fog, severity 3", "fog", "all"]


def test_wide_tables_are_split_for_print(made: Made) -> None:
    records = [made("bn", f"mixture:fog/snow@0.{n}", 1.0, 2.0, 1.5) for n in range(1, 8)]
    text = render(stored_run("x", records))
    assert [name for name in re.findall("<caption>(.*?)</caption>", text) if "part" in name] == [
        "Mixture, part 1 of 2",
        "Mixture, part 2 of 2",
    ]


def test_a_table_marks_and_shades() -> None:
    columns = (Column(Scenario.parse("pure:fog"), "fog", images=200), Column(None, "average", "mce"))
    rows = (
        ("source", (Value(60.0), Value(100.0))),
        ("tent", (Value(70.0, best=True, spread=0.5), Value(80.0, best=True))),
        ("bn", (Value(55.0, below_source=True), None)),
    )
    view = table_view(Table("Fog", columns, rows, ("a note",), "source"), plot_styles({"tent": "tent"}))
    shades = [[shade for _, shade in row["cells"]] for row in view["rows"]]
    assert shades == [["", ""], ["--gain:100%", "--gain:100%"], ["--loss:50%", ""]]
    assert [row["title"] for row in view["rows"]] == ["source", "TENT", "bn"]
    assert view["notes"] == ["a note", "200 images per column"]


def test_marks_of_values_reach_the_page(made: Made) -> None:
    records = [
        made(label, "pure:fog", value + seed, seed=seed)
        for label, value in {"source": 60.0, "tent": 70.0, "bn": 55.0}.items()
        for seed in range(2)
    ]
    page = page_of(*records)
    cells = [cell for cell in page.all("td") if cell.get("data-column") == "0" and "data-value" in cell]
    marks = [(cell["data-value"], cell.get("class"), cell.get("style")) for cell in cells]
    assert marks == [
        ("60.5", None, None), ("55.5", "below", "--loss:50%"), ("70.5", "best", "--gain:100%"),
    ]  # fmt: skip
    assert "±0.71" in page.words("small")
    assert "500 images per column." in page.words("ul")


def test_every_other_metric_is_in_the_cost_table(made: Made) -> None:
    records = [
        made("source", "pure:fog", 60.0, seconds_per_batch=0.25, nll=1.5),
        made("mita", "pure:fog", 60.0, cost={}, my_metric=7.0),
    ]
    heads, rows = metric_rows(frame(records), plot_styles({"source": "source", "mita": "mita"}))
    source, mita = (dict(zip(heads, row[1:], strict=True)) for row in rows)
    assert source["GFLOPs per image"] == (2.0, "2")
    assert (source["NLL"], source["my_metric"]) == ((1.5, "1.5"), None)
    assert (mita["times Source"], mita["GFLOPs per image"], mita["my_metric"]) == ((2.0, "2"), None, (7.0, "7"))


def test_pictures_go_into_the_page(records: list[Record], tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    Image.new("RGB", (6, 4), "red").save(tmp_path / "figures" / "motivation.png")
    Image.new("RGB", (6, 4), "red").save(tmp_path / "figures" / "over_time.png")  # the page draws it
    (tmp_path / "figures" / "samples.png").write_bytes(b"0" * (LARGEST_PICTURE + 1))
    run = stored_run("x", records, folder=tmp_path)
    shown, left_out = pictures_of(run)
    assert [(picture["name"], picture["width"], picture["height"]) for picture in shown] == [("motivation", 6, 4)]
    assert left_out == ["The picture samples.png is larger than 3 MB and was left out."]
    page = Page(render(run))
    source = next(image["src"] for image in page.all("img") if "src" in image)
    assert source is not None
    content = base64.b64decode(source.removeprefix("data:image/png;base64,"))
    assert content == (tmp_path / "figures" / "motivation.png").read_bytes()
    assert "samples.png is larger" in page.words()


def test_every_comparison_has_its_picture(made: Made, tmp_path: Path) -> None:
    records = [made("tent", "pure:fog", 60.0), made("tent", "pure:fog", 61.0, data="cifar100")]
    (tmp_path / "results.jsonl").write_bytes(b"".join(record.to_line() for record in records))
    (tmp_path / "figures").mkdir()
    for name in ("motivation_1", "motivation_2", "motivation_3", "samples"):  # the third is of an earlier time
        Image.new("RGB", (6, 4), "red").save(tmp_path / "figures" / f"{name}.png")
    for run in (read_run(tmp_path), stored_run("a part", records[1:], folder=tmp_path)):
        shown, _ = pictures_of(run)
        captions = {picture["name"]: picture["caption"].partition(",")[0] for picture in shown}
        assert set(captions) == {"motivation_1", "motivation_2", "samples"}
        assert captions["motivation_1"] == "wrn16_2.cifar10 on cifar10"
        assert captions["motivation_2"] == "wrn16_2.cifar10 on cifar100"


def test_every_command_is_shown_the_newest_last(made: Made) -> None:
    records = [
        replace(
            made("tent", "pure:fog", 60.0, seed=number),
            command=f"midway run {'again' if number in (0, 9) else number}",
            finished=f"2024-01-01T00:00:0{number}",
        )
        for number in range(10)
    ]
    run = stored_run("x", records[::-1])
    assert run.commands == (*(f"midway run {number}" for number in range(1, 9)), "midway run again")
    page = Page(render(run))
    assert page.text["code"] == list(run.commands[-6:])
    assert "several commands, the newest last; 3 earlier ones are not shown, the store has them." in page.words()
    resumed = stored_run("x", records[:1], command="midway run plan.toml")
    assert resumed.commands == ("midway run again", "midway run plan.toml")
    assert "several commands" not in page_of(records[0]).words()


def test_not_a_number_does_not_break_the_page(made: Made) -> None:
    nan = float("nan")
    page = page_of(made("bn", PAIR, nan, 80.0, 80.0), made("tent", PAIR, nan, 81.0, 81.0))
    assert page.data()[0]["charts"][0]["views"][0]["rows"][0]["values"] == {"bn": 80.0, "tent": 81.0}


def test_runs_are_read_from_folders(made: Made, tmp_path: Path) -> None:
    records = [made("tent", "pure:fog", value) for value in (60.0, 61.0)]  # the same cell, run again
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "results.jsonl").write_bytes(b"".join(record.to_line() for record in records))
    for path in (tmp_path / "run", tmp_path / "run" / "results.jsonl"):
        run = read_run(path)
        accuracies = [row.value for row in run.comparisons[0].frame.where(metric="accuracy", group="all")]
        assert (run.name, accuracies) == ("run", [61.0])
        assert len(run.records) == 1
    with pytest.raises(FileNotFoundError, match=r"holds no results: there is no results\.jsonl or study\.json"):
        read_run(tmp_path)


def test_results_of_other_networks_data_or_precision_are_other_comparisons(made: Made) -> None:
    first = made("tent", "pure:fog", 60.0)
    coarse = replace(first, cell=replace(first.cell, precision="bf16"))
    moved = replace(first, cell=replace(first.cell, network="wrn16_2@/elsewhere/x.pt"))
    titles = [comparison.title for comparison in stored_run("x", [first, coarse, moved]).comparisons]
    usual = "wrn16_2.cifar10 on cifar10, all images, batches of 200"
    assert titles[:2] == [f"{usual}, precision float32", f"{usual}, precision bf16"]


def test_writing_leaves_the_page_alone(records: list[Record], tmp_path: Path) -> None:
    run = stored_run("x", records)
    path = write_report(run, tmp_path / "new" / "report.html")
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]
    assert path.read_text().startswith("<!doctype html>")
    assert path.read_text() == render(run)


def test_the_summary_names_the_winners(records: list[Record]) -> None:
    (comparison,) = stored_run("x", records).comparisons
    assert "pure: fog: MITA 77.5 % (+17.5 over Source)" in comparison.summary()
