"""Networks, one architecture a file, and the trained weights that come with the package."""

from midway.models.card import Card, cards
from midway.models.checkpoints import CheckpointError
from midway.models.normalize import Normalize
from midway.models.resnet import CifarResNet
from midway.models.wide_resnet import WideResNet
from midway.models.zoo import ARCHITECTURES, create, load

__all__ = [
    "ARCHITECTURES",
    "Card",
    "CheckpointError",
    "CifarResNet",
    "Normalize",
    "WideResNet",
    "cards",
    "create",
    "load",
]
