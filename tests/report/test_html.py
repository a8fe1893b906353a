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

from midway.bench import Comparison, Record, Result
from midway.report import read_run, summary, to_html, write_report
from midway.report.html import find_winner, render, verdict, winners_by_scenario
from midway.report.html.accuracy import UNEQUAL, accuracy_tables
from midway.report.html.gallery import LARGEST, pictures_of
from midway.report.html.problems import environments, warnings_of
from midway.report.html.tables import cost_rows
from midway.report.stored_run import StoredRun, stored_run
from midway.report.tables import Cell, Column, Table
from midway.significance import compare_paired

Made = Callable[..., Result]
Line = Callable[..., Record]
PAIR = "outlier:glass_blur/fog@0.005"
HOSTILE = """</script><script>alert(1)</script><img src=x onerror='alert(2)'>"><b>&amp;"""


def test_the_answer_comes_first_and_its_numbers_are_those_of_the_store(comparison: Comparison) -> None:
    winner = find_winner(comparison.results)
    assert winner is not None
    assert winner.lead is not None
    ours = [r.accuracy for r in comparison.results if r.label == "mita"]
    theirs = [r.accuracy for r in comparison.results if r.label == "source"]
    assert (winner.best.label, winner.places) == ("mita", 9)
    assert winner.best.accuracy == pytest.approx(sum(ours) / 9)
    assert winner.lead.difference == pytest.approx((sum(ours) - sum(theirs)) / 9)
    page = Page(render(comparison))
    words = page.words()
    assert words.index("MITA has the highest mean accuracy") < words.index("Best by scenario") < words.index("Accuracy")
    lead = (sum(ours) - sum(theirs)) / 9
    assert f"{sum(ours) / 9:.2f} % over 9 streams and seeds, {lead:.2f} points above Source, the next best" in words
    assert f"Significant? {verdict(winner.lead).word}" in words
    assert "0.5 s a batch 5 times Source" in words
    assert "midway run x.toml --out 'runs/x y'" in page.words("code")


def test_the_best_of_each_scenario(comparison: Comparison) -> None:
    found = {
        winner.scope: (winner.best.label, winner.best.accuracy) for winner in winners_by_scenario(comparison.results)
    }
    assert found == {
        "pure": ("mita", pytest.approx((76.5 + 73.0) / 2)),
        "outlier: all images": ("mita", pytest.approx(69.875)),
        "outlier: the outliers": ("source", 50.0),
        "outlier: the rest": ("mita", 70.0),
    }


def test_every_number_of_the_store_is_in_the_tables(comparison: Comparison) -> None:
    page = Page(render(comparison))
    shown = {round(float(cell["data-value"] or "nan"), 9) for cell in page.all("td") if "data-value" in cell}
    for label in ("source", "mita"):
        for stream in ("pure:fog", "pure:snow", PAIR):
            runs = [r for r in comparison.results if (r.label, r.stream) == (label, stream)]
            assert round(sum(r.accuracy for r in runs) / 3, 9) in shown
            for group in runs[0].by_group:
                assert round(sum(r.by_group[group] for r in runs) / 3, 9) in shown
    assert "±1.00" in page.words()  # of 60, 61, 62


def test_the_charts_have_the_numbers_of_the_store(comparison: Comparison) -> None:
    (section,) = Page(render(comparison)).data()
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


def test_nothing_is_fetched_and_only_our_script_may_run(comparison: Comparison) -> None:
    text = render(comparison)
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


def test_hostile_strings_are_only_text(made: Made, record: Line, tmp_path: Path) -> None:
    results = (
        made(
            HOSTILE, "pure:fog", 70.0, method=HOSTILE, hyperparameters={HOSTILE: HOSTILE}, batch_accuracies=(1.0, 2.0)
        ),
        made("source", HOSTILE, 60.0, diagnostics={"skipped_steps": 2}),
        made("source", "pure:fog", 60.0, batch_accuracies=(1.0, 2.0)),
    )
    hostile = Comparison(HOSTILE, HOSTILE, {HOSTILE: HOSTILE}, results, {HOSTILE: HOSTILE})
    failed = (record(None, label=HOSTILE, error=HOSTILE),)
    run = StoredRun(HOSTILE, tmp_path, (hostile,), failed)
    for text in (render(run), render(run, against=replace(run, name=f"{HOSTILE} again"))):
        page = Page(text)
        assert [s.get("type") for s in page.all("script")] == ["application/json", None]
        assert [image["src"] for image in page.all("img") if "src" in image] == []
        assert not any("onerror" in attributes for _, attributes in page.elements)
        assert HOSTILE in page.words("h1")
        assert any(chip.get("data-method") == HOSTILE for chip in page.all("button"))
        assert page.data()[0]["methods"][-1]["label"] == HOSTILE


