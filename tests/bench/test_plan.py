from __future__ import annotations

import json
import pickle
import re
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import midway
from midway._files import file_digest
from midway.adaptation import registry
from midway.bench import Cell, Grid, PlanError, load_plan
from midway.bench.entries import READERS, Entry, parse_entries
from midway.bench.plan import line_of
from midway.models import denoiser_cards
from midway.streams import Scenario
from midway.testing import tiny_network


def cells(**plan: Any) -> list[Cell]:
    return Grid.from_dict({"methods": "source", **plan}).cells()


def test_a_grid_is_every_combination_once() -> None:
    plan = cells(
        methods="source,tent",
        scenarios=["pure:fog", "pure:clean", "sweep:fog/snow@0.1+0.2"],
        severities=[1, 5],
        seeds=[0, 3],
        batch_sizes=[1, 500],
        networks=["wrn16_2.cifar10", "resnet20"],
    )
    streams = {str(cell.scenario) for cell in plan}
    mixtures = {f"mixture:fog/snow@{ratio}{severity}" for ratio in (0.1, 0.2) for severity in ("#1", "")}
    assert streams == {"pure:fog#1", "pure:fog", "pure:clean"} | mixtures  # clean images have one severity
    assert len(plan) == 2 * len(streams) * 2 * 2 * 2
    assert len({cell.key for cell in plan}) == len(plan)
    assert [cell.method for cell in plan[:2]] == ["source", "tent"]
    assert plan[0].stream_key == plan[1].stream_key  # cells that share a stream stand together


def test_the_key_is_over_what_determines_the_numbers_and_nothing_else(tmp_path: Path) -> None:
    (cell,) = cells(methods="tent", images=100)
    same: dict[str, Any] = {"label": "another", "module": "elsewhere", "code": "0" * 16}
    other: dict[str, Any] = {
        "method": "bn",
        "settings": cell.settings | {"lr": 2e-3},
        "network": "resnet20",
        "weights": "0" * 16,
        "data": "cifar10",
        "root": "/data",
        "images": 101,
        "size": 64,
        "scenario": Scenario.parse("pure:fog"),
        "seed": 1,
        "batch_size": 100,
        "precision": "bf16",
        "device": "cuda",
        "threads": 2,
        "classes": "imagenet",
        "further_weights": "0123456789abcdef",
    }
    assert same.keys() | other.keys() == {each.name for each in fields(Cell)}
    for name, value in same.items():
        assert replace(cell, **{name: value}).key == cell.key, name
    keys = {replace(cell, **{name: value}).key for name, value in other.items()}
    assert len(keys | {cell.key}) == len(other) + 1


def test_keys_are_stable() -> None:
    """A key that changes by itself would run everything again; this one is of a cell written out in full."""
    cell = Cell(
        method="tent",
        label="TENT",
        settings={"lr": 0.001, "betas": (0.9, 0.999), "steps": 1, "predict": "before", "loss": "entropy"},
        network="wrn16_2.cifar10",
        weights="451ae4a91eb47bda",
        data="cifar10-mini",
        root=None,
        images=400,
        size=None,
        scenario=Scenario.parse("pure:fog"),
        seed=0,
        batch_size=200,
        precision="float32",
        device="cpu",
        threads=1,
        module="midway.methods.tent",
    )
    assert cell.key == "3eba105a5184828b"
    assert pickle.loads(pickle.dumps(cell)) == cell  # noqa: S301
    assert Cell.from_dict(json.loads(json.dumps(cell.to_dict()))) == cell


def test_defaults_written_out_are_the_same_cell() -> None:
    (plain,), (spelt,) = cells(methods="tent"), cells(methods="tent(steps=1, betas=[0.9, 0.999])")
    assert plain.key == spelt.key
    assert spelt.settings["betas"] == (0.9, 0.999)


