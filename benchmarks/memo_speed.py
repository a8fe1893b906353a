"""How fast is MEMO on many images at once, against image by image, and what is the most that could be gained?

    python benchmarks/memo_speed.py [--images 16] [--repeats 3] [--threads 2] [--network wrn16_2.cifar10] [--views 32]

Contenders take turns on the same images; each is timed by its fastest turn:

- plain: one image at a time as in published code: views made one by one, a fresh copy of the weights, an optimiser,
  BatchNorm statistics from a training-mode call;
- vmap: per-image gradients of all images by torch.func.vmap over grad, views in batches;
- one by one: midway.MEMO with images_at_once=1;
- at once: midway.MEMO.

Why a large gain is out of reach on a CPU. An image costs a forward and a backward pass over its views whoever computes
it: three times the multiplications of the forward pass, in convolutions of 32 views each. A batch of 32 already fills a
CPU: its convolutions run about as fast as the machine multiplies matrices, so more images at once have nothing left to
fill. The floor in the table is that count: floating-point operations of the passes over the measured speed of a matrix
product; plain over floor bounds every exact way that does the same multiplications. What batching saves is all besides
the convolutions: views, statistics, Python, and the small kernels of small networks (try --network tiny). vmap turns
the weight gradients into grouped convolutions, which CPUs are slow at.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.utils.flop_counter import FlopCounterMode

import midway
from midway.adaptation.views import augmix_views, draw
from midway.methods.memo import MEMO, marginal_entropy
from midway.testing import tiny_network

PRIOR, LR = 16, 0.005
OUT = Path("runs/benchmarks/memo_speed.json")
Step = Callable[[Tensor], Tensor]


def mix_statistics(model: nn.Module) -> nn.Module:
    """Give BatchNorm layers the published forward pass: source statistics mixed with those of a training-mode call."""
    share = PRIOR / (PRIOR + 1)

    def forward(layer: nn.BatchNorm2d, x: Tensor) -> Tensor:
        source_mean, source_var = layer.running_mean, layer.running_var
        assert source_mean is not None
        assert source_var is not None
        mean, var = torch.zeros_like(source_mean), torch.ones_like(source_var)
        F.batch_norm(x.detach(), mean, var, None, None, True, 1.0, layer.eps)
        mean, var = share * source_mean + (1 - share) * mean, share * source_var + (1 - share) * var
        return F.batch_norm(x, mean, var, layer.weight, layer.bias, False, 0.0, layer.eps)

    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.forward = forward.__get__(layer)  # type: ignore[method-assign]
    return model


def plain(model: nn.Module, views: int) -> Step:
    """MEMO as published: everything image by image, every view by itself."""
    adapted = mix_statistics(copy.deepcopy(model)).requires_grad_(True)
    source = copy.deepcopy(adapted.state_dict())
    optimizer = torch.optim.SGD(adapted.parameters(), lr=LR)

    def step(images: Tensor) -> Tensor:
        numbers = draw(len(images), views, torch.Generator().manual_seed(0))
        answers = []
        for image, rows in zip(images, numbers, strict=True):
            adapted.load_state_dict(source)
            batch = torch.cat([augmix_views(image[None], row.view(1, 1, -1))[0] for row in rows])
            optimizer.zero_grad()
            marginal_entropy(adapted(batch)).backward()
            optimizer.step()
            with torch.no_grad():
                answers.append(adapted(image[None]))
        return torch.cat(answers)

    return step


def vmapped(model: nn.Module, views: int) -> Step:
    """MEMO by torch.func: gradients of four images at a time."""
    adapted = copy.deepcopy(model).requires_grad_(False)
    share = PRIOR / (PRIOR + 1)

    def forward(layer: nn.BatchNorm2d, x: Tensor) -> Tensor:
        assert layer.running_mean is not None
        assert layer.running_var is not None
        mean = x.detach().mean(dim=(0, 2, 3))
        centred = x.detach() - mean.view(1, -1, 1, 1)
        var = centred.square().sum(dim=(0, 2, 3)) / (x[:, 0].numel() - 1)
        mean = share * layer.running_mean + (1 - share) * mean
        var = share * layer.running_var + (1 - share) * var
        return F.batch_norm(x, mean, var, layer.weight, layer.bias, False, 0.0, layer.eps)

    for layer in adapted.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.forward = forward.__get__(layer)  # type: ignore[method-assign]
    weights: dict[str, Tensor] = dict(adapted.named_parameters())

    def loss(values: dict[str, Tensor], x: Tensor) -> Tensor:
        return marginal_entropy(functional_call(adapted, values, (x,)))

    def step(images: Tensor) -> Tensor:
        numbers = draw(len(images), views, torch.Generator().manual_seed(0))
        answers = []
        for few, rows in zip(images.split(4), numbers.split(4), strict=True):
            gradients = vmap(grad(loss), in_dims=(None, 0))(weights, augmix_views(few, rows))
            for i in range(len(few)):
                own = {name: p - LR * gradients[name][i] for name, p in weights.items()}
                answers.append(functional_call(adapted, own, (few[i : i + 1],)))
        return torch.cat(answers)

    return step


def contenders(model: nn.Module, views: int) -> dict[str, Step]:
    """Name -> a function from images to answers, always with the same views."""

    def method(**settings: Any) -> Step:
        adapted = MEMO(model, views=views, lr=LR, prior=PRIOR, **settings)

        def step(images: Tensor) -> Tensor:
            adapted.reset()
            answers: Tensor = adapted(images)
            return answers

        return step

    return {
        "plain": plain(model, views),
        "vmap": vmapped(model, views),
        "one by one": method(images_at_once=1),
        "at once": method(),
    }


def fastest(run: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest of some calls, after one to warm up."""
    run()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)