def test_headings_regions_and_controls_have_names(comparison: Comparison) -> None:
    page = Page(render(comparison))
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


@pytest.mark.parametrize(
    ("ours", "theirs", "word"),
    [
        ([71.0], [70.0], "cannot be told"),
        ([71.0, 72.0, 73.5], [70.0, 71.1, 72.4], "by the t-test alone"),
        ([71.0, 70.0, 73.5], [70.0, 71.1, 72.4], "no"),
        ([70.0] * 3, [70.0] * 3, "no"),
        ([float(n) + 1 + n / 10 for n in range(8)], [float(n) for n in range(8)], "yes"),
        ([1.0, -1.0, 2.0, -2.0, 3.0, -3.0], [0.0] * 6, "no"),
        ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 40.0], [0.0] * 7, "the tests disagree"),
    ],
)
def test_verdicts(ours: list[float], theirs: list[float], word: str) -> None:
    assert verdict(compare_paired(ours, theirs)).word == word


def test_a_tie_is_no_lead(made: Made) -> None:
    page = Page(render(Comparison("Tie", "", {}, (made("bn", "pure:fog", 70.0), made("tent", "pure:fog", 70.0)))))
    assert "70.00 % over one stream, level with TENT, the next best." in page.words()


def test_failures_gaps_and_troubles_are_told(made: Made, record: Line) -> None:
    records = [record(made("source", "pure:fog", 60.0)), record(made("source", "pure:snow", 60.0))]
    records += [record(made("tent", "pure:fog", 61.0, diagnostics={"skipped_steps": 2}))]
    records += [record(None, stream="pure:snow", error="RuntimeError: no memory")]
    records[0] = replace(records[0], environment={"torch": "2.6.0", "cpu": "a processor"})
    run = stored_run("x", records)
    words = Page(render(run)).words()
    assert "1 of the cells failed; the same command tries them again." in words
    assert "tent on pure:snow, seed 0: RuntimeError: no memory" in words
    assert "Traceback: RuntimeError: no memory" in words
    assert "Not finished: 1 of 4 combinations of method, stream and seed have no result (tent)." in words
    assert "tent: 2 steps were skipped because they were not finite." in words
    assert environments(run.records) == ["Results were measured with different torch: 2.13.0, 2.6.0."]
    only_failed = Page(render(stored_run("x", records[3:])))
    assert "There are no results yet." in only_failed.words()
    assert "no memory" in only_failed.words()


def test_few_images_are_told(made: Made) -> None:
    few = replace(made("bn", PAIR, 50.0, 70.0, 69.9), images_by_group={"glass_blur": 50, "fog": 9950})
    assert warnings_of(Comparison("x", "", {}, (few,))) == [
        "One seed: differences between methods include the luck of that seed.",
        "Some numbers are over few images: the fewest are 50, where one image is 2.0 points.",
    ]


def test_settings_of_one_label_are_told_apart(made: Made) -> None:
    twice = tuple(made("tent", "pure:fog", 60.0 + lr, hyperparameters={"lr": lr}) for lr in (1.0, 2.0))
    page = Page(render(Comparison("x", "", {}, twice)))
    assert {row["data-method"] for row in page.all("tr") if "data-method" in row} == {"tent (lr=1.0)", "tent (lr=2.0)"}
    assert "lr=2.0" in page.words("b")  # not the default


