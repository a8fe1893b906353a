"""Networks of one's own in plans."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest
import torch

from midway.bench import Grid, LocalEngine, PlanError
from midway.bench.code import code_digest
from midway.bench.resources import load_network, make_absolute, modules_of, weights_of

MINE = """
import torch
from torch import nn

class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10)
        )

    def forward(self, images):
        return self.layers(images)

def mine():
    return Mine()

def no_network():
    return 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "my networks.py").write_text(MINE)
    return tmp_path / "my networks.py"


def test_a_function_in_a_file_is_a_network_with_weights_that_are_always_the_same(file: Path) -> None:
    one, two = load_network(f"{file}:mine", 10), load_network(f"{file}:mine", 10)
    images = torch.rand(2, 3, 8, 8)
    assert torch.equal(one(images), two(images))
    assert not one.training
    assert weights_of(f"{file}:mine") == weights_of(f"{file}:mine")
    assert len(weights_of(f"{file}:mine")) == 16
    assert weights_of("midway.testing:tiny_network") != weights_of(f"{file}:mine")


def test_a_plan_runs_it_in_other_processes_and_the_key_does_not_say_where_it_lies(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = {"methods": "bn,tent", "networks": "my networks.py:mine", "images": 20, "batch_sizes": 10}
    cells = Grid.from_dict(plan).cells()
    assert cells[0].network == "my networks.py:mine" == make_absolute("my networks.py:mine")
    outcomes = list(LocalEngine(jobs=2).run(cells))
    assert [outcome.failure for outcome in outcomes] == [None, None]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "my networks.py").write_text(MINE)
    moved = Grid.from_dict(plan | {"networks": "elsewhere/my networks.py:mine"}).cells()
    assert [cell.key for cell in moved] == [cell.key for cell in cells]


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ("nowhere.py:mine", "there is no file nowhere.py with networks"),
        ("no.such.module:mine", "no.such.module cannot be imported"),
        ("midway.testing:tiny_netwrok", "tiny_network"),
        ("wrn16_3.cifar10", "write your own network as module:function or path/to/file.py:function"),
    ],
)
def test_what_is_not_there_is_said(network: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Grid.from_dict({"methods": "bn", "networks": network}).cells()


def test_a_function_that_returns_no_network_is_refused(file: Path) -> None:
    with pytest.raises(ValueError, match=r"returned a int, not a torch\.nn\.Module"):
        load_network(f"{file}:no_network", 10)


def test_other_code_is_another_network_and_folders_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "me@work: here"
    folder.mkdir()
    file = folder / "net.py"
    file.write_text(MINE)
    plan = {"methods": "bn", "networks": f"{file}:mine", "images": 20}
    before = Grid.from_dict(plan).cells()[0]
    assert isinstance(load_network(before.network, 10), torch.nn.Module)
    file.write_text(MINE.replace("return self.layers(images)", "return self.layers(2 * images)"))
    after = Grid.from_dict(plan).cells()[0]
    assert after.key == before.key
    assert after.code != before.code
    images = torch.rand(2, 3, 8, 8)
    assert load_network(after.network, 10)(images).isfinite().all()  # the new code, though the old was imported


def test_code_that_the_file_imports_counts_as_well(tmp_path: Path) -> None:
    (tmp_path / "my_arch.py").write_text(MINE)
    (tmp_path / "entry.py").write_text("from my_arch import Mine\ndef mine():\n    return Mine()\n")
    name = f"{tmp_path / 'entry.py'}:mine"
    before = code_digest(modules_of(name))
    assert code_digest(modules_of(name)) == before
    (tmp_path / "my_arch.py").write_text(MINE.replace("return self.layers(images)", "return -self.layers(images)"))
    assert code_digest(modules_of(name)) != before
    del sys.modules["my_arch"]


def test_lazy_layers_must_have_seen_an_image(tmp_path: Path) -> None:
    (tmp_path / "lazy.py").write_text("from torch import nn\ndef mine():\n    return nn.LazyLinear(4)\n")
    warnings.simplefilter("ignore")  # torch says that lazy layers are new
    with pytest.raises(ValueError, match="lazy layers that have not seen an image"):
        load_network(f"{tmp_path / 'lazy.py'}:mine", 10)


def test_a_file_may_import_what_lies_beside_it_and_errors_in_it_are_named(tmp_path: Path) -> None:
    (tmp_path / "layers_of_mine.py").write_text(MINE)
    (tmp_path / "net.py").write_text("from layers_of_mine import Mine\ndef mine():\n    return Mine()\n")
    assert load_network(f"{tmp_path / 'net.py'}:mine", 10) is not None
    (tmp_path / "broken.py").write_text("1 / 0")
    with pytest.raises(ValueError, match=r"broken\.py cannot be imported \(ZeroDivisionError: division by zero\)"):
        load_network(f"{tmp_path / 'broken.py'}:mine", 10)
    (tmp_path / "picky.py").write_text("def mine(size):\n    return size\n")
    with pytest.raises(ValueError, match=r"calling it failed .*missing 1 required positional argument: 'size'"):
        load_network(f"{tmp_path / 'picky.py'}:mine", 10)
    with pytest.raises(ValueError, match=r"cannot be imported .* write path/to/file\.py:function"):
        load_network("./net:mine", 10)
