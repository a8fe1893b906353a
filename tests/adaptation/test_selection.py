"""Which images a method selects for its loss."""

from __future__ import annotations

import torch
from torch import nn

import midway
from midway.adaptation.selection import record_shares, redundancy_margin, reliable


def test_reliable_images_and_their_share() -> None:
    assert reliable(torch.tensor([[9.0, 0.0, 0.0], [0.1, 0.0, 0.0]]), margin=0.4).tolist() == [True, False]
    margins = [round(redundancy_margin(classes), 3) for classes in (4, 10, 100, 200, 1000)]
    assert margins == [0.632, 0.4, 0.1, 0.081, 0.05]
    method = midway.Source(nn.Flatten())
    record_shares(method, selected=torch.tensor([True, False, False, False]))
    record_shares(method, selected=torch.tensor([True, True, False, False]))
    assert method.diagnostics == {"judged": 8, "selected": 3, "selected_share": 0.375}
