"""The results page follows from its stored runs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from statistics import fmean

import pytest
import write_gallery
import write_readme
import write_results

from midway.bench import Grid, read_records
from midway.bench.plan import read_plan
from midway.bench.record import with_tuples
from midway.report import Column, Frame, Row, Table, Value, frame
from midway.streams import Scenario

FOLDER = Path(__file__).parents[1] / "docs" / "results"


def test_the_page_is_made_from_the_stored_runs(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "results")
    write_results.main(tmp_path / "results")
    assert (tmp_path / "results.md").read_text() == FOLDER.with_suffix(".md").read_text()


def test_stored_runs_are_of_the_images_that_are_said_and_did_not_fail() -> None:
    for section in write_results.SECTIONS:
        assert (FOLDER / f"{section.name}.toml").is_file()
        records = read_records(FOLDER / section.name) if (FOLDER / section.name).is_dir() else []
        if not records:
            continue
        plan = Grid.from_dict(read_plan(FOLDER / f"{section.name}.toml"))
        if plan.networks == ("wrn16_2.cifar10",):  # the others need files that are not here
            keys = {cell.key for cell in plan.cells()}
            assert {record.cell.key for record in records} <= keys, "the same command would run them again"
        for record in records:
            assert record.failure is None
            assert record.result is not None
            assert record.result.images == section.images
            assert not any(Path(text).is_absolute() for text in (record.cell.network, record.cell.root or "")), (
                "where things lay on the machine that ran it is nobody's business"
            )


def test_stored_runs_had_the_settings_of_their_plans() -> None:
    """A result has the hyper-parameters that the method had when it ran, which no plan can get wrong."""
    compared = 0
    for plan in sorted(FOLDER.glob("*.toml")):
        entries = {entry.label: entry for entry in Grid.from_dict(read_plan(plan)).methods}
        records = read_records(plan.with_suffix("")) if plan.with_suffix("").is_dir() else []
        for record in records:
            assert record.result is not None
            asked, had = (with_tuples(each) for each in (record.cell.settings, record.result.hyperparameters))
            written = entries[record.cell.label].settings
            assert {name: (asked | had)[name] for name in written} == written, record.cell
            compared += bool(had)
    assert compared > 100


def test_a_run_is_finished_when_every_method_has_every_stream(tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "memo", tmp_path / "memo")
    shutil.copy(FOLDER / "memo.toml", tmp_path)
    assert write_results.finished("memo", tmp_path)
    lines = (tmp_path / "memo" / "results.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "memo" / "results.jsonl").write_text("".join(lines[:-1]))
    assert not write_results.finished("memo", tmp_path)
    assert not write_results.finished("nothing", tmp_path)
    write_results.main(tmp_path)
    assert "## MEMO" not in tmp_path.with_suffix(".md").read_text()


def test_the_gallery_is_made_from_the_stored_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER.parents[1])
    assert write_gallery.page() == write_gallery.PAGE.read_text()


def test_means_are_over_the_seeds_that_all_have() -> None:
    fog = Scenario.parse("pure:fog")
    rows = (Row("a", fog, "fog", 0, "accuracy", 1.0), Row("a", fog, "fog", 1, "accuracy", 2.0))
    rows += (Row("b", fog, "fog", 1, "accuracy", 3.0),)
    assert [row.seed for row in write_results.complete_seeds(Frame(rows))] == [1, 1]


def test_shares_of_the_filters() -> None:
    records = [record for record in read_records(FOLDER / "pure") if record.result is not None]
    table = write_results.shares_table(records, [("eata", "selected"), ("nothing", "selected")]).splitlines()
    assert table[0] == "| | eata, selected | nothing, selected |"
    assert len(table) == 2 + len({record.cell.scenario for record in records})
    for record in records:
        assert record.result is not None
        if record.cell.label == "eata":
            share = 100 * record.result.diagnostics["selected"] / record.result.images
            heading = str(record.cell.scenario).replace(":", ": ").replace("_", " ")
            assert f"| {heading} | {share:.1f} | - |" in table
            assert 1 < share < 99, "a filter that passes nothing or everything is none"


def test_where_mita_is_best_by_hand() -> None:
    scenarios = (Scenario.parse("outlier:fog/snow@0.1"), Scenario.parse("mixture:fog/snow@0.5"), None)
    columns = [Column(scenario, "fog", origin=origin) for scenario in scenarios for origin in ("ours", "paper")]

    def values(*best: bool) -> tuple[Value, ...]:
        return tuple(Value(1.0, best=flag) for flag in best)

    rows = (("mita", values(False, True, True, True, True, True)), ("tent", values(True, *[False] * 5)))
    assert write_results.best_sentence(Table("", tuple(columns), rows)) == (
        "MITA is best, alone or tied, on 1 of 2 streams and groups (in the paper: 2); in the paper alone on: "
        "fog of the outlier fog / snow."
    )
    ours = tuple(column for column in columns if column.origin == "ours")
    alone = Table("", ours, (("mita", values(True, False, True)),))
    assert write_results.best_sentence(alone) == "MITA is best, alone or tied, on 1 of 2 streams and groups."
    many = [Scenario.parse(f"outlier:fog/snow@0.{digit}") for digit in range(1, 8)]
    streams = tuple(Column(scenario, "fog", origin=origin) for scenario in many for origin in ("ours", "paper"))
    never = (("mita", values(*[False, True] * 7)), ("tent", values(*[True, False] * 7)))
    assert write_results.best_sentence(Table("", streams, never)) == (
        "MITA is best, alone or tied, on 0 of 7 streams and groups (in the paper: 7); in the paper alone on 7 of them."
    )


def test_verdicts_leave_numbers_to_the_tables() -> None:
    for section in write_results.SECTIONS:
        assert not re.search(r"\d\.\d", section.verdict), "what is written by hand does not follow the runs"


def row(label: str, text: str, group: str, seed: int, value: float, metric: str = "accuracy") -> Row:
    return Row(label, Scenario.parse(text), group, seed, metric, value)


def test_means_over_streams_by_hand() -> None:
    first, second = "outlier:fog/snow@0.1", "outlier:frost/fog@0.1"
    rows = []
    for seed, shift in ((0, 0.0), (1, 2.0)):
        rows += [row("bn", first, "fog", seed, 10.0 + shift), row("bn", second, "frost", seed, 20.0 + shift)]
        rows += [row("bn", first, "all", seed, 50.0), row("bn", second, "all", seed, 60.0)]
        rows += [row("bn", first, "all", seed, 0.5, "nll"), row("bn", second, "all", seed, 0.7, "nll")]
        rows += [row("tent", text, group, seed, 40.0) for text, group in ((first, "fog"), (second, "frost"))]
        rows += [row("tent", text, "all", seed, 51.0) for text in (first, second)]
        rows += [row("tent", text, "all", seed, 0.9, "nll") for text in (first, second)]
    assert write_results.means_table(Frame(tuple(rows))).splitlines() == [
        "| | first shift | all images | NLL |",
        "| --- | ---: | ---: | ---: |",
        "| bn | 16.0 ± 1.4 | **55.0 ± 0.0** | **0.60 ± 0.00** |",
        "| tent | **40.0 ± 0.0** | 51.0 ± 0.0 | 0.90 ± 0.00 |",
    ]


def test_means_are_over_streams_that_all_have() -> None:
    first, second = "outlier:fog/snow@0.1", "outlier:frost/fog@0.1"
    rows = [row("bn", text, "all", 0, value) for text, value in ((first, 50.0), (second, 60.0))]
    rows += [row("tent", first, "all", 0, 51.0), row("tent", first, "all", 0, 0.9, "nll")]
    assert write_results.means_table(Frame(tuple(rows))).splitlines() == [
        "| | all images | NLL |",
        "| --- | ---: | ---: |",
        "| bn | 50.0 | - |",
        "| tent | **51.0** | **0.90** |",
    ]


def test_means_for_each_share_of_the_first_shift() -> None:
    rows = [row("bn", f"mixture:fog/snow@{share}", "fog", 0, 100 * share) for share in (0.2, 0.05)]
    rows += [row("bn", f"mixture:fog/snow@{share}", "all", 0, 60.0) for share in (0.2, 0.05)]
    assert write_results.means_table(Frame(tuple(rows))).splitlines() == [
        "| | first shift, 5 % | first shift, 20 % | all images, 5 % | all images, 20 % |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| bn | **5.0** | **20.0** | **60.0** | **60.0** |",
    ]


def test_costs_by_hand() -> None:
    records = [record for record in read_records(FOLDER / "pure") if str(record.cell.scenario) == "pure:fog"]
    lines = write_results.costs_table(records).splitlines()
    (tent,) = (line for line in lines if line.startswith("| tent |"))
    (result,) = (r.result for r in records if r.result is not None and r.cell.label == "tent")
    assert tent.split(" | ")[1:5] == ["1", "1", "0.4", "1,824"]  # forward, backward, GFLOPs, trainable parameters
    assert tent.split(" | ")[-1].startswith(f"{result.metrics['calibration_error']:.3g}")


def test_the_table_of_mitas_forms_is_of_the_stored_runs() -> None:
    """The numbers stand in a page that is written by hand."""
    page = (FOLDER.parent / "methods.md").read_text()

    def mean(run: str, label: str, metric: str = "accuracy") -> float:
        return fmean(row.value for row in frame(FOLDER / run).where(label=label, group="all", metric=metric))

    rivals = ("mita", "mita_two_models", "tea_equal_budget")
    accuracies = [f"{mean('pure', label):.2f}" for label in rivals]
    errors = [f"{mean('pure', label, 'calibration_error'):.1f}" for label in rivals]
    assert f"| accuracy in percent | {' | '.join(accuracies)} |" in page
    assert f"| calibration error in percent | {' | '.join(errors)} |" in page


def test_the_table_of_the_readme_is_made_from_the_stored_runs() -> None:
    text = (FOLDER.parents[1] / "README.md").read_text()
    assert write_readme.write(text, FOLDER) == text
    rows = [line.split(" | ") for line in write_readme.table(FOLDER).splitlines()[2:]]
    assert len(rows) == len(write_readme.LINES)
    clustered = [record.cell.seed for record in read_records(FOLDER / "mixture_clustered")]
    seeds = {seed for seed in clustered if clustered.count(seed) == max(map(clustered.count, clustered))}
    mixtures = [
        record.result.accuracy
        for record in read_records(FOLDER / "mixture")
        if record.cell.label == "bn" and record.cell.seed in seeds and record.result is not None
    ]
    (bn,) = (row for row in rows if row[0] == "| BN")
    assert bn[3] == f"{fmean(mixtures):.1f}"
