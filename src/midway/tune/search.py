"""A search: the space that a method declares, and the accuracy of settings on the tuning corruptions."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import torch

from midway._suggest import unknown
from midway.adaptation.problem import Problem
from midway.adaptation.space import SearchSpace
from midway.bench import Cell, Grid, ResourceCache
from midway.bench.engines.base import using_threads
from midway.bench.entries import Entry
from midway.bench.measure import predict
from midway.data import corruption_names
from midway.data.class_lists import Classes, plain_classes
from midway.methods import find, hyperparameters, names
from midway.streams import Scenario, Stream

TUNING_PAIRS = (("gaussian_blur", "speckle_noise"), ("saturate", "spatter"))
"""Pairs of tuning corruptions, rare and common, as the paper pairs the fifteen others."""

SCENARIOS = (
    *(str(Scenario("pure", (corruption,))) for corruption in corruption_names("tuning")),
    *(str(Scenario("outlier", pair, 0.005)) for pair in TUNING_PAIRS),
    *(str(Scenario("mixture", pair, 0.5)) for pair in TUNING_PAIRS),
)
"""The streams of a search; no result is reported on their corruptions."""

OnRound = Callable[[int, int, float], None]
"""Called after every round: rounds done, number of rounds, mean accuracy over the streams so far, in percent."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """A method and the streams that its settings are measured on.

    Attributes:
        method: Name of the method.
        held: Settings that are the same in all trials.
        network: As in a plan, see ``Grid``.
        data: Name of the data set.
        root: Its folder; None for the data home.
        scenarios: The streams; the fifteen corruptions of the benchmark are not allowed.
        images: Use at most this many; None for all.
        batch_size: Images per batch.
        seed: Seed of the streams, of the method and of the search.
        precision: ``"float32"``, ``"bf16"`` or ``"auto"``.
        device: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        threads: Threads per trial.
        size: Side in pixels of images in files.
        classes: Which logit each class folder is, see ``midway.data.load``.

    Example:
        >>> from midway.tune import Search
        >>> search = Search(method="tent", images=400)
        >>> [str(cell.scenario) for cell in search.cells({"lr": 1e-4})][3:6]
        ['pure:saturate', 'outlier:gaussian_blur/speckle_noise@0.005', 'outlier:saturate/spatter@0.005']
    """

    method: str
    held: Mapping[str, Any] = field(default_factory=dict, hash=False)
    network: str = "wrn16_2.cifar10"
    data: str = "cifar10-mini"
    root: str | None = None
    scenarios: tuple[str, ...] = SCENARIOS
    images: int | None = None
    batch_size: int = 200
    seed: int = 0
    precision: str = "float32"
    device: str = "auto"
    threads: int = 1
    size: int | None = None
    classes: Classes | None = None

    def __post_init__(self) -> None:
        if self.classes is not None:  # a list or a dictionary as plain values: the file need not be on all machines
            object.__setattr__(self, "classes", plain_classes(self.classes))
        if not isinstance(self.network, str):
            raise TypeError(f"name the network as in a plan, such as 'net.py:create', got {self.network!r}.")
        known = hyperparameters(self.method)
        if not self.space and set(find(self.method).search_space) & set(self.held):
            raise ValueError(f"no hyper-parameter of {self.method} is left to search: give fewer settings.")
        if not self.space:
            searched = [name for name in names() if find(name).search_space]
            raise ValueError(f"{self.method} declares nothing to search; these do: {', '.join(searched)}.")
        for name in self.space:
            if name not in known:
                raise ValueError(f"search_space: {unknown(f'hyper-parameter of {self.method}', name, known)}")
        for text in self.scenarios:
            if reported := set(Scenario.parse(text).shifts) & set(corruption_names("benchmark")):
                raise ValueError(
                    f"{text}: results are reported on {', '.join(sorted(reported))}, a search must not see it: "
                    f"use {', '.join(corruption_names('tuning'))}."
                )

    @property
    def space(self) -> SearchSpace:
        """The search space that the method declares, without the settings that are held."""
        declared = find(self.method).search_space
        return {name: space for name, space in declared.items() if name not in self.held}

    def cells(self, settings: Mapping[str, Any]) -> list[Cell]:
        """Return the cells that measure these settings, equal to those of ``midway run``."""
        grid = Grid(
            methods=(Entry.make(self.method, {**self.held, **settings}, self.method),),
            networks=(self.network,),
            data=(self.data,),
            root=self.root,
            scenarios=self.scenarios,
            seeds=(self.seed,),
            batch_sizes=(self.batch_size,),
            images=self.images,
            precision=self.precision,
            device=self.device,
            threads=self.threads,
            size=self.size,
            classes=None if self.classes is None else plain_classes(self.classes),
        )
        return grid.cells()

    def defaults(self, resources: ResourceCache) -> dict[str, Any]:
        """Return the defaults of the searched hyper-parameters; those that depend on the problem are resolved."""
        data = resources.data_set(self.cells({})[0])
        side = min(tuple(data.images.shape)[1:3])
        problem = Problem(len(data.class_names), side, min(self.batch_size, len(data)))
        resolved = find(self.method).defaults_for(problem)
        defaults = {}
        for name, value in hyperparameters(self.method).items():
            if name in self.space:
                defaults[name] = resolved.get(name) if value is None else value
                if defaults[name] not in self.space[name]:
                    raise ValueError(
                        f"the default {name}={defaults[name]!r} of {self.method} is outside its search space "
                        f"({self.space[name]}): widen the space."
                    )
        return defaults

    @property
    def name(self) -> str:
        """The name of the study in a storage, with a digest of all that determines a trial: cells, code and space."""
        cells = [(cell.key, cell.code) for cell in self.cells({})]
        content = [cells, sorted((name, str(space)) for name, space in self.space.items())]
        return f"{self.method}-{hashlib.sha256(json.dumps(content).encode()).hexdigest()[:8]}"


def check_labels(cells: Sequence[Cell], resources: ResourceCache) -> None:
    """Raise before a search begins if labels are not those of the network's logits, as ``midway run`` does.

    The unadapted network predicts two images of each stream, those with the lowest and the highest label.
    """
    for cell in cells:
        here = replace(cell, device="cpu", precision="float32")  # the trials may run on other machines
        stream = resources.lazy_stream(here)
        labels = stream.labels[stream.order]
        ends = [labels.argmin(), labels.argmax()]
        two = Stream(
            stream.sources,
            stream.labels,
            order=stream.order[ends],
            group=stream.group[ends],
            name=stream.name,
            folder_classes=stream.folder_classes,
        )
        predict(find("source")(resources.network(here)), two)


@dataclass(frozen=True)
class SettingsAccuracy:
    """The accuracy of some settings.

    Attributes:
        accuracy: Mean over the streams of the accuracy on all images of each, in percent.
        by_stream: The accuracy on each stream.
        by_group: Stream -> group -> accuracy; outliers are a group.
    """

    accuracy: float
    by_stream: dict[str, float]
    by_group: dict[str, dict[str, float]]


def measure_accuracy(
    cells: Sequence[Cell], streams: Sequence[Stream], resources: ResourceCache, *, on_round: OnRound | None = None
) -> SettingsAccuracy:
    """Run cells in rounds of one batch per stream and return their accuracy.

    Bad settings show within a few rounds, on all streams at once. The numbers equal those of ``midway run`` bit for
    bit: every stream has its own instance of the method.

    Args:
        cells: One method with the same settings on several streams.
        streams: The stream of each cell.
        resources: Networks of this process.
        on_round: Called after every round; an exception ends the trial.

    Example:
        >>> from midway.bench import ResourceCache
        >>> from midway.tune import Search, measure_accuracy
        >>> resources, cells = ResourceCache(), Search(method="bn", images=100, batch_size=50).cells({})[:2]
        >>> result = measure_accuracy(cells, [resources.stream(cell) for cell in cells], resources)
        >>> result.accuracy == sum(result.by_stream.values()) / 2
        True
    """
    with using_threads(cells[0].threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = [_Run(cell, stream, resources) for cell, stream in zip(cells, streams, strict=True)]
        rounds = max(len(stream) for stream in streams)
        for done in range(1, rounds + 1):
            for run in runs:
                run.advance()
            if on_round is not None:
                on_round(done, rounds, fmean(run.accuracy for run in runs))
    by_stream = {str(run.cell.scenario): run.accuracy for run in runs}
    by_group = {str(run.cell.scenario): run.by_group() for run in runs}
    return SettingsAccuracy(fmean(by_stream.values()), by_stream, by_group)


class _Run:
    """A method on a stream, with counts of its correct predictions."""

    def __init__(self, cell: Cell, stream: Stream, resources: ResourceCache) -> None:
        self.cell, self.stream = cell, stream
        self.method = resources.method(cell)
        self.batches = iter(stream)
        self.correct = torch.zeros(len(stream.groups), dtype=torch.int64)
        self.seen = torch.zeros_like(self.correct)

    def advance(self) -> None:
        """Predict the next batch, if the stream has one."""
        batch = next(self.batches, None)
        if batch is not None:
            predicted = self.method(batch.images.to(self.cell.device)).argmax(dim=1).cpu()
            groups = len(self.seen)
            self.correct += batch.group[predicted == batch.labels].bincount(minlength=groups)
            self.seen += batch.group.bincount(minlength=groups)

    @property
    def accuracy(self) -> float:
        """Accuracy on all images so far, in percent."""
        return 100 * int(self.correct.sum()) / int(self.seen.sum())

    def by_group(self) -> dict[str, float]:
        """Return the accuracy on the images of each group, in percent."""
        pairs = zip(self.stream.groups, self.correct.tolist(), self.seen.tolist(), strict=True)
        return {group: 100 * correct / seen for group, correct, seen in pairs if seen}