def test_means_are_over_the_seeds_that_all_have(made: Made) -> None:
    shifts = {"fog": 60.0, "snow": 50.0, "frost": 40.0}
    results = [
        made(label, f"pure:{shift}", value + 10 * seed + bonus, seed=seed, batch_accuracies=(value, value))
        for label, bonus in (("source", 0.0), ("mita", 5.0))
        for shift, value in shifts.items()
        for seed in range(3)
        if label == "source" or seed == 0 or (seed, shift) == (1, "fog")  # mita is not finished
    ]
    (table,) = accuracy_tables(results)
    rows = {label: [None if cell is None else cell.value for cell in cells] for label, cells in table.rows}
    assert rows["source"][:4] == [65.0, 50.0, 40.0, 50.0]  # fog, snow, frost; their mean over the one whole seed
    assert rows["mita"][:4] == [70.0, 55.0, 45.0, 55.0]
    assert table.notes[1:] == ("mean ± standard deviation over 1 or 2 seeds", UNEQUAL)
    page = Page(render(Comparison("x", "", {}, tuple(results))))
    assert f"{UNEQUAL[0].upper()}{UNEQUAL[1:]}." in page.words()
    dots = page.data()[0]["charts"][0]["views"][0]["rows"]
    assert [row["values"] for row in dots] == [
        {"source": 65.0, "mita": 70.0},
        {"source": 50.0, "mita": 55.0},
        {"source": 40.0, "mita": 45.0},
    ]
    (whole,) = accuracy_tables([result for result in results if result.label == "source"])
    assert UNEQUAL not in whole.notes


@pytest.mark.parametrize(
    ("stream", "accuracies", "caption", "heads"),
    [
        ("pure:fog", (70.0,), "Pure", ["method", "fog"]),
        (PAIR, (1.0, 2.0, 2.0), "Outlier: 0.5% glass blur in fog", ["method", "glass blur", "fog", "all"]),
    ],
)
def test_a_single_stream_is_named_once(
    made: Made, stream: str, accuracies: tuple[float, ...], caption: str, heads: list[str]
) -> None:
    (table,) = accuracy_tables([made("bn", stream, *accuracies)])
    page = Page(to_html(table))
    assert (page.words("caption"), page.text["span"]) == (caption, heads)
    assert len(page.all("tr")) == 2


def test_a_stream_of_one_column_is_named_once_among_others() -> None:
    columns = (Column("pure:fog#3", "fog", None), Column(PAIR, "fog", None), Column(PAIR, "all", None))
    page = Page(to_html(Table("x", columns, (("bn", (Cell(1.0), Cell(2.0), Cell(3.0))),))))
    assert page.words("thead") == "pure outlier: 0.5% glass blur in fog method fog, severity 3 fog all"
    own = Page(to_html(Table("x", (Column("Tuesday", "fog", None), *columns[1:]), (("bn", (None,) * 3),))))
    assert own.words("thead") == "Tuesday outlier: 0.5% glass blur in fog method fog fog all"


def test_wide_tables_are_cut_for_print(made: Made) -> None:
    streams = [f"mixture:fog/snow@0.{n}" for n in range(1, 8)]
    text = render(Comparison("x", "", {}, tuple(made("bn", stream, 1.0, 2.0, 1.5) for stream in streams)))
    assert [name for name in re.findall("<caption>(.*?)</caption>", text) if "part" in name] == [
        "Mixture, part 1 of 2",
        "Mixture, part 2 of 2",
    ]


def test_a_table_marks_and_shades() -> None:
    columns = (Column("pure:fog", "fog", 200), Column("pure:all", "mCE", None))
    rows = (
        ("source", (Cell(60.0), Cell(100.0))),
        ("tent", (Cell(70.0, best=True, spread=0.5), Cell(80.0, best=True))),
        ("bn", (Cell(55.0, below_source=True), None)),
    )
    page = Page(to_html(Table("Fog", columns, rows, ("a note",))))
    cells = page.all("td")
    assert [cell.get("style") for cell in cells if cell.get("data-column") == "0"] == [
        None,
        "--gain:100%",
        "--loss:50%",
    ]
    assert [cell.get("class") for cell in cells if cell.get("data-column") == "0"] == [None, "best", "below"]
    assert [cell.get("style") for cell in cells if cell.get("data-column") == "1"] == [None, "--gain:100%", None]
    assert "A note." in page.words("ul")
    assert "200 images a column." in page.words("ul")
    assert "±0.50" in page.words("small")


def test_cost_rows(made: Made) -> None:
    results = [made("source", "pure:fog", 60.0, seconds_per_batch=0.25), made("mita", "pure:fog", 60.0, cost={})]
    source, mita = (row.values for row in cost_rows(results))
    assert source["GFLOPs an image"] == 2.0
    assert (mita["times Source"], mita["GFLOPs an image"]) == (2.0, None)