def test_a_preset_runs_as_it_is() -> None:
    for name in midway.methods.names():
        for preset in ("published", "printed") if name == "mita" else ("published",):
            entry = Entry.make(name, {"preset": preset})
            ran = midway.adapt(tiny_network(), name, **entry.complete_settings(seed=0)).hyperparameters
            written = midway.adapt(tiny_network(), name, preset=preset).hyperparameters
            assert {k: v for k, v in ran.items() if k != "seed"} == {k: v for k, v in written.items() if k != "seed"}


def test_the_seed_reaches_methods_that_have_one() -> None:
    (tea,) = cells(methods="tea", seeds=7)
    assert tea.settings["seed"] == 7
    (fixed,) = cells(methods="tea(seed=3)", seeds=7)
    assert fixed.settings["seed"] == 3
    assert "seed" not in cells(methods="tent", seeds=7)[0].settings


def test_other_weights_of_the_denoiser_are_another_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell,), (tent,) = cells(methods="dda"), cells(methods="tent")
    assert cell.further_weights == denoiser_cards()[0].sha256[:16]
    assert tent.further_weights is None
    assert Cell.from_dict(json.loads(json.dumps(cell.to_dict()))) == cell
    card = denoiser_cards()[0]
    weights = {name: value + 1 for name, value in load_file(card.path).items()}
    save_file(weights, tmp_path / card.file)
    replace(card, sha256=file_digest(tmp_path / card.file)).write(tmp_path / "unet.cifar10.json")
    monkeypatch.setattr("midway.models.zoo.DENOISERS", tmp_path)
    assert cells(methods="dda")[0].key != cell.key
    assert cells(methods="tent")[0].key == tent.key


def test_a_weights_file_counts_by_its_content(tmp_path: Path) -> None:
    model = midway.models.create("resnet20")
    torch.save(model.state_dict(), tmp_path / "one.pth")
    (tmp_path / "two.pth").write_bytes((tmp_path / "one.pth").read_bytes())
    one, two = (cells(networks=f"resnet20@{tmp_path / name}")[0] for name in ("one.pth", "two.pth"))
    assert one.network == f"resnet20@{tmp_path / 'one.pth'}"
    assert one.key == two.key
    guessed = [cells(networks=str(tmp_path / name))[0] for name in ("one.pth", "two.pth")]
    assert guessed[0].key == guessed[1].key
    assert guessed[0].weights == one.weights
    torch.save({name: value + 1 for name, value in model.state_dict().items()}, tmp_path / "one.pth")
    assert cells(networks=f"resnet20@{tmp_path / 'one.pth'}")[0].key != one.key
    assert cells(networks="resnet20")[0].weights == "untrained"


def test_auto_is_settled_in_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cells(precision="auto")[0].precision in ("float32", "bf16")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert cells()[0].device == "cuda"
    assert cells(device="cpu")[0].device == "cpu"


