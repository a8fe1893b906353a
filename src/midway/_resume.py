"""Resume a method in another process, for the contract of ``midway.testing``."""

from __future__ import annotations

import atexit
import json
import os
import pickle
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from midway.adaptation.classifier import AdaptiveClassifier

RESUMING = "MIDWAY_RESUMING"  # set in the process that resumes: it must not start another one


def resume_elsewhere(fresh: AdaptiveClassifier, folder: Path) -> list[Tensor]:
    """Load ``state.pt`` of a folder into a fresh method and return its logits of ``stream.pt``, in another process.

    A class that another process cannot import (from ``__main__`` or from within a function) is resumed in this one.
    """
    if os.environ.get(RESUMING):
        raise RuntimeError("the contract runs while a module is imported: move it into a test function.")
    modules = {type(module).__module__ for module in fresh.modules()}
    try:
        pickle.dumps(fresh)
    except (pickle.PicklingError, AttributeError):
        modules.add("__main__")
    if "__main__" in modules:
        return _resume(fresh, folder)
    torch.save(fresh, folder / "fresh.pt")
    files = {name: getattr(sys.modules[name], "__file__", None) for name in modules}
    roots = {str(Path(file).parents[name.count(".")]) for name, file in files.items() if file}
    worker = _worker()
    assert worker.stdin is not None
    assert worker.stdout is not None
    job = {"folder": str(folder), "path": sorted(roots), "threads": torch.get_num_threads()}
    print(json.dumps(job), file=worker.stdin, flush=True)
    report = worker.stdout.readline().strip()
    assert report == "done", f"another process cannot resume the method: {report or 'it ended'}"
    resumed: list[Tensor] = torch.load(folder / "resumed.pt", weights_only=True)
    return resumed


def _resume(fresh: AdaptiveClassifier, folder: Path) -> list[Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fresh.load_state_dict(torch.load(folder / "state.pt", weights_only=True))
        return [fresh(images) for images in torch.load(folder / "stream.pt", weights_only=True)]


@cache
def _worker() -> subprocess.Popen[str]:
    """Start the process that serves all checks: importing torch takes longer than a check."""
    environment = {**os.environ, RESUMING: "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", "from midway._resume import serve; serve()"]
    worker = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(worker.communicate)  # closes its input, which ends it
    return worker


def serve() -> None:
    """Resume the methods in the folders given on standard input, and report each on standard output."""
    for line in sys.stdin:
        job = json.loads(line)
        try:
            sys.path += [path for path in job["path"] if path not in sys.path]
            torch.set_num_threads(job["threads"])
            folder = Path(job["folder"])
            fresh = torch.load(folder / "fresh.pt", weights_only=False)
            torch.save(_resume(fresh, folder), folder / "resumed.pt")
            print("done", flush=True)
        except Exception as error:  # the code of another package can raise anything
            print(f"{type(error).__name__}: {error}".replace("\n", " "), flush=True)
