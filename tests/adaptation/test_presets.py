"""Settings that are asked for by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import midway
from midway.adaptation.adapt import PRESETS, preset, with_preset
from midway.bench import load_plan
from midway.bench.entries import Entry, SettingError, parse_entries
from midway.testing import batches, tiny_network

SEARCHED = sorted(path.stem for path in (Path(__file__).parents[2] / "docs" / "tuning").glob("*.json"))


@pytest.mark.parametrize("name", SEARCHED)
def test_tuned_settings_are_what_the_method_has_and_what_was_searched(name: str) -> None:
    tuned = preset(name, "tuned")
    assert tuned
    assert set(tuned) <= set(midway.methods.hyperparameters(name))
    space = midway.methods.find(name).search_space
    assert set(space) <= set(tuned), "all that could be searched was searched or held"
    assert all(tuned[key] in space[key] for key in space)
    written = repr(midway.adapt(tiny_network(), name, preset="tuned"))
    assert all(f"{key}={value!r}" in written for key, value in tuned.items())


def test_what_is_said_wins_over_the_preset() -> None:
    assert "lr=0.5" in repr(midway.adapt(tiny_network(), "tent", preset="tuned", lr=0.5))


PUBLISHED = {  # where the defaults are Midway's own, as docs/methods.md says
    "pl": {"trainable": "all", "batch_statistics": False, "lr": 1e-5},
    "shot": {"pseudo_weight": 0.3},
    "lame": {"affinity": "rbf"},
    "dua": {"rotate": True, "images": 80, "crop": "pad"},
    "sar": {"recover_below": 0.2},
    "memo": {"fill": "red"},
    "dda": {"respacing": 100, "steps": 50, "noise_level": "next", "scale": 6.0},
    "note": {"weight_decay": 5e-4},
    "roid": {"prior_correction": "unscaled"},
    "cmf": {"prior_correction": "unscaled"},
    "ttt": {"online": False, "copies": 32, "rotations": "random", "trainable": "branch", "crop": "pad", "steps": 10},
}


@pytest.mark.parametrize("method", sorted({*midway.methods.names()} - {"mita"}))
def test_the_published_preset_is_the_defaults_where_nothing_else_is_known(method: str) -> None:
    published, default = midway.adapt(tiny_network(), method, preset="published"), midway.adapt(tiny_network(), method)
    assert published.hyperparameters == default.hyperparameters | PUBLISHED.get(method, {})
    assert repr(midway.adapt(tiny_network(), method, preset=None)) == repr(default)
    differing = {key for key, value in PUBLISHED.get(method, {}).items() if default.hyperparameters[key] != value}
    assert differing == set(PUBLISHED.get(method, {})), "a published value that is the default needs no preset"
    published(batches(1)[0])
    assert not any(
        value is None for key, value in published.hyperparameters.items() if key in PUBLISHED.get(method, {})
    )


def test_the_documentation_lists_every_published_value_that_is_not_the_default() -> None:
    text = (Path(__file__).parents[2] / "docs" / "methods.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ") and "`" in line]
    rows = {title: line for line in lines for title in line.split("|")[1].strip().split(", ")}
    for method, values in PUBLISHED.items():
        row = rows[midway.methods.find(method).about.title]
        assert all(f"`{key}={value!r}`" in row for key, value in values.items()), row


def test_mita_as_printed_starts_chains_afresh_with_more_noise_and_adapts_the_data_model_longer() -> None:
    published, printed = preset("mita", "published"), preset("mita", "printed")
    assert set(published) <= set(printed)
    defaults = midway.methods.hyperparameters("mita")
    differing = {key for key, value in printed.items() if (defaults | published)[key] != value}
    assert differing == {"data_model_steps", "langevin_noise", "buffer_size"}
    mita = midway.adapt(tiny_network(), "mita", preset="printed")
    assert mita.hyperparameters["langevin_noise"] is None
    assert midway.adapt(tiny_network(), "mita", preset="published").hyperparameters["langevin_noise"] == 0.01


def test_what_cannot_be_had_is_said() -> None:
    with pytest.raises(ValueError, match="unknown preset 'tund': did you mean 'tuned'"):
        midway.adapt(tiny_network(), "tent", preset="tund")
    for method in {*midway.methods.names()} - {"source", *SEARCHED}:
        with pytest.raises(ValueError, match=f"no tuned hyper-parameters of {method}: .* source, pl, .*omit preset"):
            midway.adapt(tiny_network(), method, preset="tuned")
    with pytest.raises(TypeError, match=r'midway.adapt\(model, "...", preset=\'tuned\'\)'):
        midway.Tent(tiny_network(), preset="tuned")  # type: ignore[call-arg]
    assert preset("source", "tuned") == {}
    assert PRESETS == ("published", "printed", "tuned")


def test_a_row_of_a_plan_is_named_by_what_is_written_and_stores_what_it_stands_for() -> None:
    entry = Entry.make("tent", {"preset": "tuned"})
    assert entry.label == "tent(preset='tuned')"
    assert entry.settings == preset("tent", "tuned")
    assert parse_entries('tent(preset="tuned", label="tent")')[0].complete_settings(0) == entry.complete_settings(0)
    with pytest.raises(SettingError, match="memo: there are no tuned hyper-parameters"):
        Entry.make("memo", {"preset": "tuned"})


def test_explicit_settings_override_a_preset() -> None:
    assert with_preset("tent", {"preset": "tuned", "lr": 1e-4})["lr"] == 1e-4


def test_a_plan_that_wants_an_unknown_preset_points_at_the_line(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('[[method]]\nname = "tent"\npreset = "best"\n')
    with pytest.raises(ValueError, match=r"plan.toml:3: .*unknown preset 'best'"):
        load_plan(plan)
