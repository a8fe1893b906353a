"""Networks by name or from a checkpoint file, and the cards of the weights in the package."""

from __future__ import annotations

import inspect
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from midway._files import file_digest, parse_json, write_atomically
from midway._suggest import unknown
from midway.models.checkpoints import (
    HEADS,
    CheckpointError,
    check_digest,
    load_weights,
    read_state_dict,
    stored_constants,
)
from midway.models.denoiser import Denoiser
from midway.models.preactivation_resnet import GroupNormResNet
from midway.models.resnet import CifarResNet
from midway.models.rotation_wide_resnet import RotationWideResNet
from midway.models.wide_resnet import WideResNet

ASSETS = Path(__file__).parent / "assets"

DENOISERS = ASSETS / "denoisers"

ARCHITECTURES: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    "wide_resnet": (WideResNet, {}),
    "wrn16_2": (WideResNet, {"depth": 16, "width": 2}),
    "wrn28_10": (WideResNet, {"depth": 28, "width": 10}),
    "wrn40_2": (WideResNet, {"depth": 40, "width": 2}),
    "wrn16_2_rotation": (RotationWideResNet, {"depth": 16, "width": 2}),
    **{f"resnet{depth}": (CifarResNet, {"depth": depth}) for depth in (20, 32, 44, 56, 110)},
    "resnet26_gn": (GroupNormResNet, {"depth": 26}),
}
"""Name -> network class and its arguments."""

CIFAR100_CONSTANTS = {"mean": (0.5070, 0.4865, 0.4409), "std": (0.2673, 0.2564, 0.2762)}
IMAGENET_CONSTANTS = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


