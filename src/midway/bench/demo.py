"""The demo: every method that fits the time, three scenarios, the embedded network and images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from torch import nn

import midway.data
import midway.methods
import midway.models
from midway.bench.comparison import Comparison
from midway.bench.estimate import Price, price
from midway.bench.evaluate import Result, evaluate
from midway.streams import Stream, mixture, outlier, pure

MODEL = "wrn16_2.cifar10"
DATA = "cifar10-mini"
SHIFT_A, SHIFT_B = "glass_blur", "gaussian_noise"
SEVERITY = 5
ALWAYS = ("source", "bn", "tent")  # cheap, and a demo without adaptation would show nothing
HEADLINE = "mita"  # what people come for: fewer images rather than none of it
IMAGE_COUNTS = (2000, 1000, 600, 400)
STOPPED = "stopped"  # among the settings of a demo that was

Progress = Callable[[str, float, float], None]
"""Told what is running, the estimated seconds done and the estimated seconds in all."""


def run_demo(
    *,
    methods: Sequence[str] | None = None,
    images: int | None = None,
    batch_size: int = 200,
    budget_seconds: float = 120.0,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> Comparison:
    """Compare methods on a pure, an outlier and a mixed stream of corrupted CIFAR-10 images.

    Ctrl-C ends it early; what is finished is returned.

    Args:
        methods: Names of methods, Source is added; all registered ones if left out.
        images: How many of the embedded 2,000 images to use; as many as the time allows with MITA among the methods
            if left out.
        batch_size: Images a batch.
        budget_seconds: Methods that would go beyond this are left out, dearest first, and named; Source, BN, TENT and
            MITA always run, on a slow machine for longer.
        seed: Seed of the corruptions and of the outliers' places.
        on_progress: Called after every batch.

    Example:
        >>> from midway.bench.demo import run_demo
        >>> demo = run_demo(methods=["source", "bn"], images=200)
        >>> len(demo.results), demo.left_out
        (6, {})
    """
    wanted = midway.methods.names() if methods is None else list(dict.fromkeys(["source", *methods]))
    for name in wanted:
        midway.methods.find(name)
    if images is not None and images < batch_size:
        raise ValueError(f"{images} images do not fill a batch of {batch_size}: use at least {batch_size} images.")
    data = midway.data.load(DATA)
    model = midway.models.load(MODEL)
    sample = next(iter(pure(data, SHIFT_B, severity=SEVERITY, batch_size=batch_size, seed=seed)))
    prices = {name: price(midway.methods.adapt(model, name), sample.images) for name in wanted}
    if images is None:
        images = _affordable_images(prices, budget_seconds)
    data = data.first(images)
    streams = [stream.cached() for stream in _scenarios(data, batch_size, seed)]
    seconds = {name: len(streams) * cost.of(images) for name, cost in prices.items()}
    chosen, left_out = _within_budget(seconds, budget_seconds)
    results: list[Result] = []
    stopped = False
    try:
        for result in _run(model, chosen, streams, seconds, on_progress):
            results.append(result)  # noqa: PERF402 one by one, for whoever is impatient
    except KeyboardInterrupt:
        stopped = True
        counts = Counter(result.method for result in results)
        left_out |= {name: "stopped before its streams were over" for name in chosen if counts[name] < len(streams)}
    settings = {
        "network": MODEL,
        "data": DATA,
        "images": len(data),
        "batch size": batch_size,
        "severity": SEVERITY,
        "seed": seed,
        "version": midway.__version__,
    } | ({STOPPED: True} if stopped else {})
    command = f"midway demo --methods {','.join(chosen)} --images {len(data)} --budget {budget_seconds:g} --seed {seed}"
    return Comparison("Midway demo: corrupted CIFAR-10", command, settings, tuple(results), left_out)


def _scenarios(data: midway.data.ImageSet, batch_size: int, seed: int) -> list[Stream]:
    """Return the three scenarios; the outlier stream has one outlier in every batch."""
    return [
        pure(data, SHIFT_B, severity=SEVERITY, batch_size=batch_size, seed=seed),
        outlier(data, SHIFT_A, SHIFT_B, ratio=1 / batch_size, severity=SEVERITY, batch_size=batch_size, seed=seed),
        mixture(data, SHIFT_A, SHIFT_B, severity=SEVERITY, batch_size=batch_size, seed=seed),
    ]


def _affordable_images(prices: dict[str, Price], budget: float) -> int:
    """Choose the largest number of images at which the basics and the headline method fit the budget."""
    needed = [cost for name, cost in prices.items() if name in (*ALWAYS, HEADLINE)]
    fitting = [count for count in IMAGE_COUNTS if 3 * sum(cost.of(count) for cost in needed) <= budget]
    return fitting[0] if fitting else IMAGE_COUNTS[-1]


def _within_budget(seconds: dict[str, float], budget: float) -> tuple[list[str], dict[str, str]]:
    """Drop the dearest methods until the rest fit; return the names that stay, in order, and the reasons."""
    left_out: dict[str, str] = {}
    kept = (*ALWAYS, HEADLINE)
    while sum(seconds.values()) > budget and (optional := [name for name in seconds if name not in kept]):
        dearest = max(optional, key=lambda name: seconds[name])
        left_out[dearest] = f"would take about {seconds[dearest]:.0f} s, more than the others leave of {budget:.0f} s"
        seconds = {name: cost for name, cost in seconds.items() if name != dearest}
    return list(seconds), left_out


def _run(
    model: nn.Module, names: list[str], streams: list[Stream], seconds: dict[str, float], on_progress: Progress | None
) -> Iterator[Result]:
    total = sum(seconds[name] for name in names)
    batches = sum(map(len, streams))
    done = 0.0
    for name in names:
        method = midway.methods.adapt(model, name)
        for stream in streams:

            def tick(running: float, name: str = name, stream: Stream = stream) -> None:
                nonlocal done
                done += seconds[name] / batches
                if on_progress is not None:
                    on_progress(f"{name} on {stream.name}, {running:.1f} % so far", done, total)

            yield evaluate(method, stream, on_batch=tick)
