"""Train the embedded noise-predicting U-Net on CIFAR-10 for DDA: the DDPM loss, flips, and averaged weights.

DDA mixes an image with noise up to about half of the schedule and removes it again, so most of the noise levels of the
training (--share) are drawn below --upto; the others are drawn from the whole schedule. The learning rate is constant
and falls linearly to 0 in the last quarter. Every few hundred steps an atomic checkpoint is written; the same command
resumes from it after a kill and gives the same numbers. --images may grow or shrink on resuming before that quarter.

    midway data fetch cifar10
    python recipes/train_denoiser.py --out runs/train/unet.cifar10

--export src/midway/models/assets/denoisers packs the averaged weights as half-precision safetensors with their card.
"""

from __future__ import annotations

import copy
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor
from training import create_parser, resume, save

import midway
from midway._files import file_digest
from midway.models import Denoiser, DenoiserCard

NAME = "unet.cifar10"
LICENCE = "weights Apache-2.0, as the project; CIFAR-10 (Krizhevsky, 2009) has no formal licence and asks for citation"
LEVELS = (50, 100, 200, 300, 400, 500, 700)  # of the measurements


@dataclass(frozen=True)
class Recipe:
    """Everything that determines the trained weights, besides the data."""

    widths: tuple[int, ...] = (48, 80, 96)
    blocks: tuple[int, ...] = (1, 1, 2)
    embedding: int = 128
    images: int = 384_000  # seen in all
    batch_size: int = 64
    lr: float = 1e-3
    warmup: int = 200  # steps in which the learning rate rises
    cooldown: float = 0.25  # share of the steps in which it falls
    averaging: float = 0.999  # decay of the moving average of the weights
    upto: int = 600
    share: float = 0.85
    bf16: bool = True
    seed: int = 0

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.images // self.batch_size

    def lr_at(self, step: int) -> float:
        """Learning rate: linear up, constant, linear down to 0."""
        left = (self.steps - step) / (self.cooldown * self.steps)
        return self.lr * max(0.0, min(1.0, (step + 1) / self.warmup, left))

    def identity(self) -> dict[str, Any]:
        """The settings that must not change on resuming."""
        return {key: value for key, value in asdict(self).items() if key != "images"}

    def build(self) -> Denoiser:
        """Return the untrained network."""
        return Denoiser(widths=self.widths, blocks=self.blocks, embedding=self.embedding)


