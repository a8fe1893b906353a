from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from typer.testing import CliRunner

import midway
from midway import models
from midway._files import file_digest
from midway.cli import app
from midway.models import CheckpointError, CifarResNet, Normalize, WideResNet
from midway.models.checkpoints import load_weights, read_state_dict
from midway.models.zoo import ASSETS, Card, _load_card
from midway.testing import tiny_network

SHARED_WEIGHTS = Path(__file__).parents[3] / "shared" / "weights"


@pytest.mark.parametrize(
    ("model", "million"),
    [
        (WideResNet(depth=16, width=2), 0.6917),
        (CifarResNet(depth=20), 0.2725),
        (CifarResNet(depth=56), 0.8558),
    ],
    ids=["wrn16_2", "resnet20", "resnet56"],
)
def test_sizes_are_the_published_ones(model: nn.Module, million: float) -> None:
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, 4) == million


def test_wrn28_10_has_the_published_number_of_parameters() -> None:
    with torch.device("meta"):
        network = WideResNet(depth=28, width=10)
    assert sum(p.numel() for p in network.parameters()) == 36_479_194


def test_normalisation_is_part_of_the_model_and_not_of_the_state_dict() -> None:
    plain = CifarResNet(depth=8, mean=(0, 0, 0), std=(1, 1, 1)).eval()
    normalised = CifarResNet(depth=8, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4)).eval()
    normalised.load_state_dict(plain.state_dict())
    images = torch.rand(2, 3, 32, 32)
    mean, std = torch.tensor([0.5, 0.4, 0.3]).view(1, 3, 1, 1), torch.tensor([0.2, 0.3, 0.4]).view(1, 3, 1, 1)
    torch.testing.assert_close(normalised(images), plain((images - mean) / std))
    with pytest.raises(ValueError, match="one value per channel"):
        Normalize([0.5], [0.2, 0.3])
    with pytest.raises(ValueError, match="std must be positive"):
        Normalize([0.5], [0.0])
    with pytest.raises(ValueError, match=r"expected 3 channels, \(N, C, H, W\), got images \(2, 1, 32, 32\)"):
        normalised(images[:, :1])  # it would pass for three


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"6n \+ 4 .* got 17"):
        WideResNet(depth=17)
    with pytest.raises(ValueError, match=r"6n \+ 2 .* got 21"):
        CifarResNet(depth=21)
    with pytest.raises(ValueError, match="did you mean 'resnet56'"):
        models.create("resnet55")
    with pytest.raises(TypeError, match="did you mean 'classes'"):
        models.create("resnet20", class_count=10)


def small() -> nn.Module:
    torch.manual_seed(3)
    network = WideResNet(depth=10, width=1, classes=5)
    network(torch.rand(8, 3, 32, 32))
    return network.eval()


@pytest.mark.parametrize("layout", ["plain", "module.", "wrapped", "model.module.", "with constants", "old counters"])
def test_public_layouts_load_without_renaming(tmp_path: Path, layout: str) -> None:
    network = small()
    state = dict(network.state_dict())
    content: dict[str, object] = dict(state)
    if layout.endswith("."):
        content = {layout + key: value for key, value in state.items()}
    elif layout == "wrapped":
        content = {"epoch": 3, "state_dict": {"module." + key: value for key, value in state.items()}}
    elif layout == "with constants":
        content |= {"mean": torch.zeros(3), "std": torch.ones(3), "sub_block1.layer.0.bn1.weight": torch.ones(16)}
    elif layout == "old counters":
        content = {key: value for key, value in state.items() if not key.endswith("num_batches_tracked")}
    torch.save(content, tmp_path / "weights.pth")
    loaded = models.load(tmp_path / "weights.pth")
    images = torch.rand(2, 3, 32, 32)
    assert not loaded.training
    assert torch.equal(loaded(images), network(images))


def test_the_robustbench_standard_layout_has_our_keys() -> None:
    """Keys of the widely used WRN-28-10 "Standard" checkpoint, written down by hand."""
    with torch.device("meta"):
        keys = set(WideResNet(depth=28, width=10).state_dict())
    for key in (
        "conv1.weight",
        "block1.layer.0.bn1.weight",
        "block1.layer.0.convShortcut.weight",
        "block3.layer.3.conv2.weight",
        "bn1.running_mean",
        "fc.bias",
    ):
        assert key in keys
    assert "block1.layer.1.convShortcut.weight" not in keys
    assert len(keys) == 27 - 2 + 3 + 25 * 5 + 2


