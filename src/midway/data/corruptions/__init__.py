"""The corruptions of CIFAR-C, Tiny-ImageNet-C and ImageNet-C: pure functions over batches, seeded per image.

After Hendrycks and Dietterich, "Benchmarking Neural Network Robustness to Common Corruptions and Perturbations"
(ICLR 2019), implemented for batches without OpenCV, scikit-image or ImageMagick.
"""

from midway.data.corruptions.randomness import Draws
from midway.data.corruptions.registry import REGISTRY, Corruption, Strength, corruption, corruption_names

__all__ = ["REGISTRY", "Corruption", "Draws", "Strength", "corruption", "corruption_names"]
