"""Train the embedded network for TTT: a WideResNet-16-2 with GroupNorm, a head for classes and one for rotations.

The network starts from the convolutions of the embedded wrn16_2.cifar10. Its GroupNorm layers start with the scales and
shifts that give each channel the mean and deviation that it has behind BatchNorm, so few steps suffice. The loss is
the sum of two cross-entropies, as published for TTT: of the classes of upright images, and of the four rotations. The
upright images serve both heads; fewer turned images are added, and every rotation has the same weight.

Crops are 24 pixels, in the last steps 32. A checkpoint is written every 50 steps; the same command resumes from it
after a kill and gives the same numbers.

    midway data fetch cifar10
    python recipes/train_ttt.py --out runs/train/wrn16_2_rotation.cifar10 --export src/midway/models/assets
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor, nn
from train_cifar10 import LICENCE, MEAN, STD, accuracy, arrays, augment
from training import create_parser, resume, save

import midway
from midway._files import file_digest
from midway.models import Card, RotationWideResNet

NAME = "wrn16_2_rotation.cifar10"
START = "wrn16_2.cifar10"
CHECKPOINT_EVERY = 50  # steps


@dataclass(frozen=True)
class Recipe:
    """Everything that determines the trained weights, besides the data and the embedded network."""

    crops: tuple[tuple[int, int], ...] = ((250, 24), (60, 32))  # (steps, pixels)
    batch_size: int = 64  # upright images
    turned: int = 16  # further images in each of the three other rotations
    groups: int = 8
    peak_lr: float = 0.03  # of the rotation head
    trained_lr_share: float = 0.1  # of it for the rest, which starts from trained weights
    lr_knots: tuple[tuple[int, float], ...] = ((0, 0.0), (50, 1.0), (250, 0.5556), (310, 0.0))  # (step, share of peak)
    momentum: float = 0.9
    weight_decay: float = 5e-4
    cutout: int = 4
    bf16: bool = True
    seed: int = 0

    @property
    def steps(self) -> int:
        """Number of steps over all crop sizes."""
        return sum(steps for steps, _ in self.crops)

    def crop_at(self, step: int) -> int:
        """Side of the crops in a step, counted from 0."""
        return [pixels for steps, pixels in self.crops for _ in range(steps)][step]

    def lr_at(self, step: int) -> float:
        """Learning rate of the rotation head in a step: linear up, slowly down, then to 0 on the full-size crops."""
        steps, shares = zip(*self.lr_knots, strict=True)
        return self.peak_lr * float(np.interp(step, steps, shares))


@torch.no_grad()
def warm_start(network: RotationWideResNet, source: nn.Module, images: Tensor) -> None:
    """Copy the convolutions of a BatchNorm network and give each channel the mean and deviation it has there.

    BatchNorm's output has its shift as mean and its scale as deviation. GroupNorm's has others, because it normalises
    groups; a hook measures them layer by layer in one pass and sets scale and shift to the same result.
    """
    theirs = source.state_dict()
    norms = [name for name, module in network.named_modules() if isinstance(module, nn.GroupNorm)]
    for name, values in network.state_dict().items():
        original = name.removeprefix("rotation.")
        if name.rpartition(".")[0] not in norms and not name.startswith("rotation.fc"):
            values.copy_(theirs[original])

    def fit(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        assert isinstance(module, nn.GroupNorm)
        scale, shift = targets[module]
        deviation, mean = torch.std_mean(output, dim=(0, 2, 3))
        module.weight.copy_(scale / (deviation + 1e-5))
        module.bias.copy_(shift - module.weight * mean)
        return F.group_norm(inputs[0], module.num_groups, module.weight, module.bias, module.eps)

    targets, hooks = {}, []
    for name in norms:
        module, original = network.get_submodule(name), name.removeprefix("rotation.")
        targets[module] = theirs[f"{original}.weight"], theirs[f"{original}.bias"]
        hooks.append(module.register_forward_hook(fit))
    features = network.features(images)
    network.class_logits(features)
    network.rotation(features)
    for hook in hooks:
        hook.remove()


def joint_loss(network: RotationWideResNet, upright: Tensor, labels: Tensor, turned: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cross-entropies of the classes and of the rotations; ``turned`` has 90, 180, 270 degrees in turn."""
    features = network.features(torch.cat([upright, turned]))
    classes = network.class_logits(features[: len(upright)]).float()
    rotations = network.rotation(features).float()
    quarter_turns = torch.cat([torch.zeros(len(upright)), torch.arange(len(turned)) % 3 + 1]).long()
    losses = F.cross_entropy(rotations, quarter_turns, reduction="none")
    by_rotation = torch.stack([losses[quarter_turns == turns].mean() for turns in range(4)])
    return F.cross_entropy(classes, labels), by_rotation.mean()


def turn(images: Tensor) -> Tensor:
    """Turn the images by 90, 180, 270, 90, ... degrees anticlockwise."""
    turned = torch.empty_like(images)
    for turns in (1, 2, 3):
        turned[turns - 1 :: 3] = torch.rot90(images[turns - 1 :: 3], turns, dims=(2, 3))
    return turned


@torch.no_grad()
def rotation_accuracy(network: RotationWideResNet, images: NDArray[np.uint8]) -> float:
    """Share of rotations told right over all four rotations of the images, in percent."""
    right = 0
    for start in range(0, len(images), 250):
        batch = torch.from_numpy(images[start : start + 250]).permute(0, 3, 1, 2).float().div(255)
        for turns in range(4):
            right += int((network.rotation_logits(batch.rot90(turns, (2, 3))).argmax(1) == turns).sum())
    return 25 * right / len(images)


