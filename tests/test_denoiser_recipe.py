"""The recipe that trained the embedded denoiser: resumes exactly, packs what it trained."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import train_denoiser as recipe_module
from numpy.typing import NDArray

from midway.models import DenoiserCard, denoiser_cards
from midway.models.checkpoints import read_state_dict

RECIPE = recipe_module.Recipe(widths=(8, 8), blocks=(1, 1), images=48, batch_size=8, warmup=2, averaging=0.5)


@pytest.fixture(autouse=True)
def _toy_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def arrays(root: Path | None, split: str) -> NDArray[np.uint8]:
        return np.random.default_rng(len(split)).integers(0, 256, (16, 8, 8, 3), dtype=np.uint8)

    monkeypatch.setattr(recipe_module, "arrays", arrays)


def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    straight = recipe_module.train(RECIPE, None, tmp_path / "straight").state_dict()
    recipe_module.train(replace(RECIPE, images=80), None, tmp_path / "resumed", stop_after=3)  # before the rate falls
    resumed = recipe_module.train(RECIPE, None, tmp_path / "resumed").state_dict()
    assert all(torch.equal(value, resumed[key]) for key, value in straight.items())
    assert len((tmp_path / "resumed" / "log.jsonl").read_text().splitlines()) == 2
    with pytest.raises(SystemExit, match="other settings"):
        recipe_module.train(recipe_module.Recipe(), None, tmp_path / "resumed")


def test_training_lowers_the_loss(tmp_path: Path) -> None:
    recipe_module.train(replace(RECIPE, images=320, lr=5e-3), None, tmp_path, every=10)
    losses = [json.loads(line)["train_loss"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert len(losses) == 4
    assert losses[-1] < 0.95 * losses[0]


def test_export_writes_weights_and_card(tmp_path: Path) -> None:
    denoiser = recipe_module.train(RECIPE, None, tmp_path / "run", stop_after=1)
    card = recipe_module.export(denoiser, RECIPE, None, tmp_path / "assets")
    read = DenoiserCard.read(tmp_path / "assets" / "unet.cifar10.json")
    assert (read.name, read.sha256, read.arguments) == (card.name, card.sha256, card.arguments)
    stored = read_state_dict(tmp_path / "assets" / card.file)
    assert all(value.dtype == torch.float16 for value in stored.values())
    assert all(torch.equal(value, stored[key].float()) for key, value in denoiser.state_dict().items())


def test_the_learning_rate() -> None:
    recipe = recipe_module.Recipe(images=64_000, batch_size=64, warmup=100, cooldown=0.25)
    assert [recipe.lr_at(step) / recipe.lr for step in (0, 99, 500, 750, 875, 1000)] == pytest.approx(
        [0.01, 1, 1, 1, 0.5, 0]
    )


def test_the_measurement_by_hand() -> None:
    """A denoiser that predicts no noise has the error 1, and its images the PSNR of the noisy ones."""

    class Nothing(recipe_module.Denoiser):
        def forward(self, noisy: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            return torch.zeros_like(noisy)

    images = recipe_module.arrays(None, "test")
    measured = recipe_module.measure(Nothing(widths=(8,), blocks=(1,)), images)
    for level in recipe_module.LEVELS:
        assert measured["loss"][str(level)] == pytest.approx(1, rel=0.1)
        assert measured["psnr"][str(level)] == pytest.approx(measured["noisy_psnr"][str(level)], abs=0.5)


def test_the_log_of_the_embedded_denoiser_is_kept() -> None:
    card = denoiser_cards()[0]
    log = Path(recipe_module.__file__).parent / "logs" / "unet.cifar10.jsonl"
    last = json.loads(log.read_text().splitlines()[-1])
    assert last["images"] == recipe_module.Recipe().images
    assert f"images={last['images']}," in card.recipe
    for level, loss in card.quality["loss"].items():  # the card has more images
        assert loss == pytest.approx(last["loss"][level], rel=0.1)
