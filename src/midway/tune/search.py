"""A search: the space that a method declares, on the tuning corruptions in three scenarios."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from midway.adaptation.problem import Problem
from midway.adaptation.space import SearchSpace
from midway.bench import Cell, Grid
from midway.bench.entries import Entry
from midway.bench.resources import ResourceCache
from midway.data import corruption_names
from midway.methods import find, hyperparameters, names
from midway.streams import Scenario
from midway.suggest import unknown

PAIRS = (("gaussian_blur", "speckle_noise"), ("saturate", "spatter"))
"""Pairs of tuning corruptions, rare and common, as the paper pairs the fifteen others."""

SCENARIOS = (
    *(str(Scenario("pure", (corruption,))) for corruption in corruption_names("tuning")),
    *(str(Scenario("outlier", pair, 0.005)) for pair in PAIRS),
    *(str(Scenario("mixture", pair, 0.5)) for pair in PAIRS),
)
"""The streams of a search; no result is reported on their corruptions."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """A method and the streams that score its settings.

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

    def __post_init__(self) -> None:
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
        """Return the cells that score these settings, equal to those of ``midway run``.

        Raises:
            SettingError: The method rejects the settings.
        """
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
        )
        return grid.cells()

    def defaults(self, resources: ResourceCache) -> dict[str, Any]:
        """Return the defaults of the searched hyper-parameters; those that depend on the problem are resolved.

        Raises:
            ValueError: A default is outside the declared space, so the search could not begin with it.
        """
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
    def key(self) -> str:
        """Eight hex digits over all that determines a trial: cells, their code, and the space."""
        cells = [(cell.key, cell.code) for cell in self.cells({})]
        content = [cells, sorted((name, str(space)) for name, space in self.space.items())]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        """The name of the study in a storage; searches that differ in anything have different names."""
        return f"{self.method}-{self.key}"
