"""The corruptions of CIFAR-C, Tiny-ImageNet-C and ImageNet-C: pure functions over batches, seeded per image.

After Hendrycks and Dietterich, "Benchmarking Neural Network Robustness to Common Corruptions and Perturbations"
(ICLR 2019), written afresh for whole batches without OpenCV, scikit-image or ImageMagick.

Example:
    >>> from midway.data.corruptions import ALL_CORRUPTIONS, CORRUPTIONS, TUNING_CORRUPTIONS
    >>> len(CORRUPTIONS), TUNING_CORRUPTIONS
    (15, ('speckle_noise', 'gaussian_blur', 'spatter', 'saturate'))
    >>> ALL_CORRUPTIONS == CORRUPTIONS + TUNING_CORRUPTIONS
    True
"""

from midway.data.corruptions.registry import ALL_CORRUPTIONS, CORRUPTIONS, TUNING_CORRUPTIONS, corrupt
from midway.data.corruptions.strengths import STRENGTHS

__all__ = ["ALL_CORRUPTIONS", "CORRUPTIONS", "STRENGTHS", "TUNING_CORRUPTIONS", "corrupt"]
