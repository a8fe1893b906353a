"""The plan of the demo: the methods that fit the time, three scenarios, the embedded network and images."""

from __future__ import annotations

from collections.abc import Sequence

from midway.bench.entries import parse_entries
from midway.bench.plan import Grid
from midway.methods import names

NETWORK, DATA = "wrn16_2.cifar10", "cifar10-mini"
REQUIRED = ("source", "bn", "tent", "mita")
"""Methods that always run: three fast ones, and MITA."""


def demo_grid(methods: Sequence[str] = (), *, images: int | None = None, batch_size: int = 200, seed: int = 0) -> Grid:
    """Return the plan of ``midway demo``: a pure, an outlier and a mixed stream of corrupted CIFAR-10 images.

    Args:
        methods: Methods as on the command line; Source is added. All registered ones by default.
        images: Number of the embedded 2,000 images; None for all.
        batch_size: Images per batch; every batch of the outlier stream has one outlier.
        seed: Seed of the corruptions, the outliers and the methods.

    Example:
        >>> from midway.bench.demo import demo_grid
        >>> [str(cell.scenario) for cell in demo_grid(["bn"], images=200).cells()[::2]]
        ['pure:gaussian_noise', 'outlier:glass_blur/gaussian_noise@0.005', 'mixture:glass_blur/gaussian_noise@0.5']
    """
    if images is not None and images < batch_size:
        raise ValueError(f"{images} images do not fill a batch of {batch_size}: use at least {batch_size} images.")
    pair = "glass_blur/gaussian_noise"
    return Grid(
        methods=tuple(parse_entries(", ".join(dict.fromkeys(["source", *(methods or names())])))),
        networks=(NETWORK,),
        data=(DATA,),
        scenarios=("pure:gaussian_noise", f"outlier:{pair}@{1 / batch_size!r}", f"mixture:{pair}@0.5"),
        seeds=(seed,),
        batch_sizes=(batch_size,),
        images=images,
    )
