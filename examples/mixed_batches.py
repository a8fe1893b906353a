"""Batches with several kinds of images: batch statistics fit none of them, clustered statistics do.

python examples/mixed_batches.py
"""

from __future__ import annotations

import argparse

import midway


def main(images: int) -> dict[str, dict[str, float]]:
    """Measure BN with and without clustered statistics on an outlier stream and a mixture, by kind of image."""
    model = midway.models.load("wrn16_2.cifar10")
    data = midway.data.load("cifar10-mini").first(images)
    streams = {
        "outliers": midway.streams.outlier(data, "gaussian_blur", "speckle_noise", ratio=0.05, batch_size=100),
        "mixture": midway.streams.mixture(data, "gaussian_blur", "speckle_noise", batch_size=100),
    }
    accuracies = {}
    for scenario, stream in streams.items():
        for label, method in {
            "source": midway.Source(model),
            "bn": midway.BN(model),
            "bn, clustered": midway.adapt(model, "bn", statistics="clustered"),
        }.items():
            result = midway.evaluate(method, stream)
            groups = ", ".join(f"{group} {accuracy:.1f} %" for group, accuracy in result.by_group.items())
            print(f"{scenario:10}{label:15}{groups}")
            accuracies[f"{scenario}, {label}"] = dict(result.by_group)
    return accuracies


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1000)
    main(parser.parse_args().images)
