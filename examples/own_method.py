"""A method of your own: entropy minimisation on the most confident half of a batch.

python examples/own_method.py

It is registered under its name, checked by the contract of ``midway.testing``, and compared with TENT.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn

import midway
from midway.functional import entropy
from midway.methods import About, Method, freeze_all_but, norm_affine, register, use_batch_statistics
from midway.testing import CONTRACT


@register
class ConfidentHalf(Method):
    """Minimises the entropy of the most confident part of the batch by scales and shifts of normalisation layers."""

    about = About(
        name="confident_half",
        title="Confident half",
        paper="-",
        paradigm="batch",
        adapts="norm scales and shifts",
        predicts="before",
        passes="1 F + 1 B",
        needs=("norm layers", "batch statistics"),
    )

    def __init__(self, model: nn.Module, *, lr: float = 1e-3, share: float = 0.5) -> None:
        super().__init__(model)
        self.share = share
        use_batch_statistics(self.model)
        trainable = freeze_all_but(self.model, norm_affine(self.model))
        self.optimizer = self.add_state(
            "optimizer", torch.optim.Adam(trainable, lr=lr)
        )  # reset and saved with the rest

    def step(self, images: Tensor) -> Tensor:
        """Take a step on the entropy of the most confident images and return f(x)."""
        logits: Tensor = self.model(images)
        most_confident = entropy(logits).sort().values[: max(1, int(self.share * len(images)))]
        self.optimizer_step(most_confident.mean(), self.optimizer)
        return logits


def main(images: int, *, contract: bool = True) -> midway.CompareResult:
    """Check the method by the contract, then compare it."""
    if contract:
        for check in CONTRACT:
            check(lambda model: midway.adapt(model, "confident_half"))
        print(f"{len(CONTRACT)} checks of the contract hold")
    model = midway.models.load("wrn16_2.cifar10")
    data = midway.data.load("cifar10-mini").first(images)
    stream = midway.streams.pure(data, "gaussian_blur", batch_size=100)
    result = midway.compare(model, stream, "bn,tent,confident_half", progress=False)
    print(result)
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=600)
    main(parser.parse_args().images)
