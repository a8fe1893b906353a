"""The results page is what its stored runs say."""

from __future__ import annotations

import shutil
from pathlib import Path

import write_results

from midway.bench import Grid, read_records
from midway.bench.plan_file import read_plan

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


def test_means_are_over_the_seeds_that_all_have() -> None:
    numbers = [
        write_results.Measured("a", "pure:fog", "fog", 1.0, seed=0),
        write_results.Measured("a", "pure:fog", "fog", 2.0, seed=1),
        write_results.Measured("b", "pure:fog", "fog", 3.0, seed=1),
    ]
    assert [number.seed for number in write_results.complete(numbers)] == [1, 1]


def test_shares_of_the_filters() -> None:
    records = [record for record in read_records(FOLDER / "pure") if record.result is not None]
    table = write_results.shares_table(records, [("eata", "selected"), ("nothing", "selected")]).splitlines()
    assert table[0] == "| | eata, selected | nothing, selected |"
    assert len(table) == 2 + len({record.cell.scenario for record in records})
    for record in records:
        assert record.result is not None
        if record.cell.label == "eata":
            share = 100 * record.result.diagnostics["selected"] / record.result.images
            heading = record.cell.scenario.replace(":", ": ").replace("_", " ")
            assert f"| {heading} | {share:.1f} | - |" in table
            assert 1 < share < 99, "a filter that passes nothing or everything is none"