def train(recipe: Recipe, data: Path | None, out: Path, *, stop_after: int | None = None) -> RotationWideResNet:
    """Train to the end of the recipe, or to an earlier step, resuming from ``out/last.pt`` when it is there."""
    train_images, train_labels = arrays(data, "train")
    test_images, test_labels = arrays(data, "test")
    test_images, test_labels = test_images[:500].copy(), test_labels[:500].copy()
    padded = np.pad(train_images, ((0, 0), (4, 4), (4, 4), (0, 0)), mode="reflect")
    torch.manual_seed(recipe.seed)
    network = RotationWideResNet(mean=MEAN, std=STD, groups=recipe.groups)
    some = torch.from_numpy(train_images[:256].copy()).permute(0, 3, 1, 2).float().div(255)
    warm_start(network, midway.models.load(START), some)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    groups = []
    for new in (True, False):
        own = [p for name, p in network.named_parameters() if name.startswith("rotation.") is new]
        share = 1.0 if new else recipe.trained_lr_share
        groups.append({"params": [p for p in own if p.ndim > 1], "weight_decay": recipe.weight_decay, "share": share})
        groups.append({"params": [p for p in own if p.ndim <= 1], "weight_decay": 0.0, "share": share})
    optimizer = torch.optim.SGD(groups, lr=0.0, momentum=recipe.momentum, nesterov=True)
    settings, parts = asdict(recipe), {"model": network, "optimizer": optimizer}
    first = resume(out, settings, parts).get("step", 0)
    if first:
        print(f"resuming after step {first} of {recipe.steps}", flush=True)
    started, recent = time.process_time(), list[tuple[float, ...]]()
    for step in range(first, min(recipe.steps, stop_after or recipe.steps)):
        # The random numbers of a step depend on the seed and the step alone, so a resumed run repeats them.
        rng = np.random.default_rng((recipe.seed, step))
        for group in optimizer.param_groups:
            group["lr"] = group["share"] * recipe.lr_at(step)
        index = rng.choice(len(padded), size=recipe.batch_size + 3 * recipe.turned, replace=False)
        batch = augment(padded[index], recipe.crop_at(step), recipe.cutout, rng)
        upright, turned = batch[: recipe.batch_size], turn(batch[recipe.batch_size :])
        labels = torch.from_numpy(train_labels[index[: recipe.batch_size]])
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=recipe.bf16):
            losses = joint_loss(network.train(), upright, labels, turned)
        optimizer.zero_grad(set_to_none=True)
        torch.stack(losses).sum().backward()
        optimizer.step()
        recent.append(tuple(loss.item() for loss in losses))
        if (step + 1) % CHECKPOINT_EVERY and step + 1 != recipe.steps:
            continue
        network.eval()
        record = {
            "step": step + 1,
            "crop": recipe.crop_at(step),
            "class_loss": round(float(np.mean([losses[0] for losses in recent])), 4),
            "rotation_loss": round(float(np.mean([losses[1] for losses in recent])), 4),
            "test_accuracy": round(accuracy(network, test_images, test_labels), 2),
            "rotation_accuracy": round(rotation_accuracy(network, test_images[:125]), 2),
            "cpu_seconds": round(time.process_time() - started, 1),
        }
        recent.clear()
        save(out, settings, parts, record, step=step + 1)
        print(" ".join(f"{key} {value}" for key, value in record.items()), flush=True)
    return network


def export(network: RotationWideResNet, recipe: Recipe, data: Path | None, folder: Path) -> Card:
    """Write the weights as safetensors in half precision and the card beside them."""
    images, labels = arrays(data, "test")
    images = images.copy()  # torch warns of arrays that are read-only
    file = folder / f"{NAME}.safetensors"
    halves = {key: value.half() for key, value in network.state_dict().items()}
    save_file({key: value.contiguous() for key, value in halves.items()}, file)
    network.load_state_dict(halves)  # the accuracy is that of the rounded weights
    network.eval()
    card = Card(
        name=NAME,
        architecture="wrn16_2_rotation",
        arguments={
            "depth": 16,
            "width": 2,
            "classes": 10,
            "mean": list(MEAN),
            "std": list(STD),
            "groups": recipe.groups,
        },
        file=file.name,
        sha256=file_digest(file),
        data="CIFAR-10 training set, 50,000 images",
        recipe=f"recipes/train_ttt.py, from {START}: {recipe}",
        seed=recipe.seed,
        clean_accuracy=accuracy(network, images, labels),
        evaluated_on=f"CIFAR-10 test set, {len(images):,} images, float32",
        licence=LICENCE,
        class_names=midway.data.load("cifar10-mini").class_names,
    )
    card.write(folder / f"{NAME}.json")
    return card


def main() -> None:
    """Parse the command line and train."""
    parser = create_parser(__doc__, NAME)
    parser.add_argument("--float32", action="store_true", help="convolutions in float32, for CPUs without bf16")
    arguments = parser.parse_args()
    recipe = Recipe(bf16=not arguments.float32, seed=arguments.seed)
    network = train(recipe, arguments.data, arguments.out)
    if arguments.export:
        print(export(network, recipe, arguments.data, arguments.export))


if __name__ == "__main__":
    main()
