"""The tuned settings and the page about them are what the stored studies say."""

from __future__ import annotations

import write_tuning

from midway.data import corruption_names
from midway.streams import Scenario
from midway.tune import StudyResult, TrialRecord


def test_the_shipped_settings_are_the_best_of_the_stored_studies() -> None:
    assert write_tuning.SETTINGS.read_text() == write_tuning.settings_file(write_tuning.studies())


def test_the_tables_are_made_from_the_stored_studies() -> None:
    page = write_tuning.PAGE.read_text()
    assert write_tuning.write(page, write_tuning.studies()) == page


def test_every_method_had_the_same_chance_and_no_search_saw_what_results_are_reported_on() -> None:
    found = write_tuning.studies()
    assert len({len(study.trials) for study in found}) == 1
    common = ("network", "data", "scenarios", "images", "batch_size", "seed", "precision")
    assert len({str([study.search[key] for key in common]) for study in found}) == 1
    for study in found:
        assert study.default is not None, "the defaults are a trial"
        assert not study.count("failed")
        texts = study.search["scenarios"]
        assert not any(corruption in text for corruption in corruption_names("benchmark") for text in texts)


def test_tables_by_hand() -> None:
    trials = (
        TrialRecord(0, "complete", {"lr": 0.001}, 70.0, seconds=60.0),
        TrialRecord(1, "pruned", {"lr": 0.5}, 99.0, seconds=30.0),
        TrialRecord(2, "complete", {"lr": 0.0025}, 71.5, seconds=90.0),
    )
    study = StudyResult("tent", "tent-0", {"held": {"steps": 1}}, {"lr": 0.001}, trials, {})
    assert write_tuning.settings_file([study]).endswith("[tent]\nsteps = 1\nlr = 0.0025\n")
    assert write_tuning.search_table([study]).splitlines()[2] == (
        "| TENT | 3 | 1 | 3 | 70.00 | 71.50 | +1.50 | `lr=0.0025` |"
    )
    streams = [Scenario.parse(text) for text in ("pure:fog", "pure:snow", "pure:frost")]
    defaults = {("source", stream): 50.0 for stream in streams}
    defaults |= {("tent", stream): value for stream, value in zip(streams, (60.0, 61.0, 62.0), strict=True)}
    tuned = {("tent", stream): value for stream, value in zip(streams, (61.5, 61.0, 61.0), strict=True)}
    assert write_tuning.gain_table([study], defaults, tuned).splitlines() == [
        "| method | defaults | tuned | gain | better on | worse on |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| Source | 50.00 | 50.00 | +0.00 | 0 | 0 |",
        "| TENT | 61.00 | 61.17 | +0.17 | 1 | 1 |",
    ]
    assert (
        write_tuning.gain_table([study], defaults, {**tuned, ("tent", Scenario.parse("pure:glass_blur")): 1.0}).count(
            "\n"
        )
        == 2
    )
