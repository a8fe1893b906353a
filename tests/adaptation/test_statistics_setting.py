"""The setting ``statistics=`` of methods: its names, its place in a state, and the methods that refuse it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import midway
from midway.bench.entries import Entry, parse_entries
from midway.testing import batches, tiny_network

CONTRACT = [check for check in midway.testing.CONTRACT if check is not midway.testing.check_every_norm_and_image_works]


BATCH_METHODS = ("tent", "mita")  # one network, and two with chains


@pytest.mark.parametrize("name", BATCH_METHODS)
@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_every_method_keeps_its_contract_with_them(
    name: str, check: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_two_kinds(count: int = 3, **sizes: int) -> list[Tensor]:
        made = batches(count, **{"size": 40, **sizes})
        calm = torch.arange(len(made[0])) % 3 == 0
        return [torch.where(calm.view(-1, 1, 1, 1), 0.5 + (images - 0.5) / 20, images) for images in made]

    monkeypatch.setattr(midway.testing, "batches", of_two_kinds)
    check(lambda model: midway.adapt(model, name, statistics="clustered"))


def test_settings_are_part_of_the_state() -> None:
    model = midway.clustered(tiny_network(), prior=7)
    assert "statistics='clustered, prior 7'" in repr(midway.Tent(model))
    assert "statistics='clustered-batch'" in repr(midway.Tent(midway.clustered(tiny_network(), memory=False)))
    with pytest.raises(ValueError, match=r"the state is of statistics=.clustered, prior 7"):
        midway.Tent(midway.clustered(tiny_network())).load_state_dict(midway.Tent(model).state_dict())


def test_the_statistics_are_seen_and_states_do_not_mix() -> None:
    plain, clustered = (midway.adapt(tiny_network(), "tent", statistics=each) for each in (None, "clustered"))
    assert "statistics='clustered'" in repr(clustered)
    assert "statistics" not in repr(plain)
    with pytest.raises(ValueError, match="statistics"):
        clustered.load_state_dict(plain.state_dict())
    with pytest.raises(ValueError, match="statistics"):
        plain.load_state_dict(clustered.state_dict())


@pytest.mark.parametrize("name", ["memo", "dua"])
def test_methods_that_mix_in_the_source_refuse_them(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} mixes in the source's statistics in its own way"):
        midway.adapt(tiny_network(), name, statistics="clustered")


def test_bn_leaves_the_prior_to_them() -> None:
    with pytest.raises(ValueError, match=r"which clustered statistics do themselves: leave prior at 0"):
        midway.adapt(tiny_network(), "bn", statistics="clustered", prior=16)


def test_statistics_are_a_setting_of_every_method_in_plans_and_text() -> None:
    (entry,) = parse_entries('tent(statistics="clustered", label="tent_clustered")')
    assert entry.complete_settings(0)["statistics"] == "clustered"
    assert "statistics" not in Entry.make("tent", {"statistics": None}).complete_settings(0)
    with pytest.raises(ValueError, match=r"statistics must be 'clustered', 'clustered-batch', .* got 'bacth'"):
        Entry.make("tent", {"statistics": "bacth"})
