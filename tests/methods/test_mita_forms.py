"""The three forms of MITA (as printed, as published, the default) against the plain implementation, and their parts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plain_mita import PlainMITA
from torch import Tensor, nn

import midway
from midway.adaptation.adapt import preset
from midway.adaptation.energy import class_balance, step_scale
from midway.cost import measure_cost
from midway.functional import exchange_top, log_mean_softmax
from midway.testing import batches, tiny_network

PRESETS = ("printed", "published", None)
STEP: dict[str, Any] = {"data_step_size": 2.0}  # large enough to change classes of a tiny network


def plain_settings(name: str | None) -> dict[str, Any]:
    """Return all settings of a preset that the plain implementation has."""
    settings = midway.methods.hyperparameters("mita") | (preset("mita", name) if name else {})
    return {key: settings[key] for key in PLAIN}


DEFAULTS: dict[str, Any] = PlainMITA.__init__.__kwdefaults__ or {}
PLAIN = {*DEFAULTS} - {"like"}


@pytest.mark.parametrize("classes", [4, 20])  # more than ten shorten the steps of the default
@pytest.mark.parametrize("name", PRESETS)
def test_each_form_agrees_with_the_plain_implementation_in_double_precision(name: str | None, classes: int) -> None:
    settings = plain_settings(name) | STEP | {"seed": 4, "lr": 1e-2}
    plain = PlainMITA(tiny_network(classes=classes).double(), like=torch.channels_last, **settings)
    mita = midway.MITA(tiny_network(classes=classes).double(), **settings)
    for images in batches(5):
        torch.testing.assert_close(mita(images.double()), plain(images.double()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("data_model", ["single", "persistent"])
@pytest.mark.parametrize("langevin_steps", [0, 2])
@pytest.mark.parametrize("samples", [0, 5])
def test_the_parts_of_the_default_agree_with_the_plain_implementation(
    data_model: str, langevin_steps: int, samples: int
) -> None:
    settings = plain_settings(None) | STEP | {"data_model": data_model, "samples": samples, "data_model_steps": 2}
    settings |= {"langevin_steps": langevin_steps, "buffer_size": 20, "data_steps": 2, "source_share": 0.1}
    plain = PlainMITA(tiny_network().double(), like=torch.channels_last, **settings)
    mita = midway.MITA(tiny_network().double(), **settings)
    for images in batches(3):
        torch.testing.assert_close(mita(images.double()), plain(images.double()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("gradient_filter", ["spectral", None])
@pytest.mark.parametrize("data_steps", [1, 2])
def test_steps_that_promise_too_much_are_shortened_as_in_the_plain_implementation(
    gradient_filter: str | None, data_steps: int
) -> None:
    settings = plain_settings(None) | STEP | {"gradient_filter": gradient_filter, "data_steps": data_steps}
    settings |= {"largest_decrease": 0.002}
    plain = PlainMITA(tiny_network().double(), like=torch.channels_last, **settings)
    mita = midway.MITA(tiny_network().double(), **settings)
    for images in batches(3):
        torch.testing.assert_close(mita(images.double()), plain(images.double()), rtol=1e-5, atol=1e-6)
    assert 0 < mita.diagnostics["shortened_steps"] < 3 * len(images)


def test_steps_that_are_not_shortened_do_not_change_by_a_bit() -> None:
    images = batches(1)[0]
    limited, free = (midway.MITA(tiny_network(), largest_decrease=limit, **STEP) for limit in (0.002, None))
    for method in (limited, free):
        method(images)
    assert limited.adapted_images is not None
    same = limited.adapted_images.eq(free.adapted_images).flatten(1).all(dim=1)
    assert same.sum() == len(images) - limited.diagnostics["shortened_steps"] > 0
    assert "shortened_steps" not in free.diagnostics


def test_the_plain_implementation_has_the_settings_of_the_printed_preset() -> None:
    printed = plain_settings("printed") | {"predictor_share": 1.0}  # without effect on two models
    assert {key: DEFAULTS[key] for key in PLAIN} == printed


@pytest.mark.parametrize(
    ("name", "backward"),
    [("printed", (1 + 4) * (1 + 2) + 1), ("published", (1 + 1) * (1 + 2) + 1)],  # (N + N~) (T + 2) + Td
)
def test_the_paper_forms_take_the_passes_of_the_paper(name: str, backward: int) -> None:
    mita = midway.adapt(tiny_network(), "mita", preset=name)
    cost = measure_cost(mita, batches(1)[0], repeats=0)
    assert (cost.forward_passes, cost.backward_passes) == (backward + 1, backward)
    assert isinstance(mita, midway.MITA)
    assert mita.data_model_ada is not None
    assert mita.data_model_ada.optimizer.param_groups[0]["lr"] == mita.hyperparameters["lr"]


def test_the_default_takes_two_forward_passes_and_one_backward_pass_and_those_of_the_samples() -> None:
    images = torch.rand(32, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    mita = midway.MITA(tiny_network())
    mita(images)  # the first batch has a trial pass
    cost = measure_cost(mita, images, repeats=0)
    assert (cost.forward_passes, cost.backward_passes) == (1 + 16 / 32 + 1, 1 + 16 / 32)


def test_only_mita_has_a_printed_form() -> None:
    with pytest.raises(ValueError, match='tent has no preset "printed"'):
        midway.adapt(tiny_network(), "tent", preset="printed")


# ---- the predictor between source and data model --------------------------------------------------------------------


def weights(network: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in network.parameters() if parameter.requires_grad]


@pytest.mark.parametrize(
    ("settings", "models"),
    [
        ({}, 1),
        ({"preset": "published"}, 2),
        ({"data_model": "same"}, 1),
        ({"adapt_data": False}, 1),
        ({"adapt_model": False}, 0),
    ],
)
def test_the_weights_that_take_steps_are_counted(settings: dict[str, Any], models: int) -> None:
    network = tiny_network()
    assert midway.adapt(network, "mita", **settings).num_trainable() == models * midway.Tent(network).num_trainable()


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_the_predictor_is_a_share_of_the_way_to_the_data_model(share: float) -> None:
    mita = midway.MITA(tiny_network(), predictor_share=share)
    source = weights(mita.model)
    for images in batches(2):
        mita(images)
    far = weights(mita.data_model)
    assert any(not torch.equal(a, b) for a, b in zip(source, far, strict=True))
    for now, start, end in zip(weights(mita.model), source, far, strict=True):
        torch.testing.assert_close(now, start + share * (end - start))


def test_the_source_share_pulls_the_weights_back_by_hand() -> None:
    free, pulled = (midway.MITA(tiny_network(), source_share=share) for share in (0.0, 0.25))
    source = weights(free.model)
    images = batches(1)[0]
    free(images)
    pulled(images)
    for start, there, back in zip(source, weights(free.data_model), weights(pulled.data_model), strict=True):
        torch.testing.assert_close(back, 0.75 * there + 0.25 * start)


# ---- steps by uncertainty -------------------------------------------------------------------------------------------


def test_the_share_of_a_full_step_by_hand() -> None:
    certain, doubtful = torch.tensor([[0.96, 0.04]]).log(), torch.tensor([[0.6, 0.4]]).log()
    assert step_scale(certain) == pytest.approx((0.04 / 0.2) ** 2, rel=1e-4)
    assert step_scale(torch.cat([certain, doubtful])) == 1.0  # (0.04 + 0.4) / 2 is above 0.2
    for classes, share in ((10, 1.0), (100, 1 / 4), (1000, 1 / 9)):  # uniform predictions: only the classes count
        assert step_scale(torch.zeros(3, classes)) == pytest.approx(share)


def test_images_do_not_move_where_the_network_is_certain() -> None:
    network = tiny_network()
    with torch.no_grad():
        list(network.parameters())[-2].mul_(1000)  # the weights of the head
    moves = []
    for by_uncertainty in (True, False):
        mita = midway.MITA(network, by_uncertainty=by_uncertainty)
        mita(batches(1)[0])
        moves.append(mita.diagnostics["displacement"])
    assert 0 <= moves[0] < 0.5 * moves[1]


# ---- balanced classes -----------------------------------------------------------------------------------------------


def test_the_weights_of_images_by_hand() -> None:
    logits = torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.25, 0.75]]).log()
    shares = (1.25 / 3, 1.75 / 3)
    raw = [0.5 / (shares[0] + 1 / 3) + 0.5 / (shares[1] + 1 / 3)] * 2
    raw.append(0.25 / (shares[0] + 1 / 3) + 0.75 / (shares[1] + 1 / 3))
    torch.testing.assert_close(class_balance(logits), torch.tensor(raw) * 3 / sum(raw))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_certain_images_of_all_classes_count_alike_up_to_one_image_more_of_each(labels: list[int]) -> None:
    weights = class_balance(100 * torch.eye(5)[labels])
    counts = torch.tensor(labels).bincount(minlength=5)
    assert float(weights.mean()) == pytest.approx(1)
    for label, weight in zip(labels, weights.tolist(), strict=True):
        for other, its_weight in zip(labels, weights.tolist(), strict=True):
            assert weight * (counts[label] + 1) == pytest.approx(its_weight * float(counts[other] + 1), rel=1e-4)


def test_equal_predictions_change_no_weight() -> None:
    assert torch.allclose(class_balance(torch.zeros(7, 3)), torch.ones(7))


# ---- confidence -----------------------------------------------------------------------------------------------------


def test_exchanged_values_by_hand() -> None:
    logits = torch.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0], [1.0, 2.0, 3.0]])
    answers = torch.tensor([[0.0, 9.0, 1.0], [0.0, 1.0, 0.0], [8.0, 0.0, 7.0]])
    expected = torch.tensor([[1.0, 3.0, 2.0], [0.0, 5.0, 4.0], [3.0, 2.0, 1.0]])
    assert torch.equal(exchange_top(logits, answers), expected)


@pytest.mark.parametrize(
    "form", [{}, {"data_model": "persistent"}, {"data_model": "same", "shared_gradient": False}, {"adapt_model": False}]
)
def test_the_class_is_that_of_the_adapted_image_and_the_confidence_that_of_the_image_as_given(
    form: dict[str, Any],
) -> None:
    kept, plain = (midway.MITA(tiny_network(), keep_confidence=keep, **STEP, **form) for keep in (True, False))
    changed = 0
    for images in batches(3):
        first, second = kept(images), plain(images)
        assert torch.equal(first.argmax(dim=1), second.argmax(dim=1))
        if form.get("adapt_model") is False:  # the source answers, and its confidence is known
            with torch.no_grad():
                torch.testing.assert_close(first.sort().values, tiny_network()(images).sort().values)
        changed += int((first != second).any(dim=1).sum())
    assert changed
    for a, b in zip(kept.parameters(), plain.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_confidence_of_the_default_is_that_of_the_data_model_before_its_update() -> None:
    mita = midway.MITA(tiny_network(), **STEP)
    for images in batches(2):
        with torch.no_grad():
            before = mita.data_model(images).softmax(dim=1)
        answer = mita(images).softmax(dim=1)
        torch.testing.assert_close(answer.sort().values, before.sort().values)


def test_mirrored_answers_keep_the_confidence_too() -> None:
    mita, mirrored = midway.MITA(tiny_network(), **STEP), midway.Mirrored(midway.MITA(tiny_network(), **STEP))
    for images in batches(2):
        alone, both = mita(images), mirrored(images)
        torch.testing.assert_close(alone.sort().values, both.sort().values)
        assert mita.adapted_images is not None
        with torch.no_grad():
            views = [mita.model(mita.adapted_images), mita.model(mita.adapted_images.flip(-1))]
        assert torch.equal(both.argmax(dim=1), log_mean_softmax(views).argmax(dim=1))
