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
from midway.models.checkpoints import CheckpointError, check_digest, load_weights, read_state_dict, stored_constants
from midway.models.resnet import CifarResNet
from midway.models.wide_resnet import WideResNet

ASSETS = Path(__file__).parent / "assets"

ARCHITECTURES: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    "wide_resnet": (WideResNet, {}),
    "wrn16_2": (WideResNet, {"depth": 16, "width": 2}),
    "wrn28_10": (WideResNet, {"depth": 28, "width": 10}),
    "wrn40_2": (WideResNet, {"depth": 40, "width": 2}),
    **{f"resnet{depth}": (CifarResNet, {"depth": depth}) for depth in (20, 32, 44, 56)},
}
"""Name -> network class and its arguments."""

CIFAR100_CONSTANTS = {"mean": (0.5070, 0.4865, 0.4409), "std": (0.2673, 0.2564, 0.2762)}


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


def cards() -> list[Card]:
    """Return the cards of all weights in the package, by name.

    Example:
        >>> [card.name for card in cards()]
        ['wrn16_2.cifar10']
    """
    return [Card.read(path) for path in sorted(ASSETS.glob("*.json"))]


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
        name_or_path: A name that ``midway models`` lists, or a checkpoint file (``.safetensors``, ``.pth``, ...).
        architecture: The network of a file, for example ``"wrn28_10"``. Default: inferred from its tensors.
        sha256: The checksum that the file must have, or its beginning. Default: that in ``FILE.sha256``, which
            ``midway models add`` writes; without one, a flipped bit in a weight cannot be noticed.
        **arguments: Constructor arguments for a file, such as ``mean`` and ``std``: normalisation is part of the
            model. Default: the constants in the file, if it has them; else none for WideResNets (as for
            RobustBench's) and those of CIFAR-10 or, with 100 classes, of CIFAR-100 for CIFAR ResNets.

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
    path = Path(name_or_path)
    if not path.exists():
        hint = " midway.models.create creates it with untrained weights." if str(name_or_path) in ARCHITECTURES else ""
        raise ValueError(
            unknown("model", str(name_or_path), known) + f" There is no such checkpoint file either.{hint}"
        )
    check_digest(path, sha256)
    state = read_state_dict(path)
    if architecture is None:
        architecture, guessed = _guess(state, path)
        arguments = guessed | arguments
    if "mean" not in arguments and "std" not in arguments:
        hundred = architecture.startswith("resnet") and arguments.get("classes") == 100
        arguments |= stored_constants(state) or (CIFAR100_CONSTANTS if hundred else {})
    model = create(architecture, **arguments)
    load_weights(model, state, str(path))
    return model.eval()


def _load_card(card: Card) -> nn.Module:
    if not card.path.is_file():
        raise FileNotFoundError(f"the weights of {card.name} are missing at {card.path}: install midway again.")
    if (digest := file_digest(card.path)) != card.sha256:
        raise CheckpointError(
            f"{card.path} has SHA-256 {digest[:12]}..., its card has {card.sha256[:12]}...: install midway again."
        )
    model = create(card.architecture, **card.arguments)
    load_weights(model, read_state_dict(card.path), str(card.path))
    return model.eval()


def _guess(state: dict[str, Any], path: Path) -> tuple[str, dict[str, Any]]:
    """Infer architecture, size and number of classes from the names and shapes of the tensors."""
    shapes = {key: tuple(value.shape) for key, value in state.items()}

    def find(ending: str) -> tuple[int, ...] | None:
        return next((shape for key, shape in shapes.items() if (f".{key}").endswith(f".{ending}")), None)

    def count(stage: str) -> int:
        """Number of blocks in a stage."""
        keys = [key for key in shapes if f".{stage}." in f".{key}"]
        return len({f".{key}".split(f".{stage}.")[1].split(".")[0] for key in keys})

    head = find("fc.weight")
    if head is not None and count("block1.layer"):
        depth, width = 6 * count("block1.layer") + 4, head[1] // 64
        return "wide_resnet", {"depth": depth, "width": width, "classes": head[0]}
    if head is not None and head[1] == 64 and count("layer1") and f"resnet{6 * count('layer1') + 2}" in ARCHITECTURES:
        return f"resnet{6 * count('layer1') + 2}", {"classes": head[0]}
    raise CheckpointError(
        f"{path}: the architecture cannot be inferred from its tensors; "
        f"give architecture=, one of {', '.join(ARCHITECTURES)}."
    )