def test_safetensors_and_guessed_sizes(tmp_path: Path) -> None:
    network = CifarResNet(depth=20, classes=7).eval()
    save_file(network.state_dict(), tmp_path / "weights.safetensors")
    loaded = models.load(tmp_path / "weights.safetensors")
    assert isinstance(loaded, CifarResNet)
    images = torch.rand(2, 3, 32, 32)
    assert torch.equal(loaded(images), network(images))
    hundred = CifarResNet(depth=20, classes=100)
    save_file(hundred.state_dict(), tmp_path / "hundred.safetensors")
    constants = models.load(tmp_path / "hundred.safetensors").normalize
    assert isinstance(constants, Normalize)
    assert constants.mean.flatten().tolist() == pytest.approx([0.5070, 0.4865, 0.4409])


def test_stored_constants_are_used_unless_others_are_given(tmp_path: Path) -> None:
    stored = {"mean": torch.full((1, 3, 1, 1), 0.5), "std": torch.full((1, 3, 1, 1), 0.2)}
    torch.save({**small().state_dict(), **stored}, tmp_path / "weights.pth")
    for given, expected in (({}, [0.5] * 3), ({"mean": (0, 0, 0), "std": (1, 1, 1)}, [0.0] * 3)):
        constants = models.load(tmp_path / "weights.pth", **given).normalize
        assert isinstance(constants, Normalize)
        assert constants.mean.flatten().tolist() == expected
    torch.save(CifarResNet(depth=20, classes=100).state_dict(), tmp_path / "hundred.pth")
    named = models.load(tmp_path / "hundred.pth", architecture="resnet20", classes=100).normalize
    assert isinstance(named, Normalize)
    assert named.std.flatten().tolist() == pytest.approx([0.2673, 0.2564, 0.2762])


class Hostile:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.target),)


def test_a_pickle_with_code_in_it_is_refused_and_does_not_run(tmp_path: Path) -> None:
    torch.save({"weights": Hostile(tmp_path / "owned")}, tmp_path / "weights.pth")
    with pytest.raises(CheckpointError, match="could run code"):
        models.load(tmp_path / "weights.pth")
    assert not (tmp_path / "owned").exists()


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    state = small().state_dict()
    torch.save(state, tmp_path / "weights.pth")
    with pytest.raises(CheckpointError, match=r"does not fit CifarResNet: \d+ missing keys .*unexpected keys"):
        models.load(tmp_path / "weights.pth", architecture="resnet20")
    with pytest.raises(CheckpointError, match=r"fc.weight \(5, 64\) instead of \(9, 64\)"):
        models.load(tmp_path / "weights.pth", architecture="wide_resnet", depth=10, width=1, classes=9)
    damaged = (tmp_path / "weights.pth").read_bytes()[:5000]
    (tmp_path / "cut.pth").write_bytes(damaged)
    with pytest.raises(CheckpointError, match=r"cut\.pth"):
        models.load(tmp_path / "cut.pth")
    (tmp_path / "cut.safetensors").write_bytes(damaged)
    with pytest.raises(CheckpointError, match=r"cut\.safetensors cannot be read"):
        models.load(tmp_path / "cut.safetensors")
    torch.save({"weights": [1, 2]}, tmp_path / "numbers.pth")
    with pytest.raises(CheckpointError, match="expected a state dict"):
        models.load(tmp_path / "numbers.pth")
    torch.save({"head.weight": torch.ones(2, 2)}, tmp_path / "other.pth")
    with pytest.raises(CheckpointError, match="give architecture="):
        models.load(tmp_path / "other.pth")
    state["fc.bias"][0] = float("nan")
    torch.save(state, tmp_path / "nan.pth")
    with pytest.raises(CheckpointError, match=r"NaN or Inf in fc\.bias"):
        models.load(tmp_path / "nan.pth")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Tensor.to_sparse, "has a sparse, nested, quantised or empty tensor in 0.weight"),
        (lambda weight: weight.to("meta"), "has a sparse, nested, quantised or empty tensor in 0.weight"),
        (
            lambda weight: torch.quantize_per_tensor(weight, 0.1, 0, torch.qint8),
            "quantised or empty tensor in 0.weight",
        ),
        (lambda weight: torch.nested.nested_tensor(list(weight)), "quantised or empty tensor in 0.weight"),
        (lambda weight: weight.to(torch.complex64), "has complex64 in 0.weight, expected floating point"),
        (lambda weight: weight.to(torch.int8), "has int8 in 0.weight, expected floating point"),
        (lambda weight: weight.double() * 1e300, "has NaN or Inf in 0.weight"),
    ],
    ids=["sparse", "meta", "quantised", "nested", "complex", "integers", "too large"],
)
@pytest.mark.filterwarnings("ignore")
def test_weights_of_other_kinds_are_refused(tmp_path: Path, change: Callable[[Tensor], Tensor], message: str) -> None:
    path, network = tmp_path / "weights.pth", tiny_network()
    state = network.state_dict()
    torch.save(state | {"0.weight": change(state["0.weight"])}, path)
    with pytest.raises(CheckpointError, match=message):
        load_weights(network, read_state_dict(path), str(path))