def scaled(images: NDArray[np.uint8]) -> Tensor:
    """Return images (N, H, W, 3) as float in [-1, 1], NCHW shape, channels-last."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).float().div_(127.5).sub_(1)


def mixed(clean: Tensor, noise: Tensor, t: Tensor, schedule: Tensor) -> Tensor:
    """Return images mixed with noise at levels t."""
    share = schedule[t].float()[:, None, None, None]
    return share.sqrt() * clean + (1 - share).sqrt() * noise


@torch.no_grad()
def measure(denoiser: Denoiser, images: NDArray[np.uint8]) -> dict[str, dict[str, float]]:
    """Return the mean squared error of the noise, and the PSNR in dB of noisy and denoised images, by level."""
    clean = scaled(images)
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    result: dict[str, dict[str, float]] = {"loss": {}, "noisy_psnr": {}, "psnr": {}}
    for level in LEVELS:
        share = float(denoiser.alphas_cumprod[level])
        squares = []
        for first in range(0, len(clean), 250):
            few, its = clean[first : first + 250], noise[first : first + 250]
            t = torch.full((len(few),), level)
            squares.append(
                (denoiser(mixed(few, its, t, denoiser.alphas_cumprod), t) - its).square().mean(dim=(1, 2, 3))
            )
        error = torch.cat(squares)
        variance = (1 - share) / share  # of the noise, relative to an image of the original scale
        result["loss"][str(level)] = round(float(error.mean()), 5)
        result["noisy_psnr"][str(level)] = round(float(10 * np.log10(4 / variance)), 2)
        result["psnr"][str(level)] = round(float((10 * (4 / (variance * error)).log10()).mean()), 2)
    return result


def arrays(root: Path | None, split: str) -> NDArray[np.uint8]:
    """Read the images of a split of CIFAR-10 into memory."""
    return np.array(midway.data.load("cifar10", root, split=split).images[:])


def train(recipe: Recipe, data: Path | None, out: Path, *, every: int = 500, stop_after: int | None = None) -> Denoiser:
    """Train to the end of the recipe, or to an earlier step, resuming from ``out/last.pt``; return averaged weights."""
    train_images, test_images = arrays(data, "train"), arrays(data, "test")[:200]
    torch.manual_seed(recipe.seed)
    model = recipe.build()
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    average = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.99))
    schedule, parts = model.alphas_cumprod, {"model": model, "average": average, "optimizer": optimizer}
    state = resume(out, recipe.identity(), parts)
    first, cpu_seconds = state.get("step", 0), state.get("cpu_seconds", 0.0)
    if first:
        print(f"resuming after step {first} of {recipe.steps}", flush=True)
    steps_per_epoch = len(train_images) // recipe.batch_size
    last = min(recipe.steps, stop_after or recipe.steps)
    started, total, order_of, order = time.process_time(), 0.0, -1, np.arange(0)
    for step in range(first, last):
        epoch, index = divmod(step, steps_per_epoch)
        if epoch != order_of:
            order_of, order = epoch, np.random.default_rng((recipe.seed, epoch)).permutation(len(train_images))
        # The random numbers of a step depend on the seed and the step alone, so a resumed run repeats them.
        rng = torch.Generator().manual_seed(recipe.seed * 1_000_003 + step)
        clean = scaled(train_images[order[index * recipe.batch_size : (index + 1) * recipe.batch_size]])
        flipped = torch.rand(len(clean), 1, 1, 1, generator=rng) < 0.5
        clean = torch.where(flipped, clean.flip(-1), clean).contiguous(memory_format=torch.channels_last)
        below = torch.rand(len(clean), generator=rng) < recipe.share
        t = torch.rand(len(clean), generator=rng) * torch.where(below, recipe.upto, len(schedule))
        t = t.long()
        noise = torch.empty_like(clean).copy_(torch.randn(clean.shape, generator=rng))
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr_at(step)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=recipe.bf16):
            predicted = model(mixed(clean, noise, t, schedule), t)
        loss = (predicted.float() - noise).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        decay = min(recipe.averaging, (step + 1) / (step + 10))  # early weights leave the average quickly
        with torch.no_grad():
            torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 1 - decay)
        total += loss.item()
        if (step + 1) % every == 0 or step + 1 == last:
            used = cpu_seconds + time.process_time() - started
            count = step - first + 1 if step - first + 1 < every else every
            record = {"step": step + 1, "images": (step + 1) * recipe.batch_size, "train_loss": round(total / count, 5)}
            record |= {"cpu_seconds": round(used)} | measure(average, test_images)
            total = 0.0
            save(out, recipe.identity(), parts, record, step=step + 1, cpu_seconds=used)
            print(json.dumps({key: record[key] for key in ("step", "train_loss", "cpu_seconds", "loss")}), flush=True)
    return average.eval()


def export(denoiser: Denoiser, recipe: Recipe, data: Path | None, folder: Path) -> DenoiserCard:
    """Write the weights in half precision and the card beside them, with the measurements of what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{NAME}.safetensors"
    save_file({key: value.half().contiguous() for key, value in denoiser.state_dict().items()}, file)
    denoiser.load_state_dict({key: value.half().float() for key, value in denoiser.state_dict().items()})
    images = arrays(data, "test")[:1000]
    card = DenoiserCard(
        name=NAME,
        arguments={"widths": list(recipe.widths), "blocks": list(recipe.blocks), "embedding": recipe.embedding},
        file=file.name,
        sha256=file_digest(file),
        data="CIFAR-10 training set, 50,000 images",
        recipe=f"recipes/train_denoiser.py: {recipe}",
        seed=recipe.seed,
        quality=measure(denoiser, images),
        evaluated_on=f"CIFAR-10 test set, first {len(images):,} images, float32",
        licence=LICENCE,
    )
    card.write(folder / f"{NAME}.json")
    return card


def main() -> None:
    """Parse the command line and train."""
    parser = create_parser(__doc__, NAME)
    parser.add_argument("--images", type=int, default=Recipe.images, help="images to see in all")
    parser.add_argument("--upto", type=int, default=Recipe.upto, help="noise level below which most images are mixed")
    parser.add_argument("--share", type=float, default=Recipe.share, help="share of these images")
    parser.add_argument("--float32", action="store_true", help="no bf16, for CPUs without AVX512-BF16 or AMX")
    parser.add_argument("--stop-after", type=int, help="stop after this step, to resume later")
    given = parser.parse_args()
    recipe = Recipe(images=given.images, upto=given.upto, share=given.share, bf16=not given.float32, seed=given.seed)
    denoiser = train(recipe, given.data, given.out, stop_after=given.stop_after)
    if given.export:
        print(export(denoiser, recipe, given.data, given.export))


if __name__ == "__main__":
    main()
