"""The stream of `make endurance` in short: every method adapts in it, recovers, and returns to the source."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

import midway
from chaos.document import write_table
from chaos.endurance import Row, Subject, endure, subjects, table
from midway.methods import About, Method
from sharp_networks import sharp_network

ENDURANCE = Path(__file__).with_name("endurance.py")
SUBJECTS = {subject.name: subject for subject in subjects()}

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="memory and open files are read from /proc"
)


@pytest.mark.parametrize("name", SUBJECTS)
def test_every_row_adapts_in_a_short_stream(name: str) -> None:
    row = endure(SUBJECTS[name], 60)
    assert row.faults == []
    assert row.adapted == "-" if name == "source" else int(row.adapted.split()[0]) >= 5


class Leaking(Method):
    """Keeps what it should not: memory, open files, and a value that a reset forgets."""

    about = About("leaking", "Leaking", "-", "none", "nothing", "-", "1 F")

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)
        self.kept: list[object] = []

    def step(self, images: Tensor) -> Tensor:
        self.kept += [torch.ones(2**18), Path("/dev/null").open()]  # noqa: SIM115
        return self.network_logits(images) + len(self.kept)


def test_leaks_and_methods_that_do_not_adapt_are_found() -> None:
    leaking = Leaking(sharp_network())
    row = endure(Subject("leaking", lambda: leaking), 60)
    for item in leaking.kept[1::2]:
        item.close()  # type: ignore[attr-defined]
    assert row.files == 48
    assert "the method never adapted" in row.faults
    assert "48 more files are open" in row.faults
    assert any(fault.startswith("memory grew by") for fault in row.faults)
    assert "a reset does not return to the source" in row.faults


def test_collapses_that_nobody_repairs_are_found() -> None:
    unguarded = Subject("tent", lambda: midway.Tent(sharp_network(), lr=1e-4), collapses=True)
    assert "0 of 10 collapses were repaired" in endure(unguarded, 60).faults


def test_rows_are_stored_one_by_one_and_written_into_the_document(tmp_path: Path) -> None:
    document, store = tmp_path / "page.md", tmp_path / "rows.jsonl"
    document.write_text(
        "# Page\n<!-- begin of the table of long streams -->\n<!-- end of the table of long streams -->\n"
    )
    command = [sys.executable, str(ENDURANCE), "--batches", "40", "--store", str(store)]
    for rows in ("tent, periodic", "bn"):
        subprocess.run([*command, "--rows", rows, "--write", str(document)], check=True, capture_output=True)
    assert [json.loads(line)["name"] for line in store.read_text().splitlines()] == ["tent, periodic", "bn"]
    lines = document.read_text().splitlines()
    assert lines[0] == "# Page"
    assert [line.split(" | ")[0] for line in lines if line.startswith("| ")] == [
        "| method",
        "| ---",
        "| bn",
        "| tent, periodic",
    ]


def test_a_fault_is_in_the_table_and_a_document_without_marks_is_refused(tmp_path: Path) -> None:
    row = Row("tent", 1000, 1.0, 30.0, 1.0, 0, "10 of 10", ["memory grew by 30 MB"])
    assert "memory grew by 30 MB" in table([row])
    (tmp_path / "page.md").write_text("# Page\n")
    with pytest.raises(ValueError, match="add them where the table belongs"):
        write_table(tmp_path / "page.md", "the table", "")
