"""Results as one tidy table: a row for each label, scenario, group, seed and metric."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from midway.bench import Cell, Record, read_records
from midway.streams import Scenario

if TYPE_CHECKING:
    import pandas

ALL = "all"
"""The group of all images of a stream."""

IMAGES = "images"
"""The metric that counts the images of a group."""


class Row(NamedTuple):
    """One number.

    Attributes:
        label: What tables call the method.
        scenario: Which images arrived when.
        group: The group of images that the number is about, or ``"all"``.
        seed: Seed of the stream and of the method.
        metric: Name of the metric, see ``midway.metrics.METRICS``; ``"images"`` is the number of images.
        value: The number.
    """

    label: str
    scenario: Scenario
    group: str
    seed: int
    metric: str
    value: float


@dataclass(frozen=True)
class Frame:
    """Rows of one comparison, in the order of the results.

    Attributes:
        rows: The rows.
        source: The label of the unadapted network; None if it was not run.
        methods: Label -> name of its method, for colours and titles.
        batch_accuracies: Label, scenario and seed -> accuracy of each batch in percent.

    Example:
        >>> from midway.report import Frame, Row
        >>> from midway.streams import Scenario
        >>> fog = Scenario.parse("pure:fog")
        >>> rows = (Row("bn", fog, "fog", 0, "accuracy", 70.0), Row("bn", fog, "fog", 0, "images", 200.0))
        >>> Frame(rows).where(metric="accuracy").rows[0].value
        70.0
    """

    rows: tuple[Row, ...]
    source: str | None = None
    methods: Mapping[str, str] = field(default_factory=dict, hash=False)
    batch_accuracies: Mapping[tuple[str, Scenario, int], tuple[float, ...]] = field(default_factory=dict, hash=False)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def where(
        self,
        *,
        label: str | Collection[str] | None = None,
        scenario: Scenario | Collection[Scenario] | None = None,
        group: str | Collection[str] | None = None,
        seed: int | Collection[int] | None = None,
        metric: str | Collection[str] | None = None,
    ) -> Frame:
        """Return the rows whose columns have the given value or one of the given values."""
        wanted: dict[str, Collection[Any]] = {}
        for name, value in (
            ("label", label),
            ("scenario", scenario),
            ("group", group),
            ("seed", seed),
            ("metric", metric),
        ):
            if value is not None:
                wanted[name] = (value,) if isinstance(value, str | int | Scenario) else value
        return self.filter(lambda row: all(getattr(row, name) in values for name, values in wanted.items()))

    def filter(self, condition: Callable[[Row], bool]) -> Frame:
        """Return the rows that meet a condition."""
        return replace(self, rows=tuple(filter(condition, self.rows)))

    def unique(self, column: str) -> list[Any]:
        """Return the distinct values of a column in the order in which they first appear.

        Args:
            column: The name of a field of ``Row``.
        """
        return list(dict.fromkeys(getattr(row, column) for row in self.rows))

    def common_seeds(self) -> Frame:
        """Keep, for each scenario, the seeds that all labels with that scenario share.

        Means over seeds are compared only where all methods have the same seeds. Where nothing is common to all
        labels, the labels with the fewest seeds are dropped from that scenario.
        """
        seeds: dict[Scenario, dict[str, set[int]]] = {}
        for row in self.rows:
            seeds.setdefault(row.scenario, {}).setdefault(row.label, set()).add(row.seed)
        shared = {
            (scenario, label): common
            for scenario, by_label in seeds.items()
            for labels, common in [common_to_all(by_label)]
            for label in labels
        }
        return self.filter(lambda row: row.seed in shared.get((row.scenario, row.label), ()))

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a pandas DataFrame; scenarios become text.

        Raises:
            ImportError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("a DataFrame needs pandas: pip install pandas.") from error
        return pandas.DataFrame([row._replace(scenario=str(row.scenario)) for row in self.rows], columns=Row._fields)  # type: ignore[arg-type]


def common_to_all(sets: dict[str, set[Any]]) -> tuple[list[str], set[Any]]:
    """Return the labels that share something and what they share; labels with the fewest elements are dropped first.

    Example:
        >>> from midway.report.tidy import common_to_all
        >>> common_to_all({"bn": {0, 1}, "tent": {1, 2}, "mita": {7}})
        (['bn', 'tent'], {1})
    """
    labels = list(sets)
    while labels:
        common = set.intersection(*(sets[label] for label in labels))
        if common:
            return labels, common
        labels.remove(min(labels, key=lambda label: len(sets[label])))
    return [], set()


def frame(results: Iterable[Record] | str | Path) -> Frame:
    """Return results as a tidy table.

    Args:
        results: Records, or the folder of a run. Of several records of one cell the last counts, but a failed
            repetition does not hide a result. Failed cells have no rows.

    Example:
        >>> from midway.bench import Grid, LocalEngine
        >>> from midway.report import frame
        >>> cells = Grid.from_dict({"methods": "source,bn", "images": 100, "batch_sizes": 50}).cells()
        >>> rows = frame(LocalEngine().run(cells))
        >>> rows.unique("label"), rows.unique("group"), rows.source
        (['source', 'bn'], ['all', 'gaussian_noise'], 'source')
        >>> [row.value for row in rows.where(metric="images", label="bn", group="all")]
        [100]
    """
    records = read_records(results) if isinstance(results, str | Path) else list(results)
    records = [record for record in latest(records) if record.result is not None]
    labels = distinct_labels([record.cell for record in records])
    sources = [label for record, label in zip(records, labels, strict=True) if is_unadapted(record.cell)]
    rows = tuple(row for record, label in zip(records, labels, strict=True) for row in _rows(record, label))
    return Frame(
        rows,
        sources[0] if sources else None,
        {label: record.cell.method for record, label in zip(records, labels, strict=True)},
        {
            (label, record.cell.scenario, record.cell.seed): record.result.batch_accuracies
            for record, label in zip(records, labels, strict=True)
            if record.result is not None
        },
    )


def latest(records: Iterable[Record]) -> list[Record]:
    """Return the record that counts for each cell: the last one, but a failure never hides a result."""
    by_key: dict[str, Record] = {}
    for record in records:
        if record.replaces(by_key.get(record.cell.key)):
            by_key[record.cell.key] = record
    return list(by_key.values())


def is_unadapted(cell: Cell) -> bool:
    """Tell whether a cell runs the network as it is, the reference for all methods."""
    return cell.method == "source" and cell.settings.get("statistics") is None


def distinct_labels(cells: Sequence[Cell]) -> list[str]:
    """Return the label of each cell; where one label has several settings, the settings that differ are added.

    A store may hold ``tent`` with two learning rates, from two plans, which are not two seeds of one method.
    """
    variants: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        known = variants.setdefault(cell.label, [])
        if (settings := _settings(cell)) not in known:
            known.append(settings)
    labels = []
    for cell in cells:
        known, mine = variants[cell.label], _settings(cell)
        names = dict.fromkeys(name for settings in known for name in settings)
        differing = [name for name in names if any(settings.get(name) != known[0].get(name) for settings in known)]
        added = ", ".join(f"{name}={mine.get(name)}" if name else str(mine.get(name)) for name in differing)
        labels.append(f"{cell.label} ({added})" if added else cell.label)
    return labels


def _settings(cell: Cell) -> dict[str, Any]:
    """Return the method and its settings without the seed, which differs on purpose."""
    return {"": cell.method} | {name: value for name, value in cell.settings.items() if name != "seed"}


def _rows(record: Record, label: str) -> Iterator[Row]:
    cell, result = record.cell, record.result
    assert result is not None
    of_groups = {ALL: {IMAGES: result.images} | result.metrics} | result.groups
    for group, metrics in of_groups.items():
        for metric, value in metrics.items():
            yield Row(label, cell.scenario, group, cell.seed, metric, value)
