"""Answers of many methods and settings in many scenarios, from which label-free scores are chosen and tested.

Writes one compressed file per scenario and candidate: logits, logits of the mirrored images, labels and the sizes of
the batches. ``benchmarks/label_free_table.py`` computes the scores of them and what a recommendation would cost. Files
that exist are not computed again; ``--methods`` computes some candidates alone. The network for PACS is that of
``recipes/finetune_pacs.py``. The scores were chosen on the scenarios of TUNING; those of TEST only tested them.

    python benchmarks/label_free_answers.py --out runs/label_free --part tuning
    python benchmarks/label_free_answers.py --out runs/label_free --part test
    python benchmarks/label_free_answers.py --out runs/label_free --part cifar100
        --images100 cifar100_test.npz --weights100 cifar100_resnet20.pth
    python benchmarks/label_free_answers.py --out runs/label_free --part pacs --pacs path/to/PACS
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import midway
from midway.adaptation.batch_norm.cluster_state import trackers_of
from midway.bench.entries import parse_entries
from midway.bench.resources import arrange, load_network
from midway.data import ImageSet, corruption_names
from midway.streams import Stream, build

FIRST, REST = 800, 600
"""Images of a tuning scenario, and of a test scenario; fewer per shift in streams of many shifts."""

CORRELATED_BATCH = 40
"""Images of a batch of a correlated stream: so few images have runs of 60 to 80 of a class."""

TUNING = {
    "pure:clean": FIRST,
    "pure:speckle_noise": FIRST,
    "pure:gaussian_blur": FIRST,
    "correlated:clean@0.1": FIRST,
    "correlated:speckle_noise@0.1": FIRST,
    "mixture:speckle_noise/gaussian_blur": FIRST,
    "continual:speckle_noise+gaussian_blur+spatter+saturate": 200,
    "outlier:clean/speckle_noise@0.05": FIRST,
    "pure:spatter": FIRST,
    "pure:saturate": FIRST,
    "correlated:gaussian_blur+saturate@0": 400,
    "mixture:clean/speckle_noise@0.8": FIRST,
    "outlier:gaussian_blur/spatter@0.005": FIRST,
    "mixed:speckle_noise+gaussian_blur+spatter+saturate": 200,
    "mixture:spatter/speckle_noise@0.3": FIRST,
    "pure:speckle_noise#1": FIRST,
    "pure:saturate#1": FIRST,
}
ALL = "+".join(corruption_names("benchmark"))
TEST = {
    **{f"pure:{name}": REST for name in corruption_names("benchmark")},
    "correlated:fog@0.1": REST,
    "correlated:gaussian_noise@0.1": REST,
    "mixture:glass_blur/gaussian_noise": REST,
    "outlier:glass_blur/gaussian_noise@0.005": REST,
    f"continual:{ALL}": 80,
    "mixture:motion_blur/contrast": REST,
    "correlated:glass_blur+frost@0": 400,
    "outlier:motion_blur/contrast@0.005": REST,
    "mixture:impulse_noise/gaussian_noise": REST,
    f"mixed:{ALL}": 80,
}
CIFAR100 = {
    "pure:clean": REST,
    "pure:gaussian_noise": REST,
    "pure:fog": REST,
    "mixture:glass_blur/gaussian_noise": REST,
    "correlated:fog@0.1": REST,
}
PACS = {"pure:art_painting": 300, "pure:cartoon": 300, "pure:sketch": 300}
"""Domains that the network, fine-tuned on photos, has not seen; in batches of 60."""

SHARED = ("source", "t3a", "lame")
"""Candidates that use the features of the unadapted network, which are computed once."""

CANDIDATES = (
    "source,t3a,lame,bn,bn(statistics='clustered'),tent,tent(statistics='clustered'),eata,shot,sar,roid,"
    "tea(langevin_steps=1, shared_pass=True),mita,mita(statistics='clustered'),tent(lr=0.1),shot(lr=0.1)"
)
"""What is compared by default: among them, on purpose, two settings that destroy the network (lr=0.1)."""


class SharedFeatures(nn.Module):
    """A classifier whose features are remembered by their images, for methods that do not change them."""

    known: dict[bytes, Tensor]

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.fc: nn.Module = network.get_submodule("fc")
        network.fc = nn.Identity()
        self.body = network
        SharedFeatures.known = {}

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits."""
        key = images.numpy().tobytes()
        if key not in SharedFeatures.known:
            SharedFeatures.known[key] = self.body(images).detach()
        logits: Tensor = self.fc(SharedFeatures.known[key])
        return logits


def shifted(images: Tensor) -> Tensor:
    """Return images that are moved to the right and downwards by a tenth of their side; edges are reflected."""
    margin = images.shape[-1] // 10
    padded = nn.functional.pad(images, [margin, 0, margin, 0], mode="reflect")
    return padded[..., : images.shape[-2], : images.shape[-1]]


