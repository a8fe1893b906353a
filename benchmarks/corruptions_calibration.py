"""Check the corruptions end to end: two published networks must do as well on ours as on the published CIFAR-10-C.

Severity 5, the first 2,000 CIFAR-10 test images, source statistics and batch statistics (batches of 200). Prints a
Markdown table; the exit status is 1 if a cell is more than two points off. Both numbers are draws: the published one is
a single draw, ours is the mean over ``--seeds`` of them, with their standard deviation.

    midway data fetch cifar10
    python benchmarks/corruptions_calibration.py --weights path/to/weights --seeds 3
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import midway
from midway.data import corrupt, corruption_names
from midway.models.resnet import CifarResNet

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)  # what the networks were trained with
BATCH = 200
TOLERANCE = 2.0  # points

# Accuracy in percent on the published CIFAR-10-C: (source statistics, batch statistics).
PUBLISHED: dict[str, dict[int, tuple[float, float]]] = {
    "gaussian_noise": {20: (21.1, 57.6), 56: (25.9, 59.5)},
    "shot_noise": {20: (26.3, 59.9), 56: (31.8, 59.8)},
    "impulse_noise": {20: (24.0, 52.6), 56: (22.2, 54.5)},
    "defocus_blur": {20: (49.9, 79.4), 56: (61.3, 84.3)},
    "glass_blur": {20: (42.8, 58.1), 56: (45.8, 57.9)},
    "motion_blur": {20: (57.7, 79.2), 56: (64.5, 83.1)},
    "zoom_blur": {20: (55.9, 79.8), 56: (62.6, 84.0)},
    "snow": {20: (67.5, 69.4), 56: (75.1, 75.3)},
    "frost": {20: (55.1, 70.6), 56: (63.0, 73.1)},
    "fog": {20: (64.2, 78.3), 56: (72.1, 81.8)},
    "brightness": {20: (86.6, 84.0), 56: (90.1, 87.8)},
    "contrast": {20: (24.9, 80.9), 56: (37.3, 84.0)},
    "elastic_transform": {20: (67.4, 70.1), 56: (72.8, 71.8)},
    "pixelate": {20: (40.0, 70.2), 56: (43.7, 73.8)},
    "jpeg_compression": {20: (69.5, 65.7), 56: (72.9, 68.6)},
}


def load_network(weights: Path, depth: int, *, batch_statistics: bool) -> nn.Module:
    """Load one of the two networks, with the statistics of its training data or of each batch."""
    network = CifarResNet(depth=depth, classes=10, mean=MEAN, std=STD)
    network.load_state_dict(torch.load(weights / f"cifar10_resnet{depth}.pth", weights_only=True))
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d) and batch_statistics:
            layer.track_running_stats = False
            layer.running_mean = layer.running_var = None
    return network.eval()


@torch.inference_mode()
def accuracy(network: nn.Module, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> float:
    """Return the accuracy in percent, in batches of 200."""
    right = 0
    for start in range(0, len(images), BATCH):
        batch = torch.from_numpy(images[start : start + BATCH]).permute(0, 3, 1, 2).float() / 255
        predicted = network(batch).argmax(dim=1).numpy()
        right += int((predicted == labels[start : start + BATCH]).sum())
    return 100 * right / len(images)


def main() -> int:
    """Print the table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of CIFAR-10 [default: where `midway data fetch` puts it]")
    parser.add_argument("--weights", type=Path, required=True, help="folder with cifar10_resnet20.pth and ...56.pth")
    parser.add_argument("--images", type=int, default=2000, help="how many test images (the published: 2000)")
    parser.add_argument("--seeds", type=int, default=1, help="average our accuracy over this many seeds")
    parser.add_argument("--only", default=",".join(corruption_names("benchmark")), help="corruptions, comma-separated")
    parser.add_argument("--depths", default="20,56", help="networks, comma-separated")
    options = parser.parse_args()

    test_set = midway.data.load("cifar10", options.data).first(options.images)
    images, labels = np.asarray(test_set.images[:]), test_set.labels
    depths = [int(depth) for depth in options.depths.split(",")]
    networks = {
        (depth, batch): load_network(options.weights, depth, batch_statistics=bool(batch))
        for depth in depths
        for batch in (0, 1)
    }
    print("Ours (published, difference), accuracy in percent, severity 5.\n")
    print("| corruption |" + "".join(f" resnet{d} source | resnet{d} batch |" for d in depths))
    print("| --- |" + " --- |" * len(networks))
    failures = 0
    for name in options.only.split(","):
        sets = [corrupt(images, name, severity=5, seed=seed) for seed in range(options.seeds)]
        cells = []
        for (depth, batch), network in networks.items():
            draws = [accuracy(network, corrupted, labels) for corrupted in sets]
            ours = float(np.mean(draws))
            spread = f" ± {np.std(draws, ddof=1):.1f}" if len(draws) > 1 else ""
            published = PUBLISHED[name][depth][batch]
            difference = round(ours - published, 1)
            failed = abs(difference) > TOLERANCE
            failures += failed
            cells.append(f"{ours:.1f}{spread} ({published:.1f}, {difference:+.1f}{' OFF' if failed else ''})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print(
        f"\n{failures} cells off by more than {TOLERANCE:g} points." if failures else "\nEvery cell within two points."
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
