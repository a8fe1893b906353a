"""Train the embedded WideResNet-16-2 on CIFAR-10: crop, flip, light cutout and a one-cycle schedule.

The crops grow with training (24, then 28, then 32 pixels, never rescaled), which costs two thirds of what full-size
epochs cost and loses little: the network sees objects at the right scale from the first step. Every epoch ends
with an atomic checkpoint; the same command resumes from it after a kill and gives the same numbers.

    midway data fetch cifar10
    python recipes/train_cifar10.py --out runs/train/wrn16_2.cifar10

A finished run is packed as safetensors with its card by --export src/midway/models/assets.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from safetensors.torch import save_file
from torch import Tensor
from training import create_parser, resume, save

import midway
from midway._files import file_digest
from midway.models import Card, WideResNet

NAME = "wrn16_2.cifar10"
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
LICENCE = "weights Apache-2.0, as the project; CIFAR-10 (Krizhevsky, 2009) has no formal licence and asks for citation"


@dataclass(frozen=True)
class Recipe:
    """Everything that determines the trained weights, besides the data."""

    depth: int = 16
    width: int = 2
    crops: tuple[tuple[int, int], ...] = ((16, 24), (12, 28), (8, 32))  # (epochs, pixels)
    batch_size: int = 128
    peak_lr: float = 0.2
    warmup: float = 0.2  # share of the steps in which the learning rate rises
    momentum: float = 0.9
    weight_decay: float = 5e-4
    cutout: int = 6
    bf16: bool = False
    seed: int = 0

    @property
    def epochs(self) -> int:
        """Number of epochs over all crop sizes."""
        return sum(epochs for epochs, _ in self.crops)

    def crop_at(self, epoch: int) -> int:
        """Side of the crops in an epoch, counted from 0."""
        for epochs, pixels in self.crops:
            if epoch < epochs:
                return pixels
            epoch -= epochs
        raise IndexError(epoch)

    def lr_at(self, progress: float) -> float:
        """One-cycle learning rate at a share of the training in [0, 1]: linear up, linear down to 0."""
        if progress < self.warmup:
            return self.peak_lr * progress / self.warmup
        return self.peak_lr * (1 - progress) / (1 - self.warmup)


def augment(images: NDArray[np.uint8], pixels: int, cutout: int, rng: np.random.Generator) -> Tensor:
    """Crop within eight pixels of play, flip half of the images, and blank one small square in each.

    ``images`` are uint8 (N, 40, 40, 3), padded by 4; the answer is float in [0, 1], NCHW shape, channels-last.
    """
    n = len(images)
    first = 4 - (pixels - 24) // 2  # 24 px crops stay inside the image, 32 px crops use the whole padding
    top, left = rng.integers(first, first + 9, size=(2, n, 1))
    rows, columns = top + np.arange(pixels), left + np.arange(pixels)
    columns = np.where(rng.random((n, 1)) < 0.5, columns, columns[:, ::-1])
    crops = images[np.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
    y, x = rng.integers(0, pixels - cutout + 1, size=(2, n, 1)) + np.arange(cutout)
    batch = torch.from_numpy(crops).float().div_(255)
    grey = torch.tensor(MEAN)
    batch[torch.arange(n)[:, None, None], torch.from_numpy(y)[:, :, None], torch.from_numpy(x)[:, None, :]] = grey
    return batch.permute(0, 3, 1, 2)


@torch.no_grad()
def accuracy(model: torch.nn.Module, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> float:
    """Share of images classified right, in percent, with source statistics and float32."""
    model.eval()
    right = 0
    for start in range(0, len(images), 500):
        batch = torch.from_numpy(images[start : start + 500]).permute(0, 3, 1, 2).float().div(255)
        right += int((model(batch).argmax(1).numpy() == labels[start : start + 500]).sum())
    return 100 * right / len(images)


def arrays(root: Path | None, split: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read a split of CIFAR-10 into memory."""
    data = midway.data.load("cifar10", root, split=split)
    return np.asarray(data.images[:]), data.labels


