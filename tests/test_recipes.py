"""The recipe that trained the embedded network: resumes exactly, packs what it trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import train_cifar10 as recipe_module
from numpy.typing import NDArray

from midway.models import Card
from midway.models.checkpoints import read_state_dict
from midway.models.zoo import ASSETS

RECIPE = recipe_module.Recipe(depth=10, width=1, crops=((1, 24), (1, 28), (1, 32)), batch_size=32)


@pytest.fixture
def _toy_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def arrays(root: Path | None, split: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        rng = np.random.default_rng(len(split))
        return rng.integers(0, 256, (64, 32, 32, 3), dtype=np.uint8), rng.integers(0, 10, 64)

    monkeypatch.setattr(recipe_module, "arrays", arrays)


@pytest.mark.usefixtures("_toy_data")
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    straight = recipe_module.train(RECIPE, None, tmp_path / "straight").state_dict()
    recipe_module.train(RECIPE, None, tmp_path / "resumed", stop_after=1)
    recipe_module.train(RECIPE, None, tmp_path / "resumed", stop_after=2)
    resumed = recipe_module.train(RECIPE, None, tmp_path / "resumed").state_dict()
    assert all(torch.equal(value, resumed[key]) for key, value in straight.items())
    assert len((tmp_path / "resumed" / "log.jsonl").read_text().splitlines()) == 3
    with pytest.raises(SystemExit, match="other settings"):
        recipe_module.train(recipe_module.Recipe(), None, tmp_path / "resumed")


@pytest.mark.usefixtures("_toy_data")
def test_export_writes_weights_and_card(tmp_path: Path) -> None:
    model = recipe_module.train(RECIPE, None, tmp_path / "run", stop_after=0)
    card = recipe_module.export(model, RECIPE, None, tmp_path)
    assert Card.read(tmp_path / "wrn16_2.cifar10.json") == card
    stored = read_state_dict(tmp_path / card.file)
    assert all(torch.equal(value, stored[key]) for key, value in model.state_dict().items())


def test_the_schedule() -> None:
    recipe = recipe_module.Recipe()
    assert recipe.lr_at(0) == 0
    assert recipe.lr_at(recipe.warmup) == pytest.approx(recipe.peak_lr)
    assert recipe.lr_at(1) == 0
    assert [recipe.crop_at(epoch) for epoch in (0, recipe.epochs - 1)] == [24, 32]
    with pytest.raises(IndexError):
        recipe.crop_at(recipe.epochs)


@pytest.mark.parametrize("pixels", [24, 28, 32])
def test_augmented_crops_come_from_the_image(pixels: int) -> None:
    """Without cutout, every crop is found in the padded image or its mirror image."""
    image = np.arange(40 * 40 * 3, dtype=np.uint32).reshape(1, 40, 40, 3)
    code = (image % 251).astype(np.uint8)
    crops = recipe_module.augment(code.repeat(20, 0), pixels, 0, np.random.default_rng(0))
    assert crops.shape == (20, 3, pixels, pixels)
    play = range(4 - (pixels - 24) // 2, 13 - (pixels - 24) // 2)
    windows = [code[0, t : t + pixels, c : c + pixels] for t in play for c in play]
    known = {w.tobytes() for w in windows} | {np.ascontiguousarray(w[:, ::-1]).tobytes() for w in windows}
    for crop in crops:
        assert (crop * 255).round().byte().permute(1, 2, 0).contiguous().numpy().tobytes() in known


def test_the_log_of_the_embedded_network_is_kept() -> None:
    card = Card.read(ASSETS / "wrn16_2.cifar10.json")
    log = Path(recipe_module.__file__).parent / "logs" / "wrn16_2.cifar10.jsonl"
    lines = log.read_text().splitlines()
    assert len(lines) == recipe_module.Recipe().epochs
    assert f'"test_accuracy": {card.clean_accuracy}' in lines[-1]
