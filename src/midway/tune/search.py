"""What is searched: a method's declared space, on the tuning corruptions in three scenarios."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import midway
from midway.adaptation.problem import Problem
from midway.adaptation.space import SearchSpace
from midway.bench import Cell, Grid
from midway.bench.entries import Entry
from midway.bench.material import Material
from midway.data import corruption_names
from midway.streams import Scenario
from midway.suggest import unknown

PAIRS = (("gaussian_blur", "speckle_noise"), ("saturate", "spatter"))
"""The tuning corruptions as rare and common, as the paper pairs the fifteen others."""

SCENARIOS = (
    *(str(Scenario("pure", (corruption,))) for corruption in corruption_names("tuning")),
    *(str(Scenario("outlier", pair, 0.005)) for pair in PAIRS),
    *(str(Scenario("mixture", pair, 0.5)) for pair in PAIRS),
)
"""The streams of a search: none of the fifteen corruptions that results are reported on."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """A method, and the streams on which its settings are judged.

    Attributes:
        method: Name of the method.
        held: Settings that are the same in all trials and not searched.
        network: As in a plan, see ``Grid``.
        data: Name of the data set.
        root: Its folder; None for the usual place.
        scenarios: The streams; none of the fifteen corruptions that results are reported on.
        images: Use at most this many; None for all.
        batch_size: Images a batch.
        seed: Of the streams, of the method, and of what the search tries.
        precision: ``"float32"``, ``"bf16"`` or ``"auto"``.
        device: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        threads: Threads of the processor that a trial uses.

    Example:
        >>> from midway.tune import Search
        >>> search = Search(method="tent", images=400)
        >>> [cell.scenario for cell in search.cells({"lr": 1e-4})][3:6]
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
        known = midway.methods.hyperparameters(self.method)
        if not self.space and set(midway.methods.find(self.method).search_space) & set(self.held):
            raise ValueError(f"nothing of {self.method} is left to search: give fewer settings.")
        if not self.space:
            searched = [name for name in midway.methods.names() if midway.methods.find(name).search_space]
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
        """What the method declares beside its hyper-parameters, without what is held."""
        declared = midway.methods.find(self.method).search_space
        return {name: space for name, space in declared.items() if name not in self.held}

    def cells(self, settings: Mapping[str, Any]) -> list[Cell]:
        """Return the cells that judge these settings, those of ``midway run``.

        Raises:
            SettingError: The method refuses the settings, such as a combination that makes no sense.
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

    def defaults(self, material: Material) -> dict[str, Any]:
        """Return the method's defaults of what is searched; those left to the size of the problem are settled.

        Raises:
            ValueError: A default is outside the declared space, so the search could not begin with it.
        """
        data = material.data_set(self.cells({})[0])
        side = min(tuple(data.images.shape)[1:3])
        problem = Problem(len(data.class_names), side, min(self.batch_size, len(data)))
        settled = midway.methods.find(self.method).defaults_for(problem)
        found = {}
        for name, value in midway.methods.hyperparameters(self.method).items():
            if name in self.space:
                found[name] = settled.get(name) if value is None else value
                if found[name] not in self.space[name]:
                    raise ValueError(
                        f"the default {name}={found[name]!r} of {self.method} is outside its search space "
                        f"({self.space[name]}): widen the space."
                    )
        return found

    @property
    def key(self) -> str:
        """Eight hex digits over what determines the value of a trial, and what may be tried."""
        content = [[cell.key for cell in self.cells({})], sorted((name, str(s)) for name, s in self.space.items())]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        """What the study is called in a storage; searches that differ in anything never share a study."""
        return f"{self.method}-{self.key}"
