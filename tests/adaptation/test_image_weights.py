"""One pass over the copies of several images, with statistics and weights for each image."""

from __future__ import annotations

import torch
from torch import nn

from midway.adaptation.batch_norm.image_statistics import statistics_by_image
from midway.adaptation.image_weights import weights_by_image


def test_statistics_of_each_image() -> None:
    network = nn.Sequential(nn.BatchNorm1d(1)).eval()
    with torch.no_grad(), statistics_by_image(network, 2, source_share=0) as seen:
        output = network(torch.tensor([[1.0], [3.0], [10.0], [30.0]]))
    assert output.round().flatten().tolist() == [-1, 1, -1, 1]
    assert seen["0"][0].mean.flatten().tolist() == [2, 20]


def test_weights_of_each_image() -> None:
    network = nn.Sequential(nn.Linear(1, 1, bias=False))
    with weights_by_image(network, {"0.weight": torch.tensor([[[2.0]], [[3.0]]])}, 4, source_share=0):
        assert network(torch.ones(4, 1)).flatten().tolist() == [2, 2, 3, 3]