@dataclass(frozen=True)
class Card:
    """Facts about one set of trained weights.

    Example:
        >>> f"{cards()[0].clean_accuracy:.0f} %"
        '93 %'
    """

    name: str  # architecture.tag, for midway.models.load
    architecture: str  # a key of midway.models.ARCHITECTURES
    arguments: dict[str, Any]  # of the network's constructor
    file: str  # of the weights, beside the card
    sha256: str
    data: str  # of the training
    recipe: str  # how it was trained, with the command
    seed: int
    clean_accuracy: float  # on the clean test set, in percent
    evaluated_on: str  # the images of that measurement
    licence: str  # of the weights, and notes on that of the data
    class_names: tuple[str, ...] = field(default=())  # in label order

    @property
    def path(self) -> Path:
        """The weights file."""
        return ASSETS / self.file

    def write(self, path: Path) -> None:
        """Write the card as JSON."""
        write_atomically(path, json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> Card:
        """Read a card from JSON."""
        content = parse_json(path.read_text())
        content["class_names"] = tuple(content["class_names"])
        return cls(**content)


@dataclass(frozen=True)
class DenoiserCard:
    """Facts about the trained weights of one noise-predicting network.

    Example:
        >>> denoiser_cards()[0].name
        'unet.cifar10'
    """

    name: str  # architecture.tag, for midway.models.load_denoiser
    arguments: dict[str, Any]  # of the constructor of midway.models.Denoiser
    file: str  # of the weights, beside the card, in half precision
    sha256: str
    data: str  # of the training
    recipe: str  # how it was trained, with the command
    seed: int
    quality: dict[str, dict[str, float]]  # by noise level: error of the noise, PSNR in dB before and after
    evaluated_on: str  # the images of that measurement
    licence: str  # of the weights, and notes on that of the data

    @property
    def path(self) -> Path:
        """The weights file."""
        return DENOISERS / self.file

    def write(self, path: Path) -> None:
        """Write the card as JSON."""
        write_atomically(path, json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> DenoiserCard:
        """Read a card from JSON."""
        return cls(**parse_json(path.read_text()))


def cards() -> list[Card]:
    """Return the cards of all weights in the package, by name.

    Example:
        >>> [card.name for card in cards()]
        ['wrn16_2.cifar10', 'wrn16_2_rotation.cifar10']
    """
    return [Card.read(path) for path in sorted(ASSETS.glob("*.json"))]


def denoiser_cards() -> list[DenoiserCard]:
    """Return the cards of the noise-predicting networks in the package, by name.

    Example:
        >>> [card.name for card in denoiser_cards()]
        ['unet.cifar10']
    """
    return [DenoiserCard.read(path) for path in sorted(DENOISERS.glob("*.json"))]


def create(architecture: str, **arguments: Any) -> nn.Module:
    """Create an untrained network by the name of its architecture, a key of ``ARCHITECTURES``.

    Constructor arguments override those of the name.

    Example:
        >>> from midway import models
        >>> type(models.create("resnet20", classes=100)).__name__
        'CifarResNet'
    """
    if architecture not in ARCHITECTURES:
        raise ValueError(unknown("architecture", architecture, ARCHITECTURES))
    network, preset = ARCHITECTURES[architecture]
    valid = inspect.signature(network).parameters
    for argument in arguments:
        if argument not in valid:
            raise TypeError(unknown(f"argument of {architecture}", argument, valid))
    return network(**(preset | arguments))


def load(
    name_or_path: str | Path, *, architecture: str | None = None, sha256: str | None = None, **arguments: Any
) -> nn.Module:
    """Load a trained network, ready to use: images in [0, 1] in, logits out, in evaluation mode.

    Args:
        name_or_path: A name that ``midway models`` lists, a checkpoint file (``.safetensors``, ``.pth``, ...), or
            ``"architecture@file"`` as in plans.
        architecture: The network of a file, for example ``"wrn28_10"``. Default: inferred from its tensors.
        sha256: The checksum that the file must have, or its beginning. Default: that in ``FILE.sha256``, which
            ``midway models add`` writes; without one, a flipped bit in a weight cannot be noticed.
        **arguments: Constructor arguments for a file, such as ``mean`` and ``std``: normalisation is part of the
            model. Default: the constants in the file, if it has them; else none for WideResNets (as for
            RobustBench's), 0.5 for GroupNorm ResNets, and for CIFAR ResNets those of CIFAR-10, with 100 classes those
            of CIFAR-100, and those of ImageNet for files with shortcuts without weights and a head called ``linear``,
            which are trained with them.

    Example:
        >>> import midway, torch
        >>> midway.models.load("wrn16_2.cifar10")(torch.rand(1, 3, 32, 32)).shape
        torch.Size([1, 10])
    """
    known = {card.name: card for card in cards()}
    if str(name_or_path) in known:
        if architecture or arguments or sha256:
            raise TypeError(f"{name_or_path} is fixed by its card: leave out architecture, sha256 and arguments.")
        return _load_card(known[str(name_or_path)])
    if isinstance(name_or_path, str) and "@" in name_or_path and not Path(name_or_path).exists():
        if architecture:
            raise TypeError(f"{name_or_path} names an architecture: leave out architecture={architecture!r}.")
        architecture, _, name_or_path = name_or_path.partition("@")
        if architecture not in ARCHITECTURES:
            raise ValueError(unknown("architecture", architecture, ARCHITECTURES))
    path = Path(name_or_path).expanduser()
    if not path.exists():
        if architecture:
            raise FileNotFoundError(
                f"there is no checkpoint at {path}: give a file with weights, .safetensors or .pth."
            )
        hint = " midway.models.create creates it with untrained weights." if str(name_or_path) in ARCHITECTURES else ""
        raise ValueError(
            unknown("model", str(name_or_path), known) + f" There is no such checkpoint file either.{hint}"
        )
    check_digest(path, sha256)
    state = read_state_dict(path)
    if architecture is None:
        architecture, guessed = _guess(state, path)
        arguments = guessed | arguments
    arguments = _inferred(state, architecture) | arguments
    model = create(architecture, **arguments)
    load_weights(model, state, str(path))
    return model.eval()


def load_denoiser(name: str) -> Denoiser:
    """Load a noise-predicting network of the package, in evaluation mode, for ``midway.DDA``.

    Example:
        >>> import torch
        >>> denoiser = load_denoiser("unet.cifar10")
        >>> denoiser(torch.randn(1, 3, 32, 32), torch.tensor([500])).shape, len(denoiser.alphas_cumprod)
        (torch.Size([1, 3, 32, 32]), 1000)
    """
    known = {card.name: card for card in denoiser_cards()}
    if name not in known:
        raise ValueError(unknown("denoiser", name, known))
    card = known[name]
    _check_file(card)
    denoiser = Denoiser(**card.arguments).float()
    denoiser.load_state_dict(read_state_dict(card.path))
    return denoiser.eval()


def _load_card(card: Card) -> nn.Module:
    _check_file(card)
    model = create(card.architecture, **card.arguments)
    load_weights(model, read_state_dict(card.path), str(card.path))
    return model.eval()


def _check_file(card: Card | DenoiserCard) -> None:
    if not card.path.is_file():
        raise FileNotFoundError(f"the weights of {card.name} are missing at {card.path}: install midway again.")
    if (digest := file_digest(card.path)) != card.sha256:
        raise CheckpointError(
            f"{card.path} has SHA-256 {digest[:12]}..., its card has {card.sha256[:12]}...: install midway again."
        )


def _inferred(state: dict[str, Any], architecture: str) -> dict[str, Any]:
    """Infer from the tensors of a file what its architecture leaves open: classes, shortcuts, normalisation."""
    if architecture not in ARCHITECTURES:
        return {}  # create reports it
    network, preset = ARCHITECTURES[architecture]
    valid = inspect.signature(network).parameters
    name, head = _head(state)
    inferred: dict[str, Any] = {"classes": head[0]} if head is not None and "classes" not in preset else {}
    if network is CifarResNet:
        weights = any(f".{part}." in key for key in state for part in ("downsample", "shortcut"))
        inferred["shortcut"] = "projection" if weights else "padding"
        if inferred.get("classes") == 100:
            inferred |= CIFAR100_CONSTANTS
        elif not weights and name == "linear":
            inferred |= IMAGENET_CONSTANTS
    inferred |= stored_constants(state)
    return {argument: value for argument, value in inferred.items() if argument in valid}


def _head(state: dict[str, Any]) -> tuple[str, tuple[int, ...] | None]:
    """Return the name of the last layer and the shape of its weight; None if no tensor has a known name."""
    for name in ("fc", *HEADS):
        for key, value in state.items():
            if f".{key}".endswith(f".{name}.weight") and value.ndim == 2 and ".rotation." not in f".{key}":
                return name, tuple(value.shape)
    return "", None


def _guess(state: dict[str, Any], path: Path) -> tuple[str, dict[str, Any]]:
    """Infer architecture, size and number of classes from the names and shapes of the tensors."""

    def count(stage: str) -> int:
        """Number of blocks in a stage: how many numbers follow its name."""
        after = [f".{key}".partition(f".{stage}.")[2].partition(".")[0] for key in state]
        return len({number for number in after if number.isdecimal()})

    _, head = _head(state)
    blocks = max(count("block1.layer"), count("block1"))
    if head is not None and blocks:
        turns = any(".rotation.block3." in f".{key}" for key in state)
        return "wrn16_2_rotation" if turns else "wide_resnet", {
            "depth": 6 * blocks + 4,
            "width": head[1] // 64,
            "classes": head[0],
        }
    blocks = count("layer1")
    if head is not None and head[1] == 64 and blocks:
        normalised_by_group = not any(key.endswith("running_mean") for key in state)
        name = f"resnet{6 * blocks + 2}{'_gn' if normalised_by_group else ''}"
        if name in ARCHITECTURES:
            return name, {}
    raise CheckpointError(
        f"{path}: the architecture cannot be inferred from its tensors; "
        f"give architecture=, one of {', '.join(ARCHITECTURES)}."
    )