def test_half_precision_in_a_checkpoint_is_converted(tmp_path: Path) -> None:
    path, network = tmp_path / "weights.pth", tiny_network()
    for dtype in (torch.float16, torch.bfloat16, torch.float8_e4m3fn):
        state = network.state_dict()
        torch.save(state | {"0.weight": state["0.weight"].to(dtype)}, path)
        load_weights(network, read_state_dict(path), str(path))
        assert network[0].weight.dtype is torch.float32  # type: ignore[index]


def test_unknown_names_get_the_nearest_match() -> None:
    with pytest.raises(ValueError, match=r"did you mean 'wrn16_2\.cifar10'"):
        models.load("wrn16_2.cifar")
    with pytest.raises(ValueError, match=r"midway\.models\.create creates it with untrained weights"):
        models.load("resnet20")
    with pytest.raises(TypeError, match="fixed by its card"):
        models.load("wrn16_2.cifar10", classes=3)


def test_a_checkpoint_that_does_not_match_its_card_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midway.models.zoo.ASSETS", tmp_path)
    network = small()
    save_file(network.state_dict(), tmp_path / "weights.safetensors")
    facts = {"depth": 10, "width": 1, "classes": 5}
    card = Card("small.toy", "wide_resnet", facts, "weights.safetensors", "", "-", "-", 0, 0.0, "-", "-", ())
    right = Card(**{**card.__dict__, "sha256": file_digest(card.path)})
    images = torch.rand(1, 3, 32, 32)
    assert torch.equal(_load_card(right)(images), network(images))
    with pytest.raises(CheckpointError, match="its card has"):
        _load_card(card)
    with pytest.raises(CheckpointError, match="does not fit WideResNet"):
        _load_card(Card(**{**right.__dict__, "arguments": facts | {"classes": 6}}))
    with pytest.raises(FileNotFoundError, match="install midway again"):
        _load_card(Card(**{**right.__dict__, "file": "gone.safetensors"}))


def test_the_embedded_network_is_what_its_card_says() -> None:
    card = next(card for card in models.cards() if card.name == "wrn16_2.cifar10")
    assert card.clean_accuracy >= 93
    assert card.path.parent == ASSETS
    data = midway.data.load("cifar10-mini")
    assert card.class_names == data.class_names
    result = midway.evaluate(models.load(card.name), midway.streams.pure(data, "clean", batch_size=500))
    assert abs(result.accuracy - card.clean_accuracy) < 1.5  # the first 2,000 of the 10,000 images on the card


@pytest.mark.skipif(not SHARED_WEIGHTS.is_dir(), reason="the shared weights are not on this machine")
@pytest.mark.parametrize("name", ["cifar10_resnet20", "cifar10_resnet56", "cifar100_resnet20", "cifar100_resnet56"])
def test_shared_weights_load_as_they_are(name: str) -> None:
    network = models.load(SHARED_WEIGHTS / f"{name}.pth")
    assert network(torch.rand(2, 3, 32, 32)).shape == (2, 100 if "cifar100" in name else 10)


def test_a_flipped_bit_is_noticed_by_the_checksum(tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    torch.save(midway.models.create("resnet20").state_dict(), path)
    digest = file_digest(path)
    midway.models.load(path, sha256=digest)
    midway.models.load(path, sha256=digest[:12].upper())
    added = CliRunner().invoke(app, ["models", "add", str(path)])
    assert added.exit_code == 0, added.output
    assert f"is a CifarResNet with SHA-256 {digest}" in added.output
    assert (tmp_path / "weights.pth.sha256").read_text() == f"{digest}  weights.pth\n"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"has SHA-256 .*, weights\.pth\.sha256 says .*: the file has changed"):
        midway.models.load(path)
    with pytest.raises(CheckpointError, match=rf"sha256 says {digest[:12]}"):
        midway.models.load(path, sha256=digest)
    assert CliRunner().invoke(app, ["models", "add", str(path)]).exit_code == 0  # the change is accepted
    midway.models.load(path)
    with pytest.raises(CheckpointError, match=r"sha256 of .* is not a SHA-256"):
        midway.models.load(path, sha256="abc")
    assert isinstance(CliRunner().invoke(app, ["models", "add", "missing.pth"]).exception, FileNotFoundError)
