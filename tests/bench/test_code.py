"""A stored result is valid exactly as long as the code that computed it is the same."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

import midway
from midway.adaptation import registry
from midway.bench import Grid, LocalEngine, Store, Tally, run
from midway.bench.code import code_digest, folder_digest

EDITS = """
import sys, warnings
from pathlib import Path
import midway
from midway.bench import Grid

root = Path(midway.__file__).parent
assert root.is_relative_to(sys.argv[1]), root
grid = Grid.from_dict({"methods": 'source,tent,bn,tent(label="wrapped", wrap="guarded")', "networks": "resnet20"})

def changed_by(file, added="CHANGED = 1", instead_of=""):
    first = {cell.label: cell.code for cell in grid.cells()}
    text = (root / file).read_text()
    assert instead_of in text
    edited = text.replace(instead_of, added) if instead_of else text + "\\n" + added + "\\n"
    (root / file).write_text(edited)
    second = {cell.label: cell.code for cell in grid.cells()}
    (root / file).write_text(text)
    assert {cell.label: cell.code for cell in grid.cells()} == first
    return ",".join(label for label in first if first[label] != second[label])

print(changed_by("_version.py", "__version__ = '9.0'"))
print(changed_by("methods/tent.py", "# a comment"))
print(changed_by("methods/tent.py"))
print(changed_by("adaptation/wrappers/guarded.py"))
print(changed_by("models/wide_resnet.py"))
print(changed_by("models/resnet.py"))
print(changed_by("metrics/classification.py"))
print(changed_by("data/corruptions/noise.py"))
print(changed_by("data/corruptions/blur.py"))
print(changed_by("streams/scenarios.py"))
print(changed_by("streams/over_time.py"))
print(changed_by("bench/store.py"))
print(changed_by("methods/tent.py", 'title="Tent"', instead_of='title="TENT"'))
print(changed_by("methods/tent.py", "search_space = {} and ", instead_of="search_space = "))
print(changed_by("methods/tent.py", "adaptation.space import Choice,", instead_of="adaptation.space import"))
print(changed_by("methods/tent.py", "losses import ENTROPIES,", instead_of="losses import"))
"""


def test_a_changed_line_concerns_the_cells_whose_numbers_it_makes(tmp_path: Path) -> None:
    copy = tmp_path / "midway"
    shutil.copytree(Path(midway.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", EDITS, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    every = "source,tent,bn,wrapped"
    expected = ["", "", "tent,wrapped", "wrapped", "", every, every, every, "", every, "", ""]
    expected += ["", "", "", "tent,wrapped"]  # titles, colours and search ranges change no number
    assert ran.stdout.split("\n")[:-1] == expected


OWN = """
from dataclasses import replace
from own_tricks.helpers import sign
from midway.methods import Source, register

class Own(Source):
    '''Source, but not quite.'''
    about = replace(Source.about, name="own")

    def step(self, images):
        return sign() * super().step(images)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of somebody else's, with a method and a module that the method imports."""
    package = tmp_path / "own_tricks"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helpers.py").write_text("def sign():\n    return 1\n")
    (package / "method.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry.METHODS, "_objects", dict(registry.METHODS))
    registry.register(importlib.import_module("own_tricks.method").Own)
    for name in ("own_tricks", "own_tricks.helpers", "own_tricks.method"):
        monkeypatch.delitem(sys.modules, name)
    return package


def test_code_of_other_packages_counts_with_what_it_imports(own: Path) -> None:
    before = code_digest(["own_tricks.method"])
    (own / "unrelated.py").write_text("x = 1\n")
    (own / "helpers.py").write_text('"""Helpers."""\n\n\ndef sign():  # always positive\n    return 1\n')
    assert code_digest(["own_tricks.method"]) == before
    (own / "helpers.py").write_text("def sign():\n    return -1\n")
    assert code_digest(["own_tricks.method"]) != before


def test_results_of_other_code_are_run_again_or_kept(own: Path, tmp_path: Path) -> None:
    plan = {"methods": "source,own", "images": 4, "batch_sizes": 2, "device": "cpu", "scenarios": "pure:fog"}
    grid = Grid.from_dict(plan)
    with Store(tmp_path / "run") as store:
        assert run(grid.cells(), store, LocalEngine()) == Tally(before=0, finished=2, failed=0)
        (own / "helpers.py").write_text("def sign():\n    return -1\n")
        kept = run(grid.cells(), store, LocalEngine(), keep_old=True)
        assert kept == Tally(before=2, finished=0, failed=0, out_of_date=1)
        again = run(grid.cells(), store, LocalEngine())
        assert again == Tally(before=1, finished=1, failed=0, out_of_date=1)
        assert run(grid.cells(), store, LocalEngine()) == Tally(before=2, finished=0, failed=0)


def test_attributes_that_only_describe_a_method_do_not_count(own: Path) -> None:
    before = code_digest(["own_tricks.method"])
    text = (own / "method.py").read_text()
    (own / "method.py").write_text(text.replace('name="own")', 'name="own", title="Own",\n        colour="#123456")'))
    assert code_digest(["own_tricks.method"]) == before
    (own / "method.py").write_text(text.replace("    about = ", "    abouts = "))
    assert code_digest(["own_tricks.method"]) != before
    (own / "method.py").write_text(text + "\nabout = 1\n")  # not an attribute of a class
    assert code_digest(["own_tricks.method"]) != before


def test_a_class_of_a_notebook_has_no_valid_results(monkeypatch: pytest.MonkeyPatch) -> None:
    main = types.ModuleType("__main__")  # without a file
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert code_digest({"__main__"}) != code_digest({"__main__"})


def test_corrected_labels_change_the_digest_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "nested").mkdir()
    for name in ("labels.npy", "fog.npy", "nested/image.png"):
        (tmp_path / name).write_bytes(b"1234")
    before, flat = folder_digest(str(tmp_path)), folder_digest(str(tmp_path), nested=False)
    (tmp_path / "fog.npy").write_bytes(b"5678")  # as large: reading all images would take too long
    assert (folder_digest(str(tmp_path)), folder_digest(str(tmp_path), nested=False)) == (before, flat)
    (tmp_path / "nested" / "another.png").write_bytes(b"1")
    assert folder_digest(str(tmp_path)) != before
    assert folder_digest(str(tmp_path), nested=False) == flat
    (tmp_path / "labels.npy").write_bytes(b"4321")
    assert folder_digest(str(tmp_path), nested=False) != flat


def test_what_is_imported_through_the_package_root_counts(own: Path) -> None:
    (own / "method.py").write_text("from midway import Tent\n")
    by_root = code_digest(["own_tricks.method", "midway.functional"])
    (own / "method.py").write_text("from midway import Source\n")
    assert code_digest(["own_tricks.method", "midway.functional"]) != by_root