def test_pictures_go_into_the_page(comparison: Comparison, tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    Image.new("RGB", (6, 4), "red").save(tmp_path / "figures" / "moves.png")
    (tmp_path / "figures" / "samples.png").write_bytes(b"0" * (LARGEST + 1))
    shown, left_out = pictures_of(StoredRun("x", tmp_path, (comparison,)))
    assert [(picture.name, picture.width, picture.height) for picture in shown] == [("moves", 6, 4)]
    assert left_out == ["The picture samples.png is larger than 3 MB and was left out."]
    page = Page(render(StoredRun("x", tmp_path, (comparison,))))
    source = next(image["src"] for image in page.all("img") if "src" in image)
    assert source is not None
    content = base64.b64decode(source.removeprefix("data:image/png;base64,"))
    assert content == (tmp_path / "figures" / "moves.png").read_bytes()
    assert "samples.png is larger" in page.words()


def test_every_comparison_has_its_picture(record: Line, made: Made, tmp_path: Path) -> None:
    lines = [record(made("tent", "pure:fog", 60.0)), record(made("tent", "pure:fog", 61.0))]
    lines[1] = replace(lines[1], cell=replace(lines[1].cell, data="cifar100"))
    (tmp_path / "results.jsonl").write_bytes(b"".join(line.to_line() for line in lines))
    (tmp_path / "figures").mkdir()
    for name in ("motivation_1", "motivation_2", "motivation_3", "moves"):  # the third is of an earlier time
        Image.new("RGB", (6, 4), "red").save(tmp_path / "figures" / f"{name}.png")
    for run in (read_run(tmp_path), stored_run("a part", lines[1:], folder=tmp_path)):
        shown, _ = pictures_of(run)
        assert [picture.name for picture in shown] == ["motivation_1", "motivation_2", "moves"]
        assert [picture.caption.partition(",")[0] for picture in shown[:2]] == [
            "wrn16_2.cifar10 on cifar10",
            "wrn16_2.cifar10 on cifar100",
        ]


def test_every_command_is_shown_the_newest_last(record: Line, made: Made) -> None:
    lines = [
        replace(
            record(made("tent", "pure:fog", 60.0, seed=number)),
            command=f"midway run {'again' if number in (0, 9) else number}",
            finished=f"2024-01-01T00:00:0{number}",
        )
        for number in range(10)
    ]
    run = stored_run("x", lines[::-1])
    assert run.commands == (*(f"midway run {number}" for number in range(1, 9)), "midway run again")
    page = Page(render(run))
    assert page.text["code"] == list(run.commands[-6:])
    assert "several commands, the newest last; 3 earlier ones are left out here, the store has them." in page.words()
    resumed = stored_run("x", lines[:1], command="midway run plan.toml")
    assert resumed.commands == ("midway run again", "midway run plan.toml")
    assert "several commands" not in Page(render(stored_run("x", lines[:1]))).words()


def test_not_a_number_does_not_break_the_page(made: Made) -> None:
    nan = float("nan")
    page = Page(
        render(Comparison("x", "", {}, (made("bn", PAIR, nan, 80.0, 80.0), made("tent", PAIR, nan, 81.0, 81.0))))
    )
    assert page.data()[0]["charts"][0]["views"][0]["rows"][0]["values"] == {"bn": 80.0, "tent": 81.0}


def test_runs_are_read_from_folders(comparison: Comparison, record: Line, made: Made, tmp_path: Path) -> None:
    comparison.save(tmp_path / "demo" / "results.json")
    assert read_run(tmp_path / "demo").comparisons == (comparison,)
    lines = [record(made("tent", "pure:fog", value)) for value in (60.0, 61.0)]  # the same cell, run again
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "results.jsonl").write_bytes(b"".join(line.to_line() for line in lines))
    for path in (tmp_path / "run", tmp_path / "run" / "results.jsonl"):
        run = read_run(path)
        assert (run.name, [r.accuracy for r in run.comparisons[0].results]) == ("run", [61.0])
        assert len(run.records) == 1
    with pytest.raises(
        FileNotFoundError, match=r"holds no results: there is no results\.jsonl, results\.json or study\.json"
    ):
        read_run(tmp_path)


def test_writing_leaves_the_page_alone(comparison: Comparison, tmp_path: Path) -> None:
    path = write_report(comparison, tmp_path / "new" / "report.html")
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]
    assert path.read_text().startswith("<!doctype html>")
    assert path.read_text() == render(comparison)


def test_summary_names_the_winners(comparison: Comparison) -> None:
    assert "pure: fog: MITA 77.5 % (+17.5 over Source)" in summary(comparison)
