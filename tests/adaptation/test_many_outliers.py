"""The benchmark of many outliers gives the predictions of the streams it stands for."""

from __future__ import annotations

import many_outliers
import pytest
import torch
from torch import Tensor, nn

import midway
from midway.testing import tiny_network


def batches(count: int = 3) -> list[tuple[Tensor, Tensor]]:
    """Noisy images and the same images blurred, 80 a batch."""
    generator = torch.Generator().manual_seed(0)
    noisy = [torch.rand(80, 3, 16, 16, generator=generator) for _ in range(count)]
    return [(images, nn.functional.avg_pool2d(images, 5, stride=1, padding=2)) for images in noisy]


@pytest.mark.parametrize("statistics", ["batch", "alpha", "unmix", "clustered", "clustered-batch"])
@torch.no_grad()
def test_outliers_are_predicted_as_in_streams_of_their_own(statistics: str) -> None:
    replaced = [5, 40, 79]
    host, observers, batch = many_outliers.network_for_streams(tiny_network(), statistics, len(replaced))
    settings = {} if statistics == "batch" else {"statistics": statistics}
    streams = [midway.adapt(tiny_network(), "bn", **settings) for _ in replaced]
    for noisy, blurred in batches():
        mixed = [noisy.clone() for _ in replaced]
        for images, index in zip(mixed, replaced, strict=True):
            images[index] = blurred[index]
        expected = [adapted(images) for adapted, images in zip(streams, mixed, strict=True)]
        batch["replaced"] = replaced
        for own, images in zip(observers, mixed, strict=True):
            many_outliers.begin(own, images)
        logits = host(torch.cat([noisy, blurred[replaced]]))
        first = [i for i in range(80) if i != 5]
        torch.testing.assert_close(logits[first], expected[0][first], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(logits[80], expected[0][5], rtol=1e-4, atol=1e-4)
        for stream, index in enumerate(replaced):  # the others act on each other through the rest of the batch alone
            torch.testing.assert_close(logits[80 + stream], expected[stream][index], rtol=0, atol=2e-2)
