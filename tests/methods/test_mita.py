"""TEA and MITA against a second implementation, written plainly from the paper's algorithms."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from plain_mita import PlainMITA
from torch import Tensor, nn

import midway
from midway.sampling import ReplayBuffer, SpectralFilter
from midway.testing import Norm, batches, tiny_network

TWO_MODELS: dict[str, Any] = {
    "data_model": "persistent",
    "samples": 0,
    "shared_gradient": False,
    "by_uncertainty": False,
    "balance_classes": False,
    "keep_confidence": False,
    "source_share": 0.0,
}
SHARED: dict[str, Any] = {
    "langevin_step_size": 0.2,
    "langevin_noise": 0.01,
    "shared_pass": True,
    "lr": 1e-2,
    "buffer_size": 40,
    "reinit_probability": 0.25,
    "seed": 4,
}


def energy(model: nn.Module, x: Tensor) -> Tensor:
    return -torch.log(torch.exp(model(x)).sum(dim=1))


@pytest.mark.parametrize("gradient_filter", ["spectral", None])
@pytest.mark.parametrize("shared_pass", [False, True])
@pytest.mark.parametrize("langevin_steps", [0, 1, 2])
@pytest.mark.parametrize("data_model", ["persistent", "fresh"])
def test_mita_agrees_with_the_plain_implementation_over_batches(
    data_model: str, langevin_steps: int, shared_pass: bool, gradient_filter: str | None
) -> None:
    settings = (
        SHARED | TWO_MODELS | {"data_model_steps": 3, "data_steps": 2, "data_step_size": 0.5, "data_model_lr": 2e-2}
    )
    settings |= {"data_model": data_model}
    settings |= {"langevin_steps": langevin_steps, "shared_pass": shared_pass, "gradient_filter": gradient_filter}
    plain = PlainMITA(tiny_network(), like=torch.channels_last, **settings)
    mita = midway.MITA(tiny_network(), **settings)
    for images in batches(4):
        torch.testing.assert_close(mita(images), plain(images), rtol=1e-3, atol=1e-4)


def test_tea_agrees_with_the_plain_implementation_over_batches() -> None:
    settings = SHARED | {"langevin_steps": 3}
    plain = PlainMITA(
        tiny_network(), like=torch.channels_last, predictor_steps=2, data_model_steps=0, data_steps=0, **settings
    )
    tea = midway.TEA(tiny_network(), steps=2, **settings)
    for images in batches(4):
        torch.testing.assert_close(tea(images), plain(images), rtol=1e-3, atol=1e-4)


def test_without_data_is_tea() -> None:
    tea = midway.TEA(tiny_network(), steps=2, langevin_steps=2, **SHARED)
    mita = midway.MITA(tiny_network(), predictor_steps=2, langevin_steps=2, adapt_data=False, **SHARED, **TWO_MODELS)
    for images in batches(3):
        assert torch.equal(mita(images), tea(images))


def test_without_model_the_source_answers_images_moved_down_its_energy() -> None:
    network, images = tiny_network(), batches(1)[0]
    mita = midway.MITA(
        network,
        adapt_model=False,
        data_step_size=0.5,
        gradient_filter=None,
        by_uncertainty=False,
        keep_confidence=False,
    )
    x = images.clone().requires_grad_()
    moved = images - 0.25 * torch.autograd.grad(energy(network, x).sum(), x)[0]
    torch.testing.assert_close(mita(images), network(moved).detach())
    assert mita.adapted_images is not None
    torch.testing.assert_close(mita.adapted_images, moved)


def test_same_uses_one_model_and_takes_no_further_steps() -> None:
    settings = SHARED | TWO_MODELS | {"data_model": "same", "gradient_filter": None}
    mita = midway.MITA(tiny_network(), data_step_size=0.5, langevin_steps=2, **settings)
    tea = midway.TEA(tiny_network(), langevin_steps=2, **SHARED)
    images = batches(1)[0]
    logits = mita(images)
    tea(images)
    x = images.contiguous(memory_format=torch.channels_last).requires_grad_()
    moved = x.detach() - 0.25 * torch.autograd.grad(energy(tea.model, x).sum(), x)[0]
    with torch.no_grad():
        torch.testing.assert_close(logits, tea.model(moved))
    assert mita.data_model is mita.model


def test_a_fresh_data_model_takes_further_steps_of_its_own() -> None:
    settings = SHARED | {"predictor_steps": 2, "keep_confidence": False}
    fresh = midway.MITA(tiny_network(), data_model="fresh", data_model_steps=4, **settings)
    same = midway.MITA(tiny_network(), data_model="same", **settings)
    images = batches(1)[0]
    assert not torch.equal(fresh(images), same(images))
    assert fresh.data_model_ada is not None
    assert fresh.data_model_ada.optimizer.param_groups[0]["lr"] == SHARED["lr"]
    with pytest.raises(ValueError, match=r"data_model_steps \(1\) must be more than predictor_steps \(1\)"):
        midway.MITA(tiny_network(), data_model="fresh")  # it would be the predictor


@pytest.mark.parametrize("method", [midway.TEA, midway.MITA])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("block", [False, True])
def test_the_network_runs_in_bf16_if_the_method_or_the_caller_asks_for_it(
    method: type[midway.TEA | midway.MITA], precision: Literal["float32", "bf16"], block: bool
) -> None:
    adapted = method(tiny_network(), langevin_steps=1, precision=precision)
    adapted(batches(1)[0])  # the first batch has a trial pass
    types = set()
    adapted.model[0].register_forward_hook(lambda _, __, output: types.add(output.dtype))  # type: ignore[index]
    with torch.autocast("cpu", torch.bfloat16, enabled=block):
        logits = adapted(batches(1)[0])
    assert types == {torch.bfloat16 if block or precision == "bf16" else torch.float32}
    assert logits.dtype == torch.float32


def test_moving_images_never_changes_the_models_path() -> None:
    still, moving = (midway.MITA(tiny_network(), data_step_size=size, **SHARED) for size in (0.0, 5.0))
    for images in batches(3):
        still(images)
        moving(images)
    for a, b in zip(still.parameters(), moving.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_second_model_shares_what_is_frozen() -> None:
    mita = midway.MITA(tiny_network())
    pairs = zip(mita.model.named_parameters(), mita.data_model.named_parameters(), strict=True)
    shared = {name: mine.data_ptr() == theirs.data_ptr() for (name, mine), (_, theirs) in pairs}
    assert shared == {name: name.split(".")[0] not in ("1", "4") for name in shared}


@pytest.mark.parametrize("norm", ["batch", "layer", "group", "instance"])
def test_every_norm_one_channel_and_large_images(norm: Norm) -> None:
    for channels, side in ((1, 16), (3, 64)):
        mita = midway.MITA(tiny_network(norm, channels=channels))
        images = batches(1, channels=channels, side=side)[0]
        assert mita(images).isfinite().all()
        assert mita.adapted_images is not None
        assert mita.adapted_images.shape == images.shape


def test_permuting_the_batch_permutes_the_answers() -> None:
    """The chains are no part of the batch, so the same chains meet the permuted images."""
    images = batches(1)[0]
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    straight, permuted = (midway.MITA(tiny_network(), data_step_size=0.5, **SHARED) for _ in range(2))
    torch.testing.assert_close(straight(images)[order], permuted(images[order]), rtol=1e-3, atol=1e-4)


def test_diagnostics_tell_energies_gap_and_move() -> None:
    mita = midway.MITA(tiny_network(), data_step_size=0.5, **TWO_MODELS)
    images = batches(1)[0]
    mita(images)
    seen = mita.diagnostics
    assert seen["energy_gap"] == pytest.approx(seen["energy_images"] - seen["energy_samples"])
    assert {"data_model_energy_images", "data_model_energy_samples", "data_model_energy_gap"} < set(seen)
    assert mita.adapted_images is not None
    assert seen["displacement"] == pytest.approx((mita.adapted_images - images).flatten(1).norm(dim=1).mean().item())
    assert "skipped_steps" not in seen


def test_diverging_sampling_neither_poisons_the_model_nor_the_answer() -> None:
    """A huge Langevin step throws chains to infinity: they stay, are counted, and the batch gets its answer."""
    mita = midway.MITA(tiny_network("layer"), langevin_steps=3, langevin_step_size=1e38, langevin_noise=1e38, samples=6)
    images = batches(1)[0]
    logits = mita(images)
    assert logits.isfinite().all()
    assert mita.diagnostics["stalled_steps"] > 0
    assert all(p.isfinite().all() for p in mita.parameters())


def test_chains_that_ran_to_infinity_start_again() -> None:
    steps: dict[str, Any] = {"predictor_steps": 4, "data_model_steps": 4}
    settings = TWO_MODELS | {"langevin_steps": 1, "buffer_size": 6, "reinit_probability": 0.0}
    mita = midway.MITA(tiny_network(), **settings, **steps)
    first, second, third = batches(3)
    mita(first)
    for ada in (mita.predictor_ada, mita.data_model_ada):
        assert ada is not None
        assert isinstance(ada.buffer, ReplayBuffer)
        assert ada.buffer._images is not None
        ada.buffer._images[:3] = float("inf")
    mita(second)
    skipped = mita.diagnostics["stalled_steps"]
    assert skipped > 0
    mita(third)
    assert mita.diagnostics["stalled_steps"] == skipped


def test_bf16_is_close_and_refused_by_a_wrong_name() -> None:
    images = batches(1)[0]
    exact, rough = (midway.MITA(tiny_network(), precision=precision) for precision in ("float32", "bf16"))
    difference = (exact(images) - rough(images)).abs().max()
    assert 0 < difference < 0.1
    assert rough(images).dtype == torch.float32
    assert all(p.dtype == torch.float32 for p in rough.parameters())
    with pytest.raises(ValueError, match="precision must be"):
        midway.MITA(tiny_network(), precision="fp8")  # type: ignore[arg-type]


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="must be at least 1, got 0, 1 and 1"):
        midway.MITA(tiny_network(), predictor_steps=0)
    with pytest.raises(ValueError, match="gradient_filter must be 'spectral' or None, got 'metres'"):
        midway.MITA(tiny_network(), gradient_filter="metres")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="largest_decrease must be above 0, or None for no limit, got 0"):
        midway.MITA(tiny_network(), largest_decrease=0)
    with pytest.raises(ValueError, match="data_model must be"):
        midway.MITA(tiny_network(), data_model="other")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="continues from the predictor"):
        midway.MITA(tiny_network(), data_model="fresh", predictor_steps=3, data_model_steps=2)
    with pytest.raises(ValueError, match="predictor_share must be between 0 and 1, got 2"):
        midway.MITA(tiny_network(), predictor_share=2)
    with pytest.raises(ValueError, match="source_share must be between 0 and 1, got -1"):
        midway.MITA(tiny_network(), source_share=-1)
    with pytest.raises(ValueError, match="samples and buffer_size must be 0 or more, got -1 and 0"):
        midway.MITA(tiny_network(), samples=-1)
    with pytest.raises(ValueError, match="data_step_size must be 0 or more, got -1"):
        midway.MITA(tiny_network(), data_step_size=-1)
    with pytest.raises(ValueError, match="langevin_steps must be 0 or more"):
        midway.TEA(tiny_network(), langevin_steps=-1)
    with pytest.raises(ValueError, match="steps must be at least 1"):
        midway.TEA(tiny_network(), steps=0)


def test_with_clustered_statistics_each_kind_has_a_filter_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    filters: list[SpectralFilter] = []

    def spectral_filter(images: Tensor, shares: Tensor | None) -> SpectralFilter:
        filters.append(SpectralFilter(images, shares))
        return filters[-1]

    monkeypatch.setattr("midway.adaptation.data_ada.SpectralFilter", spectral_filter)
    torch.manual_seed(0)
    noise = torch.rand(100, 3, 32, 32)
    images = torch.cat([noise, torch.rand(100, 3, 4, 4).repeat_interleave(8, 2).repeat_interleave(8, 3)])
    for statistics in ("clustered", None):
        midway.adapt(midway.models.create("resnet20"), "mita", statistics=statistics)(images)
    by_kind, of_batch = filters
    torch.testing.assert_close(by_kind.gain[:100], SpectralFilter(noise).gain.expand(100, -1, -1, -1))
    assert by_kind.gain[100:, 0, -1, -1].max() < by_kind.gain[:100, 0, -1, -1].min()  # fine detail
    assert len(of_batch.gain) == 1
