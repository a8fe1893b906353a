"""A method in a service: guarded against collapse, monitored, saved and continued by another process.

python examples/in_production.py
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch

import midway


def service() -> midway.AdaptiveClassifier:
    """Create the adapting classifier; each process does this with the same network and settings."""
    model = midway.models.load("wrn16_2.cifar10")
    # wrap="guarded" restores the last good state if predictions collapse; on_nonfinite="source" answers a batch whose
    # logits would be NaN by the unadapted network.
    return midway.adapt(model, "tent", lr=1e-3, wrap="guarded", on_nonfinite="source")


def main(images: int) -> dict[str, float]:
    """Serve batches, watch the diagnostics, save the state, continue in a second service, and reset."""
    torch.set_num_threads(1)  # a service that shares its machine; the last bits of the answers depend on it
    data = midway.data.load("cifar10-mini").first(images)
    batches = [batch.images for batch in midway.streams.pure(data, "saturate", batch_size=50)]
    half = len(batches) // 2

    adapted = service()
    for number, batch in enumerate(batches[:half]):
        confidence = adapted(batch).softmax(dim=1).amax(dim=1).mean()
        seen = {name: adapted.diagnostics.get(name, 0) for name in ("rollbacks", "source_predictions", "skipped_steps")}
        print(f"batch {number}: mean confidence {confidence:.2f}, {seen}")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.pt"
        torch.save(adapted.state_dict(), path)
        continued = service()
        continued.load_state_dict(torch.load(path, weights_only=False))  # a file that you wrote yourself
    same = all(torch.equal(adapted(batch), continued(batch)) for batch in batches[half:])
    print("the second service gives the same answers:", same)

    adapted.reset()  # for example when the camera is exchanged
    fresh = torch.equal(adapted(batches[0]), service()(batches[0]))
    print("after a reset it is as new:", fresh)
    return {"same": float(same), "fresh": float(fresh), "batches": float(len(batches))}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=300)
    main(parser.parse_args().images)
