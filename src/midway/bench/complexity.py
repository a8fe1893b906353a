"""The cost of methods: the MITA paper's count of forward passes, and the measured cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from midway.bench import paper
from midway.bench.entries import Entry
from midway.bench.suites import compared
from midway.cost import PAPER_FORWARD_PASSES, Cost, measure_cost, paper_gflops
from midway.methods import adapt
from midway.suggest import unknown


@dataclass(frozen=True)
class Line:
    """A row of the complexity table.

    Attributes:
        label: Its label.
        gflops_as_published: GFLOPs per image of this network by the rule of the paper; None if it has no rule.
        published: The row of the paper, for WRN-28-10; None if there is none.
        cost: The measured cost; None if the method was not run.
    """

    label: str
    gflops_as_published: float | None
    published: paper.Complexity | None
    cost: Cost | None


def complexity_entries() -> dict[str, Entry]:
    """Return what to measure: the rows of the paper with its settings, then the methods with their defaults.

    Example:
        >>> from midway.bench.complexity import complexity_entries
        >>> complexity_entries()["mita_5_sgld_steps"].settings["langevin_steps"]
        5
    """
    entries = [Entry(row.method, _settings(row), row.label) for row in paper.complexity()]
    known = {entry.label for entry in entries}
    ours = [Entry(e.name, e.settings, f"{e.label}, default" if e.label in known else e.label) for e in compared()]
    alike = {(entry.name, repr(entry.settings)) for entry in entries}
    return {e.label: e for e in (*entries, *(e for e in ours if (e.name, repr(e.settings)) not in alike))}


def _settings(row: paper.Complexity) -> dict[str, int]:
    if row.views is not None:
        return {"views": row.views}
    if row.langevin_steps is None:
        return {}
    # N = N~ = Td = 1 agrees with the paper's numbers
    once = {"predictor_steps": 1, "data_model_steps": 1, "data_steps": 1}
    return {"langevin_steps": row.langevin_steps, "shared_pass": False, **(once if row.method == "mita" else {})}


def measure_complexity(
    network: nn.Module,
    images: Tensor,
    *,
    only: Sequence[str] = (),
    repeats: int = 1,
    on_entry: Callable[[str, int, int], None] | None = None,
) -> list[Line]:
    """Measure the cost of one batch for each method on a network, beside the count of the paper.

    Args:
        network: The classifier; its weights do not matter.
        images: One batch (the paper: 200 images of CIFAR-10-C, gaussian noise).
        only: Labels of the rows to measure; all by default. The others have only the count of the paper.
        repeats: Timed runs after the one that counts passes, see ``midway.cost.measure_cost``.
        on_entry: Called before each row with its label, the rows done and the number of rows.

    Example:
        >>> import torch
        >>> from midway.bench.complexity import measure_complexity
        >>> from midway.models import create
        >>> lines = measure_complexity(create("resnet20"), torch.rand(4, 3, 32, 32), only=["source"])
        >>> lines[0].label, lines[0].cost.forward_passes, round(lines[0].gflops_as_published, 3)
        ('source', 1.0, 0.042)
    """
    entries = complexity_entries()
    for label in only:
        if label not in entries:
            raise ValueError(unknown("row of the complexity table", label, entries))
    rows = {row.label: row for row in paper.complexity()}
    running = [entry.label for entry in entries.values() if not only or entry.label in only]
    channels, height, width = images.shape[1:]
    source = paper_gflops(network, "source", image_shape=(channels, height, width))
    lines = []
    for label, entry in entries.items():
        cost = None
        if label in running:
            if on_entry is not None:
                on_entry(label, running.index(label), len(running))
            cost = measure_cost(adapt(network, entry.name, **entry.settings), images, repeats=repeats)
        row = rows.get(label)
        if row is not None or cost is not None:
            lines.append(Line(label, None if row is None else _passes(row) * source, row, cost))
    return lines


def _passes(row: paper.Complexity) -> int:
    return PAPER_FORWARD_PASSES[row.method](row.langevin_steps or 1, row.views or 1)
