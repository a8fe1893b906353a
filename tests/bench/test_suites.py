from __future__ import annotations

import pytest

import midway
from midway import methods
from midway.bench import paper
from midway.bench.entries import Entry
from midway.bench.suites import EQUAL_BUDGET, SUITES, Suite, suite
from midway.cost import measure_cost
from midway.testing import batches, tiny_network


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_covers_its_table_of_the_paper(name: str) -> None:
    ours: Suite = suite(name)
    asked = {(s.shifts, s.ratio) for s in paper.scores() if s.table == name}
    assert {(scenario.shifts, scenario.amount) for scenario in ours.scenarios} == asked
    assert len(ours.scenarios) == len(asked)
    labels = [entry.label for entry in ours.entries]
    rows = list(dict.fromkeys(s.method for s in paper.scores() if s.table == name))
    assert [label for label in labels if label in rows] == rows
    assert set(labels) - set(rows) <= {EQUAL_BUDGET, "tea"}
    assert {scenario.severity for scenario in ours.scenarios} == {5}


def test_every_setting_exists() -> None:
    distinct = {entry.label: entry for name in SUITES for entry in suite(name).entries if entry.settings}
    assert list(distinct) == [EQUAL_BUDGET, "mita_without_data", "mita_without_model", "mita_same"]
    for entry in distinct.values():
        assert Entry.make(entry.name, entry.settings, entry.label) == entry


def test_the_ablation_variants_are_what_they_say() -> None:
    images = batches(1)[0]
    made = {e.label: midway.adapt(tiny_network(), e.name, **e.settings) for e in suite("ablation").entries}
    costs = {label: measure_cost(method, images, repeats=0) for label, method in made.items()}
    samples = min(1, methods.hyperparameters("mita")["samples"] / len(images))
    update = 1 + samples  # forward, and as many backward
    assert costs["mita_without_model"].forward_passes == 1 + 1
    assert costs["mita_without_model"].trainable_parameters == 0
    assert costs["mita_without_data"].forward_passes == update + 1
    assert costs["mita_same"].forward_passes == update + 1
    assert costs["mita"].forward_passes == update + 1
    assert costs["mita"].backward_passes == update
    assert costs[EQUAL_BUDGET].forward_passes == 2 + 1  # one update, with as many samples as images


def test_rows_can_be_chosen() -> None:
    assert [entry.label for entry in suite("pure", only=["mita", "bn"]).entries] == ["source", "bn", "mita"]
    with pytest.raises(ValueError, match="unknown row of the ablation table 'mita_sam': did you mean 'mita_same'"):
        suite("ablation", only=["mita_sam"])
    with pytest.raises(ValueError, match="unknown table of the paper 'oulier': did you mean 'outlier'"):
        suite("oulier")
