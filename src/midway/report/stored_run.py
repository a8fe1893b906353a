"""Stored runs: records grouped into comparisons, each of which becomes one table or one section of a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path

from midway.bench import Cell, Record, read_records
from midway.bench.store import RESULTS
from midway.report.ranking import Ranking, rank
from midway.report.table import Table, pivot
from midway.report.tidy import ALL, IMAGES, Frame, PlotStyle, distinct_labels, frame, keep_latest, scenario_title
from midway.tune.result import HELD_OUT, STUDY, StudyResult

FEW_IMAGES = 100
"""Numbers over fewer images change by more than a point with each of them."""

DISTINGUISHING = ("precision", "device", "threads", "size", "network", "weights", "data")
"""Settings that are added to titles of comparisons that would otherwise be equal."""

COUNTED = {
    "skipped_steps": "steps were skipped because they were not finite",
    "stalled_steps": "Langevin steps of images were not finite and were skipped",
    "recoveries": "resets to the source happened during the stream",
    "rollbacks": "updates were undone by the guard",
    "source_predictions": "batches were predicted by the source, because the prediction of the method was not finite",
}
"""Diagnostics that count events which a reader should know of."""


@dataclass(frozen=True)
class Comparison:
    """Results of one network, data set and batch size: methods, scenarios and seeds differ.

    Attributes:
        title: Network, data set, number of images and batch size.
        command: The command that repeats the results.
        settings: What all results share.
        records: The results; labels are distinct where one label had several settings.
        left_out: What has no result -> the reason.
    """

    title: str
    command: str
    settings: dict[str, object]
    records: tuple[Record, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _frame(self) -> Frame:
        """The results as tidy rows, labels in the order of the results."""
        return frame(self.records)

    @cached_property
    def frame(self) -> Frame:
        """The results as tidy rows, labels in the order of the listings of methods."""
        order = list(self.styles)
        if order == self._frame.unique("label"):
            return self._frame
        return replace(self._frame, rows=tuple(sorted(self._frame, key=lambda row: order.index(row.label))))

    @cached_property
    def styles(self) -> dict[str, PlotStyle]:
        """Label -> its title and colours, in the order of the listings of methods."""
        return self._frame.styles

    @cached_property
    def ranking(self) -> Ranking:
        """The methods, best first, by their accuracy on all images."""
        return rank(self.frame)

    def table(self, metrics: Sequence[str] = ("accuracy",)) -> Table:
        """Return the table of the results; its title names the metrics if the accuracy is not among them."""
        table = pivot(self._frame, metrics=metrics, title=self.title)
        notes, title = list(table.notes), self.title
        few = sorted({column.images for column in table.columns if column.images and column.images < FEW_IMAGES})
        if "accuracy" not in metrics:
            named = dict.fromkeys([column.metric_title for column in table.columns])
            title = f"{title}: {', '.join(named)}" if named else title
        elif few:
            steps = ", ".join(f"{100 / images:.1f} points with {images} images" for images in few)
            notes.append(f"columns with few images change in steps: {steps}")
        notes += [f"{label} was left out: {reason}" for label, reason in self.left_out.items()]
        return replace(table, title=title, notes=tuple(notes))

    def summary(self) -> str:
        """Return one paragraph: the best method on each stream and its gain over Source."""
        parts = []
        accuracies = self.frame.where(group=ALL, metric="accuracy")
        for scenario in accuracies.unique("scenario"):
            rows = accuracies.where(scenario=scenario).rows
            best = max(rows, key=lambda row: row.value)
            source = next((row.value for row in rows if row.label == accuracies.source), None)
            gain = "" if source is None else f" ({best.value - source:+.1f} over Source)"
            parts.append(f"{scenario_title(scenario)}: {self.styles[best.label].title} {best.value:.1f} %{gain}")
        return "Best on all images. " + "; ".join(parts) + "."

    def remarks(self) -> list[str]:
        """Return what limits the numbers, one sentence each: gaps, few images, one seed, unusual diagnostics."""
        said = [f"{label} was left out: {reason}." for label, reason in self.left_out.items()]
        cells = [record.cell for record in self.records]
        labels = list(self.styles)
        keys = {(cell.scenario, cell.seed) for cell in cells}
        known = {(cell.label, cell.scenario, cell.seed) for cell in cells}
        missing = [label for label in labels for key in keys if (label, *key) not in known]
        if missing:
            counted = f"{len(missing)} of {len(labels) * len(keys)}"
            names = ", ".join(dict.fromkeys(missing))
            said.append(f"Not finished: {counted} combinations of method, stream and seed have no result ({names}).")
        if left_out := self.ranking.left_out:
            said.append(f"Left out of the ranking, no stream in common with the others: {', '.join(left_out)}.")
        if len({cell.seed for cell in cells}) == 1:
            said.append("One seed: differences between methods include the chance of that seed.")
        few = [int(row.value) for row in self._frame.rows if row.metric == IMAGES and 0 < row.value < FEW_IMAGES]
        if few:
            points = f"{100 / min(few):.1f} points"
            said.append(f"Some numbers are over few images: the fewest are {min(few)}, where one image is {points}.")
        counts: dict[tuple[str, str], float] = {}
        for record in self.records:
            for name, value in record.result.diagnostics.items() if record.result is not None else ():
                if name in COUNTED and isinstance(value, int | float) and value:
                    counts[name, record.cell.label] = counts.get((name, record.cell.label), 0) + value
        order = list(COUNTED)
        for name, label in sorted(counts, key=lambda key: order.index(key[0])):
            said.append(f"{label}: {counts[name, label]:g} {COUNTED[name]}.")
        return said


def group_records(
    records: Iterable[Record], *, command: str | None = None, left_out: Mapping[str, str] | None = None
) -> list[Comparison]:
    """Group results that belong in one table: those of one network, data set and batch size.

    Seeds, scenarios and methods differ within a comparison; failed cells are listed as left out. Of several records of
    one cell the last counts, but a failed repetition does not hide a result.

    Args:
        records: Records of a store.
        command: The command that repeats them; that of the last record if left out.
        left_out: Methods that were not run -> the reason.

    Example:
        >>> from midway.bench import Grid, LocalEngine
        >>> from midway.report import group_records
        >>> cells = Grid.from_dict({"methods": "source", "images": 100, "batch_sizes": [50, 100]}).cells()
        >>> [comparison.title for comparison in group_records(LocalEngine().run(cells))]
        ['wrn16_2.cifar10 on cifar10-mini, 100 images, batches of 50',
         'wrn16_2.cifar10 on cifar10-mini, 100 images, batches of 100']
    """
    groups: dict[tuple[object, ...], list[Record]] = {}
    for record in keep_latest(records):
        shared = _shared(record.cell) | {"network": record.cell.architecture}  # wherever the weights are stored
        groups.setdefault(tuple(shared.values()), []).append(record)
    comparisons = [_compare(group, command, left_out or {}) for group in groups.values()]
    titled = []
    for comparison in comparisons:
        equal = [each.settings for each in comparisons if each.title == comparison.title]
        added = [
            f"{name} {comparison.settings.get(name)}"
            for name in DISTINGUISHING
            if len({str(settings.get(name)) for settings in equal}) > 1
        ]
        titled.append(replace(comparison, title=", ".join([comparison.title, *added])))
    return titled


def _shared(cell: Cell) -> dict[str, object]:
    """Return what all results of a comparison have in common."""
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
    } | ({} if cell.classes is None else {"classes": cell.classes})


def _compare(records: list[Record], command: str | None, left_out: Mapping[str, str]) -> Comparison:
    cell, last = records[0].cell, records[-1]
    settings = {name: value for name, value in _shared(cell).items() if value is not None}
    settings["seeds"] = sorted({record.cell.seed for record in records})
    done = [record for record in records if record.result is not None]
    failed = {str(each.cell): f"failed, {each.failure.error}" for each in records if each.failure is not None}
    labels = distinct_labels([record.cell for record in done])
    name = cell.network.rpartition("/")[2]
    return Comparison(
        title=f"{name} on {cell.data}, {settings['images']} images, batches of {cell.batch_size}",
        command=last.command if command is None else command,
        settings=settings | {name: value for name, value in last.environment.items() if name != "threads"},
        records=tuple(
            [replace(record, cell=replace(record.cell, label=each)) for record, each in zip(done, labels, strict=True)]
        ),
        left_out={**left_out, **failed},
    )


@dataclass(frozen=True)
class StoredRun:
    """The content of a folder of results.

    Attributes:
        name: The name of the folder.
        folder: The folder; None for results that were not read from one.
        comparisons: Results that belong in one table, network by network and data set by data set.
        records: The last record of each cell.
        search: The search whose gain the results measure, if the folder is that of one.
    """

    name: str
    folder: Path | None
    comparisons: tuple[Comparison, ...]
    records: tuple[Record, ...] = ()
    search: StudyResult | None = None

    @cached_property
    def commands(self) -> tuple[str, ...]:
        """Every distinct command that wrote results, the newest last."""
        used = [record.command for record in sorted(self.records, key=attrgetter("finished"))]
        used += [comparison.command for comparison in self.comparisons if comparison.command not in used]
        used += [self.search.command] if self.search is not None else []
        newest_first = dict.fromkeys(reversed(used))
        return tuple([command for command in reversed(newest_first) if command])

    @property
    def remarks(self) -> list[str]:
        """Differences between the environments of the results: last digits may differ, times will."""
        said = []
        for part in ("torch", "cpu"):
            values = {str(value) for record in self.records if (value := record.environment.get(part))}
            if len(values) > 1:
                said.append(f"Results were measured with different {part}: {', '.join(sorted(values))}.")
        return said


def read_run(path: Path | str) -> StoredRun:
    """Read the folder of a run, of a demo or of a search.

    Args:
        path: The folder, or the file of results in it.

    Raises:
        FileNotFoundError: There are no results.

    Example:
        >>> from midway.report import read_run
        >>> read_run("nowhere")
        Traceback (most recent call last):
        FileNotFoundError: there is no folder nowhere: give the folder that `midway run` or `midway tune` wrote (--out).
    """
    path = Path(path)
    folder = path.parent if path.name == RESULTS else path
    if (folder / RESULTS).is_file():
        return stored_run(folder.resolve().name, read_records(folder), folder=folder)
    if (folder / STUDY).is_file():
        return search_run(folder, StudyResult.load(folder / STUDY))
    wanted = "give the folder that `midway run` or `midway tune` wrote (--out)"
    if not path.exists():
        raise FileNotFoundError(f"there is no folder {path}: {wanted}.")
    raise FileNotFoundError(f"{path} holds no results: there is no {RESULTS} or {STUDY} in it: {wanted}.")


def stored_run(
    name: str,
    records: Sequence[Record],
    *,
    folder: Path | None = None,
    command: str | None = None,
    left_out: Mapping[str, str] | None = None,
) -> StoredRun:
    """Return records as a run; the last record of a cell counts.

    Args:
        name: The name of the run.
        records: The records.
        folder: The folder that holds them.
        command: See ``group_records``.
        left_out: See ``group_records``.

    Example:
        >>> from midway.report import stored_run
        >>> stored_run("nothing", []).comparisons
        ()
    """
    comparisons = group_records(records, command=command, left_out=left_out)
    last = {record.cell.key: record for record in records}
    return StoredRun(name, folder, tuple(comparisons), tuple(last.values()))


def search_run(folder: Path, findings: StudyResult) -> StoredRun:
    """Return the findings of a search and their gain on other streams, as far as it was measured, as a run.

    Earlier best settings are not shown: choosing among them by these streams would not be a measurement.

    Example:
        >>> from pathlib import Path
        >>> from midway.report import search_run
        >>> from midway.tune import StudyResult
        >>> search_run(Path("nowhere"), StudyResult("tent", "tent-0", {}, {}, (), {})).search.method
        'tent'
    """
    held_out = folder / HELD_OUT
    records = read_records(held_out) if (held_out / RESULTS).is_file() else []
    records = [record for record in records if _belongs_to(record.cell, findings)]
    return replace(stored_run(folder.resolve().name, records, folder=folder), search=findings)


def _belongs_to(cell: Cell, findings: StudyResult) -> bool:
    """Return whether a cell measures the defaults or the present best of a search, on its data."""
    shared = ("data", "images", "batch_size", "seed")
    if any(key in findings.search and getattr(cell, key) != findings.search[key] for key in shared):
        return False
    chosen = dict(findings.search.get("held", {}))
    if cell.label != f"{findings.method}, defaults":
        chosen |= findings.best.settings if findings.count("complete") else findings.defaults
    plain = json.loads(json.dumps(dict(cell.settings)))
    return bool(plain == plain | json.loads(json.dumps(chosen)))


def distinct_names(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Rename runs of the same name by the ends of their paths that differ, or by their order."""
    if len({run.name for run in runs}) == len(runs):
        return list(runs)
    paths = [run.folder.resolve().parts for run in runs if run.folder is not None]
    for length in range(2, max(map(len, paths), default=0) + 1):
        names = [str(Path(*parts[-length:])) for parts in paths]
        if len(set(names)) == len(runs):
            return [replace(run, name=name) for run, name in zip(runs, names, strict=True)]
    return [replace(run, name=f"{run.name} ({number})") for number, run in enumerate(runs, start=1)]
