from __future__ import annotations

import pytest
import torch

import midway
from midway.bench import paper
from midway.bench.entries import Entry
from midway.bench.suites import complexity_entries, measure_complexity
from midway.cost import multiply_adds
from midway.report.paper import complexity_table
from midway.testing import tiny_network


def test_entries_are_the_papers_rows_and_then_ours() -> None:
    entries = complexity_entries()
    rows = [row.label for row in paper.complexity()]
    assert list(entries)[: len(rows)] == rows
    assert set(paper.METHODS) <= {entry.name for entry in entries.values()}
    assert "source, default" not in entries  # the paper's row is the same
    assert entries["tea, default"].settings == {}
    for label in ("tea", "memo_4_views", "mita_5_sgld_steps"):
        entry = entries[label]
        assert Entry.make(entry.name, entry.settings, entry.label) == entry


def test_lines_and_table_by_hand() -> None:
    network, seen = tiny_network(), []
    lines = measure_complexity(
        network,
        torch.rand(6, 3, 16, 16),
        only=["source", "mita_1_sgld_step", "bn"],
        repeats=0,
        on_entry=lambda label, done, total: seen.append((label, done, total)),
    )
    assert seen == [("source", 0, 3), ("mita_1_sgld_step", 1, 3), ("bn", 2, 3)]
    by_label = {line.label: line for line in lines}
    assert list(by_label) == [row.label for row in paper.complexity()] + ["bn"]
    forward = multiply_adds(network, (3, 16, 16)) / 1e9
    passes = {"source": 1, "tent": 1, "lame": 2, "tea": 4, "memo_8_views": 9, "mita_5_sgld_steps": 16}
    for label, count in passes.items():
        assert by_label[label].gflops_as_published == pytest.approx(count * forward)
    mita = by_label["mita_1_sgld_step"].cost
    assert mita is not None
    assert (mita.forward_passes, mita.backward_passes) == (8, 7)
    assert by_label["tent"].cost is None
    assert by_label["bn"].gflops_as_published is None
    table = complexity_table("t", lines)
    index = {(column.group, column.metric, column.origin): number for number, column in enumerate(table.columns)}
    rows = {label: [value and value.mean for value in values] for label, values in table.rows}
    as_published = index["as published", "GFLOPs per image", "paper"]
    assert [row[as_published] for row in rows.values()] == [row.gflops for row in paper.complexity()] + [None]
    assert rows["mita_1_sgld_step"][index["true cost", "GFLOPs per image", "ours"]] == mita.flops_total / 6 / 1e9
    assert rows["mita_1_sgld_step"][index["true cost", "backward passes", "ours"]] == 7
    weights = 3 * 8 * 9 + 8 * 8 * 9 + 4 * 8 + 8 * 4 + 4
    assert rows["source"][index["weights", "million parameters", "ours"]] == weights / 1e6
    assert rows["tent"][index["a batch", "seconds", "ours"]] is None


def test_unknown_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown row of the complexity table 'mitta'"):
        measure_complexity(midway.models.create("resnet20"), torch.rand(2, 3, 32, 32), only=["mitta"])
