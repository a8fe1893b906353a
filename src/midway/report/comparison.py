"""Stored results as comparisons, which tables and reports read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from midway.bench.cell import Cell
from midway.bench.comparison import Comparison
from midway.bench.store import Record

TELLING = ("precision", "device", "threads", "size", "version", "network", "weights", "data")
"""Settings that tell comparisons of one title apart."""


def gather(records: Iterable[Record], *, command: str | None = None) -> list[Comparison]:
    """Put results that can stand in one table together: those of one network, data set and batch size.

    Seeds, scenarios and methods differ within a comparison; cells that failed are among what was left out. Of several
    records of one cell the last one counts, also if the method or the images have changed since; but a repetition that
    failed does not hide a result.

    Args:
        records: Of a store.
        command: What repeats them; that of the last record if left out.

    Example:
        >>> from midway.bench import Grid, LocalEngine, gather
        >>> from midway.bench.store import Record
        >>> cells = Grid.from_dict({"methods": "source", "images": 100, "batch_sizes": [50, 100]}).cells()
        >>> done = [Record(o.cell, o.result, o.failure, 0, {}, "", "") for o in LocalEngine().run(cells)]
        >>> [comparison.title for comparison in gather(done)]
        ['wrn16_2.cifar10 on cifar10-mini, 100 images, batches of 50',
         'wrn16_2.cifar10 on cifar10-mini, 100 images, batches of 100']
    """
    groups: dict[tuple[object, ...], list[Record]] = {}
    for record in _last_words(records):
        shared = _common(record.cell) | {"network": record.cell.architecture}  # wherever its weights lie
        groups.setdefault(tuple(shared.values()), []).append(record)
    return _tell_apart([_compare(group, command) for group in groups.values()])


def _last_words(records: Iterable[Record]) -> Iterable[Record]:
    """Keep the last word on each cell; what a method or a folder that has changed since gave is no longer true."""
    found: dict[str, Record] = {}
    for record in records:
        key = replace(record.cell, content="").key
        known = found.get(key)
        stale = known is not None and known.cell.content != record.cell.content
        if stale or record.replaces(known):
            found[key] = record
    return found.values()


def _tell_apart(comparisons: list[Comparison]) -> list[Comparison]:
    """Add to equal titles the settings in which their comparisons differ."""
    made = []
    for comparison in comparisons:
        equal = [each for each in comparisons if each.title == comparison.title]
        differing = [
            f"{name} {comparison.settings.get(name)}"
            for name in TELLING
            if len({str(each.settings.get(name)) for each in equal}) > 1
        ]
        made.append(replace(comparison, title=", ".join([comparison.title, *differing])))
    return made


def _common(cell: Cell) -> dict[str, object]:
    """Return what all results of a comparison share."""
    return {
        "network": cell.network,
        "weights": cell.weights,
        "data": cell.data if cell.root is None else f"{cell.data} in {cell.root}",
        "images": "all" if cell.images is None else cell.images,
        "size": cell.size,
        "batch size": cell.batch_size,
        "precision": cell.precision,
        "device": cell.device,
        "threads": cell.threads,
        "version": cell.version,
    }


def _compare(records: list[Record], command: str | None) -> Comparison:
    common = _common(records[0].cell)
    cell, last = records[0].cell, records[-1]
    title = f"{cell.network.rpartition('/')[2]} on {cell.data}, {common['images']} images, batches of {cell.batch_size}"
    seeds = sorted({record.cell.seed for record in records})
    environment = {key: value for key, value in last.environment.items() if key != "threads"}
    return Comparison(
        title=title,
        command=last.command if command is None else command,
        settings={name: value for name, value in common.items() if value is not None} | {"seeds": seeds} | environment,
        results=tuple(record.result for record in records if record.result is not None),
        left_out={str(record.cell): f"failed, {record.failure.error}" for record in records if record.failure},
    )