def train(recipe: Recipe, data: Path | None, out: Path, *, stop_after: int | None = None) -> torch.nn.Module:
    """Train to the end of the recipe, or to an earlier epoch, resuming from ``out/last.pt`` when it is there."""
    console = Console()
    train_images, train_labels = arrays(data, "train")
    test_images, test_labels = arrays(data, "test")
    padded = np.pad(train_images, ((0, 0), (4, 4), (4, 4), (0, 0)), mode="reflect")
    torch.manual_seed(recipe.seed)
    model = WideResNet(depth=recipe.depth, width=recipe.width, classes=10, mean=MEAN, std=STD)
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.SGD(
        [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": others, "weight_decay": 0.0}],
        lr=0.0,
        momentum=recipe.momentum,
        nesterov=True,
    )
    settings, parts = asdict(recipe), {"model": model, "optimizer": optimizer}
    first = resume(out, settings, parts).get("epoch", 0)
    if first:
        console.print(f"resuming after epoch {first} of {recipe.epochs}")
    steps = len(padded) // recipe.batch_size
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        for epoch in range(first, recipe.epochs):
            if stop_after is not None and epoch >= stop_after:
                break
            started = time.perf_counter()
            # An epoch's random numbers depend on the seed and the epoch alone, so a resumed run repeats them.
            rng = np.random.default_rng((recipe.seed, epoch))
            order = rng.permutation(len(padded))
            model.train()
            total = 0.0
            bar = progress.add_task(f"epoch {epoch + 1}/{recipe.epochs}", total=steps)
            for step in range(steps):
                lr = recipe.lr_at((epoch * steps + step) / (recipe.epochs * steps))
                for group in optimizer.param_groups:
                    group["lr"] = lr
                index = order[step * recipe.batch_size : (step + 1) * recipe.batch_size]
                batch = augment(padded[index], recipe.crop_at(epoch), recipe.cutout, rng)
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=recipe.bf16):
                    logits = model(batch)
                loss = F.cross_entropy(logits.float(), torch.from_numpy(train_labels[index]))
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                total += loss.item()
                progress.update(bar, advance=1)
            progress.remove_task(bar)
            record = {
                "epoch": epoch + 1,
                "crop": recipe.crop_at(epoch),
                "train_loss": round(total / steps, 4),
                "test_accuracy": round(accuracy(model, test_images, test_labels), 2),
                "seconds": round(time.perf_counter() - started, 1),
            }
            save(out, settings, parts, record, epoch=epoch + 1)
            console.print(" ".join(f"{key} {value}" for key, value in record.items()))
    trained: torch.nn.Module = model
    return trained


def export(model: torch.nn.Module, recipe: Recipe, data: Path | None, folder: Path) -> Card:
    """Write the weights as safetensors and the card beside them."""
    images, labels = arrays(data, "test")
    file = folder / f"{NAME}.safetensors"
    save_file({key: value.contiguous() for key, value in model.state_dict().items()}, file)
    card = Card(
        name=NAME,
        architecture="wide_resnet",
        arguments={"depth": recipe.depth, "width": recipe.width, "classes": 10, "mean": list(MEAN), "std": list(STD)},
        file=file.name,
        sha256=file_digest(file),
        data="CIFAR-10 training set, 50,000 images",
        recipe=f"recipes/train_cifar10.py: {recipe}",
        seed=recipe.seed,
        clean_accuracy=accuracy(model, images, labels),
        evaluated_on=f"CIFAR-10 test set, {len(images):,} images, float32",
        licence=LICENCE,
        class_names=midway.data.load("cifar10-mini").class_names,
    )
    card.write(folder / f"{NAME}.json")
    return card


def main() -> None:
    """Parse the command line and train."""
    parser = create_parser(__doc__, NAME)
    parser.add_argument(
        "--bf16", action="store_true", help="bf16 convolutions, fast where the CPU has AMX or AVX512-BF16"
    )
    arguments = parser.parse_args()
    recipe = Recipe(bf16=arguments.bf16, seed=arguments.seed)
    model = train(recipe, arguments.data, arguments.out)
    if arguments.export:
        print(export(model, recipe, arguments.data, arguments.export))


if __name__ == "__main__":
    main()