def test_data_sets_have_their_own_folders(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    plan = cells(data=[f"cifar10-c@{tmp_path / 'a'}", "cifar10"], root=str(tmp_path / "b"))
    assert [(cell.data, cell.root) for cell in plan] == [
        ("cifar10-c", str(tmp_path / "a")),
        ("cifar10", str(tmp_path / "b")),
    ]
    assert cells()[0].root is None


def test_domains_are_not_taken_for_misspelt_corruptions() -> None:
    assert cells(data="pacs", scenarios="pure:sketch")[0].scenario.shifts == ("sketch",)


def test_methods_as_text() -> None:
    entries = parse_entries('tent, tea(steps=4),mita(data_model="same", lr=1e-4, label="MITA, one model"), bn()')
    assert [(entry.name, entry.settings, entry.label) for entry in entries] == [
        ("tent", {}, "tent"),
        ("tea", {"steps": 4}, "tea(steps=4)"),
        ("mita", {"data_model": "same", "lr": 1e-4}, "MITA, one model"),
        ("bn", {}, "bn"),
    ]


ERRORS = {
    "methods = 'source'\nseeds = [0, 0]": "2: seeds has 0 twice.",
    "methods = 'source'\nseeds = -1": "2: seeds must be an integer of at least 0, got -1.",
    "methods = 'source'\nseeds = true": "2: seeds must be an integer of at least 0, got True.",
    "methods = 'source'\nseed = 1": "2: unknown key 'seed': did you mean 'seeds'?",
    "methods = 'source'\n\nbatch_sizes = 501": "3: batch_sizes must be an integer from 1 to 500, got 501.",
    "methods = 'source'\nscenarios = []": "2: scenarios is empty: name at least one, or leave the key out.",
    "methods = 'source'\nscenarios = ['pure:fgo']": "2: pure:fgo: unknown corruption 'fgo': did you mean 'fog'?",
    "methods = 'source'\nscenarios = 7": "2: scenarios must be a string or a list of strings",
    "# a comment\nmethods = 'tnet'": "2: unknown method 'tnet': did you mean 'tent'?",
    "methods = 'tent(steps=0)'": "1: tent: steps must be at least 1, got 0.",
    "methods = 'tent(lr=fast)'": "1: tent: lr=fast is not a number or a quoted string.",
    "methods = 'tent tea'": "1: methods 'tent tea' cannot be parsed: write them like tent,tea(steps=4),mita.",
    "methods = 'tent(**x)'": "1: methods 'tent(**x)' cannot be parsed",
    "methods = 'tent(label=3)'": "1: tent: the label must be a quoted string, got 3.",
    "methods = 'tent(label=\"a\\nb\")'": r"1: tent: the label 'a\nb' has bytes or control characters that are not "
    "text: leave them out.",
    "methods = 'tent,tent'": "1: two entries are called 'tent': give each a label of its own, such as tent",
    "methods = 'tent,tent(steps=1)'": "1: 'tent' and 'tent(steps=1)' have the same settings: leave one out.",
    "images = 10": "1: there are no methods: name some of source, pl",
    "methods = 'bn'\nnetworks = 'wrn99'": "2: unknown network 'wrn99': did you mean 'wrn",
    "methods = 'bn'\nnetworks = 'resnet20@/no/file.pth'": "2: there is no file /no/file.pth for resnet20@",
    "methods = 'bn'\nnetworks = 'resnet21@/no/file'": "2: unknown architecture 'resnet21': did you mean 'resnet",
    "methods = 'bn'\ndata = 'cifar11'": "2: unknown data set 'cifar11': did you mean 'cifar10'?",
    "methods = 'bn'\ndata = 'cifar10'\nroot = '/no/where'": "3: there is no folder /no/where for cifar10: get it",
    "methods = 'bn'\ndata = 'folder'": "2: a folder of images needs scenarios: scenarios =",
    "methods = 'tent(lr=\"high\")'": "1: tent: lr must be a number, got 'high'.",
    "[[method]]\nname = 'tent'\nlr = 'high'": "3: tent: lr must be a number, got 'high'.",
    "methods = 'bn'\nprecision = 'half'": "2: precision must be 'float32', 'bf16' or 'auto', got 'half'.",
    "methods = 'bn'\ndevice = 'gpu'": "2: device 'gpu' is not known to torch: use cpu, cuda or auto.",
    "methods = 'bn'\nimport = 'no_such_module'": "2: import: No module named 'no_such_module'",
    "[[method]]\nname = 'bn'\n[[method]]\nname = 'tea'\nsetps = 4": "5: unknown hyper-parameter of tea 'setps'",
    "[[method]]\nname = 'bn'\n[[method]]\nname = 'tent'\n# x\nsteps = 0": "6: tent: steps must be at least 1, got 0.",
    "[[method]]\nname = 'tnet'": "2: unknown method 'tnet'",
    "seeds = 1\n[[method]]\nlr = 1": '2: a method needs a name, such as name = "tent".',
    "[[method]]\nname = 'bn'\nlabel = 3": "3: the label of bn must be a string, got 3.",
    "[method]\nname = 'bn'": "1: method must be a list of tables: write [[method]] above",
    "methods = 'bn'\nseeds = [0,": "2: ",
    "methods = bn": "1: Invalid value: this is not TOML; quote strings",
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors_point_at_the_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(PlanError, match=re.escape(f"{path}:{ERRORS[text]}")):
        load_plan(path)


def test_a_file_with_everything(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text("""
methods = "source"
networks = "resnet20"
scenarios = ["pure:fog", "continual:fog+snow"]
severities = 3
seeds = [0, 1]
batch_sizes = [50]
images = 100
precision = "float32"
device = "cpu"
threads = 2

[[method]]
name = "tea"
label = "TEA x4"
steps = 4

[[method]]
name = "tea"
""")
    plan = load_plan(path).cells()
    assert len(plan) == 2 * 2 * 3
    assert [(cell.label, cell.settings.get("steps")) for cell in plan[:3]] == [
        ("source", None),
        ("TEA x4", 4),
        ("tea", 1),
    ]
    assert {cell.threads for cell in plan} == {2}
    assert {str(cell.scenario) for cell in plan} == {"pure:fog#3", "continual:fog+snow#3"}
    with pytest.raises(FileNotFoundError, match="there is no plan at"):
        load_plan(tmp_path / "none.toml")
    path.write_bytes(b"methods = '\xff'")
    with pytest.raises(PlanError, match="is not UTF-8 text"):
        load_plan(path)


def test_lines_are_found_in_their_own_table() -> None:
    text = "name = 'top'\n[[method]]\nname = 'a'\n[[ method ]]\n'name' = 'b'\n"
    assert line_of(text, "name") == 1
    assert line_of(text, "method", 0, "name") == 3
    assert line_of(text, "method", 1, "name") == 5
    assert line_of(text, "method", 1, "lr") == 4
    assert line_of(text, "method", 1) == 4
    assert line_of(text, "method") == 2
    assert line_of(text, "absent") == 1
    assert line_of(text) == 1


def test_modules_with_methods_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_methods.py").write_text(
        "from midway.methods import BN, About, register\n"
        "from dataclasses import replace\n"
        "@register\n"
        "class MyBN(BN):\n"
        "    '''BN under another name.'''\n"
        "    about = replace(BN.about, name='my_bn')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry.METHODS, "_objects", dict(registry.METHODS))
    (cell,) = cells(**{"methods": "my_bn", "import": "my_methods"})
    assert cell.module == "my_methods"
    del sys.modules["my_methods"]


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("my_methods.py", r"my_methods\.py is not the name of a module: write my_methods"),
        ("./here/my_methods.py", r"write my_methods"),
        ("no_such_module", "No module named 'no_such_module': install it, or correct the name"),
    ],
)
def test_modules_that_cannot_be_imported_are_named(module: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        cells(**{"import": module})


def test_files_of_a_folder_are_part_of_the_code(tmp_path: Path) -> None:
    (tmp_path / "images" / "cat").mkdir(parents=True)
    (tmp_path / "images" / "cat" / "a.png").write_bytes(b"123")
    folder: dict[str, Any] = {"data": f"folder@{tmp_path / 'images'}", "scenarios": "pure:clean"}
    (first,) = cells(**folder)
    assert cells(**folder)[0].code == first.code
    (tmp_path / "images" / "cat" / "a.png").write_bytes(b"1234")
    (changed,) = cells(**folder)
    assert changed.code != first.code
    assert changed.key == first.key


def test_layers_are_those_of_the_network_to_come() -> None:
    entries = parse_entries('t3a(head="fc"), sar(exclude=("layer3",))')
    assert [entry.settings for entry in entries] == [{"head": "fc"}, {"exclude": ("layer3",)}]


def test_a_setting_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="tent: lr is given twice"):
        parse_entries("tent(lr=1e-3, lr=5.0)")


def test_every_key_of_the_grid_can_be_written() -> None:
    assert {each.name for each in fields(Grid)} == READERS.keys() - {"method", "import"}