def floor_seconds(model: nn.Module, image: Tensor, views: int) -> tuple[float, float, float]:
    """Return GFLOP an image, GFLOP/s of a matrix product, and what the first takes at the second."""
    network = copy.deepcopy(model).requires_grad_(True)
    counter = FlopCounterMode(display=False)
    with counter:
        marginal_entropy(network(image.expand(views, -1, -1, -1))).backward()
        with torch.no_grad():
            network(image)
    work = counter.get_total_flops() / 1e9
    square = torch.rand(2048, 2048)
    speed = 2 * 2.048**3 / fastest(lambda: square @ square, 20)
    return work, speed, work / speed


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--views", type=int, default=32)
    parser.add_argument("--network", default="wrn16_2.cifar10", help="a name that `midway models` lists, or tiny")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    tiny = arguments.network == "tiny"
    model = tiny_network(classes=10) if tiny else midway.models.load(arguments.network)
    data = midway.data.load("cifar10-mini").first(arguments.images)
    images = next(iter(midway.streams.pure(data, "gaussian_noise", batch_size=arguments.images))).images
    steps = contenders(model, arguments.views)
    times: dict[str, list[float]] = {name: [] for name in steps}
    answers: dict[str, Tensor] = {}
    for turn in range(arguments.repeats + 1):
        for name, step in steps.items():
            started = time.perf_counter()
            answers[name] = step(images).detach()
            if turn:  # the first turn warms up
                times[name].append((time.perf_counter() - started) / len(images))
    work, speed, floor = floor_seconds(model, images[:1], arguments.views)
    table = Table("", "s/image", "times faster than plain", "largest difference of logits")
    rows: dict[str, dict[str, float]] = {}
    for name, values in times.items():
        difference = (answers[name] - answers["one by one"]).abs().max().item()
        rows[name] = {"seconds": min(values), "faster": min(times["plain"]) / min(values), "difference": difference}
        table.add_row(name, f"{min(values):.4f}", f"{rows[name]['faster']:.2f}", f"{difference:.1e}")
    table.add_row("floor", f"{floor:.4f}", f"{min(times['plain']) / floor:.2f}", "-")
    Console().print(table)
    print(f"{work:.2f} GFLOP an image at {speed:.0f} GFLOP/s")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    settings = {key: getattr(arguments, key) for key in ("images", "threads", "views", "network")}
    stored = {"settings": settings, "gflop": work, "gflops": speed, "floor": floor, "rows": rows}
    OUT.write_text(json.dumps(stored, indent=1) + "\n")
    print(f"written to {OUT}")


if __name__ == "__main__":
    main()
