"""The recipe that trained the network with a rotation head: resumes exactly, starts near the embedded network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import train_ttt
from numpy.typing import NDArray

import midway
from midway.models import Card, RotationWideResNet, WideResNet
from midway.models.checkpoints import read_state_dict
from midway.models.zoo import ASSETS

RECIPE = train_ttt.Recipe(crops=((2, 24), (1, 32)), batch_size=4, turned=1)


@pytest.fixture
def _toy_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def arrays(root: Path | None, split: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        rng = np.random.default_rng(len(split))
        return rng.integers(0, 256, (24, 32, 32, 3), dtype=np.uint8), rng.integers(0, 10, 24)

    monkeypatch.setattr(train_ttt, "arrays", arrays)
    monkeypatch.setattr(train_ttt, "CHECKPOINT_EVERY", 1)


@pytest.mark.usefixtures("_toy_data")
def test_a_resumed_run_ends_with_the_same_bits_and_is_packed(tmp_path: Path) -> None:
    straight = train_ttt.train(RECIPE, None, tmp_path / "straight")
    train_ttt.train(RECIPE, None, tmp_path / "resumed", stop_after=2)
    resumed = train_ttt.train(RECIPE, None, tmp_path / "resumed").state_dict()
    assert all(torch.equal(value, resumed[key]) for key, value in straight.state_dict().items())
    assert len((tmp_path / "resumed" / "log.jsonl").read_text().splitlines()) == 3
    with pytest.raises(SystemExit, match="other settings"):
        train_ttt.train(replace(RECIPE, seed=1), None, tmp_path / "resumed")
    card = train_ttt.export(straight, RECIPE, None, tmp_path)
    assert Card.read(tmp_path / "wrn16_2_rotation.cifar10.json") == card
    stored = read_state_dict(tmp_path / card.file)
    assert all(torch.equal(value, stored[key].float()) for key, value in straight.state_dict().items())


def test_group_norm_starts_with_the_means_and_deviations_of_batch_norm() -> None:
    torch.manual_seed(0)
    source, images = WideResNet(depth=10, width=1), torch.rand(16, 3, 16, 16)
    for module in source.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.uniform_(module.bias, -0.5, 0.5)
    network = RotationWideResNet(depth=10, width=1)
    train_ttt.warm_start(network, source, images)
    deviation, mean = torch.std_mean(network.bn1(network.block3(network.features(images))), dim=(0, 2, 3))
    torch.testing.assert_close(mean, source.bn1.bias, rtol=0, atol=1e-4)
    torch.testing.assert_close(deviation, source.bn1.weight, rtol=1e-3, atol=1e-4)
    for name in ("conv1.weight", "block2.layer.0.conv2.weight", "fc.bias"):
        assert torch.equal(network.state_dict()[name], source.state_dict()[name])
    assert torch.equal(network.rotation.block3.layer[0].conv1.weight, source.block3.layer[0].conv1.weight)


def test_every_rotation_has_the_same_weight() -> None:
    torch.manual_seed(0)
    network = RotationWideResNet(depth=10, width=1)
    images, labels = torch.rand(7, 3, 16, 16), torch.tensor([3, 1])
    turned = train_ttt.turn(images[2:5])
    for row, turns in enumerate((1, 2, 3)):
        assert torch.equal(turned[row], images[2 + row].rot90(turns, (1, 2)))
    classes, rotations = train_ttt.joint_loss(network, images[:2], labels, turned)
    torch.testing.assert_close(classes, F.cross_entropy(network(images[:2]), labels))
    upright = -network.rotation_logits(images[:2]).log_softmax(dim=1)[:, 0].mean()
    others = [-network.rotation_logits(turned[i : i + 1]).log_softmax(dim=1)[0, i + 1] for i in range(3)]
    torch.testing.assert_close(rotations, (upright + sum(others)) / 4)


def test_the_schedule() -> None:
    recipe = train_ttt.Recipe()
    assert recipe.lr_at(50) == recipe.peak_lr
    assert recipe.lr_at(25) == pytest.approx(recipe.peak_lr / 2)
    assert (recipe.lr_at(0), recipe.lr_at(recipe.steps)) == (0, 0)
    assert [recipe.crop_at(step) for step in (0, recipe.steps - 1)] == [24, 32]


def test_the_embedded_network_is_the_one_that_was_trained() -> None:
    card = Card.read(ASSETS / "wrn16_2_rotation.cifar10.json")
    assert f"{train_ttt.Recipe()}" in card.recipe
    log = Path(train_ttt.__file__).parent / "logs" / "wrn16_2_rotation.cifar10.jsonl"
    assert f'"step": {train_ttt.Recipe().steps},' in log.read_text().splitlines()[-1]
    mini = midway.data.load("cifar10-mini")
    images = torch.from_numpy(np.array(mini.images[:64])).permute(0, 3, 1, 2).float() / 255
    network = midway.models.load("wrn16_2_rotation.cifar10")
    with torch.no_grad():
        right = (network(images).argmax(dim=1).numpy() == mini.labels[:64]).mean()  # type: ignore[attr-defined]
        turned = [network.rotation_logits(images.rot90(turns, (2, 3))).argmax(dim=1) == turns for turns in range(4)]
    assert right > 0.75
    assert torch.cat(turned).float().mean() > 0.5