def answer_view(method: midway.AdaptiveClassifier, view: Tensor) -> Tensor:
    """Return the answer to a view that ``midway.compare`` computes; without the update where that is equal."""
    name = method.about.name
    before = method.snapshot()
    if name in ("tent", "eata", "sar", "shot") and not trackers_of(
        method
    ):  # the answer of the network before the update
        with torch.no_grad():
            logits = method.network_logits(view)
    else:
        logits = method(view)
    method.restore(before)
    return logits


def answers(
    method: midway.AdaptiveClassifier, batches: list[tuple[Tensor, Tensor]], *, shift: bool
) -> dict[str, np.ndarray]:
    """Return the arrays of one file."""
    logits, spent = [], 0.0
    views: dict[str, list[np.ndarray]] = {"mirrored": [], "shifted": []} if shift else {"mirrored": []}
    for images, _ in batches:
        for name, found in views.items():
            view = images.flip(-1) if name == "mirrored" else shifted(images)
            found.append(answer_view(method, view).half().numpy())
        started = time.process_time()
        logits.append(method(images).half().numpy())
        spent += time.process_time() - started
    labels = np.concatenate([labels.numpy() for _, labels in batches])
    sizes = np.array([len(images) for images, _ in batches])
    return {
        "logits": np.concatenate(logits),
        **{name: np.concatenate(found) for name, found in views.items()},
        "labels": labels.astype(np.int16),
        "sizes": sizes,
        "seconds": np.array(spent),
    }


def pacs_streams(root: Path | None) -> Iterator[Stream]:
    """Yield a stream for each domain, named after it."""
    for text, images in PACS.items():
        data = midway.data.load("pacs", root, domain=text.partition(":")[2])
        stream = build("pure:clean", arrange(data, images=images, seed=0), batch_size=60, seed=0)
        stream.name = text
        yield stream


def streams(part: str, images100: Path | None, pacs: Path | None) -> Iterator[Stream]:
    """Yield the streams of a part of the scenarios."""
    if part == "pacs":
        yield from pacs_streams(pacs)
        return
    if part == "cifar100":
        if images100 is None:
            raise SystemExit("--images100 is missing: an .npz file with the arrays images and labels.")
        arrays = np.load(images100)
        names = tuple(str(index) for index in range(100))
        data = ImageSet(arrays["images"], arrays["labels"].astype(np.int64), names, name="cifar100")
    else:
        data = midway.data.load("cifar10")
    scenarios = {"tuning": TUNING, "test": TEST, "cifar100": CIFAR100}[part]
    for text, images in scenarios.items():
        size = CORRELATED_BATCH if text.startswith("correlated") else 200
        yield build(text, data.first(images), batch_size=size, seed=0)


def main() -> None:
    """Compute the answers that are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", choices=["tuning", "test", "cifar100", "pacs"], required=True)
    parser.add_argument("--methods", default=CANDIDATES)
    parser.add_argument("--images100", type=Path)
    parser.add_argument("--weights100", type=Path)
    parser.add_argument("--pacs", type=Path, help="folder of PACS")
    parser.add_argument("--only", help="names of scenarios, separated by commas")
    parser.add_argument("--shift", action="store_true", help="also answer shifted images")
    parser.add_argument("--reverse", action="store_true", help="begin at the last scenario, for a second process")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")

    def network() -> nn.Module:
        if options.part == "pacs":
            recipe = Path(__file__).parents[1] / "recipes" / "networks.py"
            return load_network(f"{recipe}:efficientnet_lite0_photos", 0)
        if options.part != "cifar100":
            return midway.models.load("wrn16_2.cifar10")
        return midway.models.load(options.weights100, architecture=options.weights100.stem.split("_")[-1], classes=100)

    chosen = options.only.split(",") if options.only else None
    for stream in list(streams(options.part, options.images100, options.pacs))[:: -1 if options.reverse else 1]:
        if chosen is not None and stream.name not in chosen:
            continue
        folder = options.out / options.part / stream.name.replace("/", "|").replace(ALL, "all")
        folder.mkdir(parents=True, exist_ok=True)
        batches, shared = None, None
        model: nn.Module
        for entry in parse_entries(options.methods):
            path = folder / f"{entry.label}.npz"
            if path.exists():
                continue
            batches = batches or [(batch.images, batch.labels) for batch in stream]
            if entry.name in SHARED and options.part != "pacs":
                shared = model = shared or SharedFeatures(network())
            else:
                model = network()
            arrays = answers(midway.adapt(model, entry.name, **entry.settings), batches, shift=options.shift)
            part = path.with_suffix(".part.npz")
            np.savez_compressed(part, **arrays)  # type: ignore[arg-type]
            part.rename(path)
            accuracy = 100 * (arrays["logits"].argmax(1) == arrays["labels"]).mean()
            print(f"{stream.name[:60]:60} {entry.label:30} {accuracy:6.2f} {arrays['seconds']:.1f} s", flush=True)


if __name__ == "__main__":
    main()
