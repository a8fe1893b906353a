"""Damage every file that the package reads, and read it: it is refused in one sentence that names it, or it is read."""

from __future__ import annotations

import io
import pickle
import random
import resource
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chaos.damage import WAYS
from chaos.listings import listing_readers

if TYPE_CHECKING:
    from chaos.campaign import Row

SECONDS, MEMORY_MB = 20.0, 1_000


def readers(folder: Path) -> dict[str, tuple[Path, Callable[[], Any]]]:
    """Return a file of each kind, and how the package reads it; ``folder`` has the undisturbed runs."""
    import torch
    from PIL import Image
    from safetensors.torch import save_file

    from midway import data, models
    from midway.bench import load_plan, load_predictions, read_records
    from midway.bench.budget import BudgetChoice
    from midway.data.manifest import Manifest
    from midway.tune import StudyResult
    from midway.tune.storage import open_storage

    made = folder / "files"
    made.mkdir()
    run, tune, corrupted = (folder / name / "undisturbed" for name in ("run", "tune", "data make"))
    record = next(record for record in read_records(run) if record.predictions)
    plan = made / "plan.toml"
    plan.write_text('methods = "tent,bn(prior=16)"\nscenarios = ["pure:fog"]\nseeds = [0, 1]\nimages = 40\n')
    BudgetChoice(40, 100, 2.5, {"memo": "too slow"}).save(made / "budget.json")
    images = np.random.default_rng(1).integers(0, 256, (20, 32, 32, 3), np.uint8)
    batch = {"data": images.reshape(20, 3072), "labels": [index % 10 for index in range(20)]}
    for name, content in {
        "pickles/test_batch": pickle.dumps(batch, protocol=2),
        "npz/cifar10.npz": _saved(np.savez_compressed, images=images, labels=np.arange(20) % 10),
        "npy/test_images.npy": _saved(np.save, images),
        "npy/test_labels.npy": _saved(np.save, np.arange(20) % 10),
    }.items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_bytes(content)
    for suffix in ("png", "jpg"):
        (made / suffix / "cat").mkdir(parents=True)
        Image.fromarray(images[0]).save(made / suffix / "cat" / f"0.{suffix}")
    weights = models.create("resnet20").state_dict()
    torch.save(weights, made / "weights.pth")
    save_file(weights, made / "weights.safetensors")
    torch.save(weights, made / "checked.pth")
    models.checkpoints.write_digest(made / "checked.pth")

    def storage() -> Any:
        with open_storage(str(tune / "study.journal")) as journal:
            numbers = [study._study_id for study in journal.get_all_studies()]
            return [str(trial.params) for number in numbers for trial in journal.get_all_trials(number)]

    def parameters(name: str) -> Any:
        return {key: value.tolist() for key, value in models.load(made / name).state_dict().items()}

    def pixels(name: str, root: Path, **which: Any) -> Any:
        loaded = data.load(name, root, **which)
        return loaded.images[np.arange(len(loaded))].tolist(), loaded.labels.tolist()

    return {
        "results.jsonl": (run / "results.jsonl", lambda: [item.to_line() for item in read_records(run)]),
        "predictions (.npz)": (
            run / str(record.predictions),
            lambda: {key: value.tolist() for key, value in load_predictions(run, record).items()},
        ),
        "study.journal": (tune / "study.journal", storage),
        "study.json": (tune / "study.json", lambda: StudyResult.load(tune / "study.json")),
        "best.toml": (tune / "best.toml", lambda: str(load_plan(tune / "best.toml"))),
        "plan (.toml)": (plan, lambda: [cell.key for cell in load_plan(plan).cells()]),
        "budget.json": (made / "budget.json", lambda: BudgetChoice.load(made / "budget.json")),
        "manifest.json": (corrupted / "manifest.json", lambda: Manifest.read(corrupted)),
        "corrupted images (.npy)": (
            corrupted / "contrast.npy",
            lambda: pixels("cifar10-c", corrupted, corruption="contrast"),
        ),
        "labels (.npy)": (corrupted / "labels.npy", lambda: pixels("cifar10-c", corrupted, corruption="contrast")),
        "CIFAR-10 pickle": (made / "pickles" / "test_batch", lambda: pixels("cifar10", made / "pickles")),
        "CIFAR-10 .npz": (made / "npz" / "cifar10.npz", lambda: pixels("cifar10", made / "npz")),
        "CIFAR-10 .npy": (made / "npy" / "test_images.npy", lambda: pixels("cifar10", made / "npy")),
        "image (.png)": (made / "png" / "cat" / "0.png", lambda: pixels("folder", made / "png", size=32)),
        "image (.jpg)": (made / "jpg" / "cat" / "0.jpg", lambda: pixels("folder", made / "jpg", size=32)),
        "weights (.safetensors)": (made / "weights.safetensors", lambda: parameters("weights.safetensors")),
        "weights (.pth)": (made / "weights.pth", lambda: parameters("weights.pth")),
        "weights with a checksum": (made / "checked.pth", lambda: parameters("checked.pth")),
        **listing_readers(made / "lists"),
    }


def _saved(save: Callable[..., None], *arrays: Any, **named: Any) -> bytes:
    file = io.BytesIO()
    save(file, *arrays, **named)
    return file.getvalue()


def damage_files(folder: Path, ways: int, chance: random.Random) -> list[Row]:
    """Damage each file in ``ways`` of the twenty ways and read it."""
    from chaos.campaign import Row

    held = "refused in one sentence that names the file, or read; within 20 seconds and 1 GB"
    rows, unnoticed = [], 0
    for name, (path, read) in readers(folder).items():
        row = Row(f"damaged {name}", held)
        whole, expected = path.read_bytes(), read()
        for way in chance.sample(sorted(WAYS), ways):
            damaged = WAYS[way](whole, chance)
            path.write_bytes(damaged)
            started, memory = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            fault = ""
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    unnoticed += read() != expected
            except (ValueError, OSError) as error:
                if path.name not in str(error) or "\n" in str(error).strip():
                    fault = f"{way}: unnamed, {type(error).__name__}: {error}"
            except BaseException as error:
                fault = f"{way}: raw {type(error).__name__}: {error}"
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
            if time.monotonic() - started > SECONDS or grown > MEMORY_MB:
                fault = f"{way}: {time.monotonic() - started:.0f} s, {grown:.0f} MB"
            row.count(not fault, fault)
            path.write_bytes(whole)
        rows.append(row)
    total = Row(
        f"all of these files ({unnoticed} times read with other content: a changed digit or pixel, and no checksum)",
        held,
    )
    total.tried, total.held = sum(row.tried for row in rows), sum(row.held for row in rows)
    return [*rows, total]
