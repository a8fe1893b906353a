"""Every registered method keeps the contract; a method that breaks it is caught."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.methods import About, Method
from midway.testing import CONTRACT, Factory


def variants() -> list[tuple[str, dict[str, object]]]:
    """Every method at its defaults, and the settings that take another path through the code."""
    special: list[tuple[str, dict[str, object]]] = [
        ("bn", {"prior": 16}),
        ("tent", {"steps": 3, "predict": "after"}),
        ("pl", {"threshold": 0.3, "moves": "all", "steps": 2, "predict": "after"}),
        ("shot", {"moves": "body", "steps": 2, "predict": "after"}),
        ("eata", {"margin": 2.0, "redundancy": 1.1, "lr": 1e-2}),  # every image is selected
        ("eata", {"margin": 2.0, "redundancy": 1.1, "optimizer": "sgd", "steps": 2, "predict": "after"}),
        ("sar", {"margin": 2.0, "steps": 2, "predict": "after"}),
        ("sar", {"margin": 2.0, "recover_below": 1.38}),  # goes back to the source now and then
        ("memo", {"views": 3, "crop": "resize", "steps": 2, "prior": 0, "images_at_once": 5}),
        ("t3a", {"supports": -1}),
        ("t3a", {"supports": 1}),
        ("lame", {"affinity": "rbf"}),
        ("dua", {"copies": 8, "images": None}),
        ("tea", {"steps": 2, "langevin_steps": 1, "langevin_noise": None, "langevin_clip": 0.1}),
        ("mita", {"data_model": "fresh", "data_model_steps": 3, "data_steps": 2}),
        ("mita", {"data_model": "same"}),
        ("mita", {"adapt_data": False}),
        ("mita", {"adapt_model": False}),
    ]
    return [(name, {}) for name in midway.methods.names()] + special


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
@pytest.mark.parametrize(("name", "settings"), variants(), ids=str)
def test_contract(name: str, settings: dict[str, object], check: Callable[[Factory], None]) -> None:
    check(lambda model: midway.adapt(model, name, **settings))


class Forgetful(Method):
    """Counts batches in an attribute that it does not declare, so reset and resume miss it."""

    about = About("forgetful", "Forgetful", "-", "none", "a counter", "-", "1 F")

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.seen = 0

    def step(self, images: Tensor) -> Tensor:
        self.seen += 1
        logits: Tensor = self.model(images)
        return logits + self.seen


class Remembering(Forgetful):
    """The same with the declaration."""

    evolving = ("seen",)


class Random(Method):
    """Adds noise from its own generator."""

    about = About("random", "Random", "-", "none", "a generator", "-", "1 F")
    evolving = ("generator",)

    def __init__(self, model: nn.Module, *, seed: int = 0) -> None:
        super().__init__(model)
        self.generator = torch.Generator().manual_seed(seed)

    def step(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images)
        return logits + torch.randn(logits.shape, generator=self.generator)


def failing(method: Factory) -> set[str]:
    """Names of the checks a method fails."""
    failed = set()
    for check in CONTRACT:
        try:
            check(method)
        except AssertionError:
            failed.add(check.__name__)
    return failed


def test_undeclared_state_is_caught() -> None:
    assert failing(Forgetful) == {
        "check_reset_is_exact",
        "check_resume_is_exact",
        "check_gradient_modes_do_not_matter",  # it resets, too
        "check_autocast_blocks_do_not_matter",  # likewise
    }


@pytest.mark.parametrize("method", [Remembering, Random])
def test_declared_state_passes(method: Factory) -> None:
    assert failing(method) == set()


def test_changing_the_given_model_is_caught() -> None:
    class Rude(Method):
        about = About("rude", "Rude", "-", "none", "-", "-", "1 F")

        def __init__(self, model: nn.Module) -> None:
            super().__init__(model)
            model.train()

        def step(self, images: Tensor) -> Tensor:
            logits: Tensor = self.model(images)
            return logits

    assert "check_the_given_model_never_changes" in failing(Rude)
