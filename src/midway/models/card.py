"""Model cards: what a set of weights is, where it comes from, and the facts to check it by."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).parent / "assets"


@dataclass(frozen=True)
class Card:
    """Facts about one set of trained weights.

    Attributes:
        name: ``architecture.tag``, what ``midway.models.load`` takes.
        architecture: Name of the network class, a key of ``midway.models.ARCHITECTURES``.
        arguments: Constructor arguments of the network.
        file: Weights file beside the card.
        sha256: Checksum of that file.
        data: What it was trained on.
        recipe: How, with the command.
        seed: Seed of the training run.
        clean_accuracy: Percent right on the clean test set.
        evaluated_on: What that figure was measured on.
        licence: Licence of the weights and notes on the data's.
        class_names: The classes in label order.

    Example:
        >>> from midway.models import cards
        >>> [card.name for card in cards()]
        ['wrn16_2.cifar10']
    """

    name: str
    architecture: str
    arguments: dict[str, Any]
    file: str
    sha256: str
    data: str
    recipe: str
    seed: int
    clean_accuracy: float
    evaluated_on: str
    licence: str
    class_names: tuple[str, ...] = field(default=())

    @property
    def path(self) -> Path:
        """Where the weights lie."""
        return ASSETS / self.file

    def write(self, path: Path) -> None:
        """Write the card as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> Card:
        """Read a card from JSON."""
        content = json.loads(path.read_text())
        content["class_names"] = tuple(content["class_names"])
        return cls(**content)


def cards() -> list[Card]:
    """Return the cards of all weights in the package, by name."""
    return [Card.read(path) for path in sorted(ASSETS.glob("*.json"))]
