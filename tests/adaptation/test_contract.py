"""Every registered method keeps the contract; a method that breaks it is caught."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import midway
from midway.adaptation.batch_norm.statistics import use_batch_statistics
from midway.adaptation.parameters import freeze_all_but, norm_affine
from midway.functional import entropy
from midway.methods import About, Method
from midway.testing import CONTRACT, Factory, batches, check_changing_attributes_are_declared, tiny_network


def variants() -> list[tuple[str, dict[str, object]]]:
    """Every method at its defaults, and the hyper-parameters that take another path through the code."""
    special: list[tuple[str, dict[str, object]]] = [
        ("bn", {"prior": 16}),
        ("tent", {"steps": 3, "predict": "after"}),
        ("pl", {"threshold": 0.3, "trainable": "all", "steps": 2, "predict": "after"}),
        ("shot", {"trainable": "body", "steps": 2, "predict": "after"}),
        ("eata", {"margin": 2.0, "redundancy": 1.1, "lr": 1e-2}),  # every image is selected
        ("eata", {"margin": 2.0, "redundancy": 1.1, "optimizer": "sgd", "steps": 2, "predict": "after"}),
        ("sar", {"margin": 2.0, "steps": 2, "predict": "after"}),
        ("sar", {"margin": 2.0, "recover_below": 1.38}),  # goes back to the source now and then
        ("roid", {"lr": 1e-2, "prior_correction": "probabilities", "per_image": True, "optimizer": "sgd"}),
        ("cmf", {"lr": 1e-2, "noise": 30.0, "hidden_share": 0.2, "prior_correction": None}),
        ("cotta", {"views": 2, "threshold": 0.35, "symmetric": True, "restore": 0.3, "lr": 1e-2}),
        ("rotta", {"memory": 5, "interval": 5, "lr": 1e-2, "per_image": True}),  # two or three updates a batch
        ("deyo", {"margin": 2.0, "threshold": -1.0, "lr": 1e-2}),  # every image is selected
        ("deyo", {"margin": 2.0, "threshold": 0.0, "lr": 1e-2, "loss": "come"}),
        ("rdumb", {"margin": 2.0, "redundancy": 1.1, "lr": 1e-2, "every": 2}),
        ("memo", {"views": 3, "crop": "resize", "steps": 2, "prior": 0, "images_at_once": 5}),
        ("t3a", {"supports": -1}),
        ("t3a", {"supports": 1}),
        ("lame", {"affinity": "rbf"}),
        ("aea", {"trainable": "body", "threshold": 0.3, "lr": 1e-2, "steps": 2, "predict": "after"}),
        ("delta", {"objective": "weighted", "margin": 1.2, "lr": 1e-2}),
        ("delta", {"objective": "pseudo", "steps": 2, "predict": "after"}),
        ("santa", {"optimizer": "sgd", "lr": 1e-2}),
        ("note", {"memory": 8, "lr": 1e-2, "momentum": 0.2}),  # updates within and between batches
        ("dda", {"respacing": 20, "steps": 2, "ensemble": "logits", "factor": 2, "images_at_once": 5}),
        ("dua", {"copies": 8, "images": None}),
        ("ttt", {"online": False, "steps": 2, "copies": 3, "rotations": "random", "trainable": "branch", "lr": 0.1}),
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

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.seen = self.add_state("seen", 0)


class Random(Method):
    """Adds noise from its own generators, which are in a container."""

    about = About("random", "Random", "-", "none", "a generator", "-", "1 F")

    def __init__(self, model: nn.Module, *, seed: int = 0) -> None:
        super().__init__(model)
        self.generators = self.add_state("generators", {"noise": [torch.Generator().manual_seed(seed)]})

    def step(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images)
        return logits + torch.randn(logits.shape, generator=self.generators["noise"][0])


class MeanTeacher(Method):
    """Adapts a student by entropy; predicts with a teacher, the moving average of its weights (all are frozen)."""

    about = About("mean_teacher", "Mean teacher", "-", "batch", "norm scales and shifts", "after", "2 F + 1 B")

    def __init__(self, model: nn.Module, *, lr: float = 0.05, decay: float = 0.7) -> None:
        super().__init__(model)
        self.decay = decay
        use_batch_statistics(self.model)
        teacher = copy.deepcopy(self.model)
        self.teacher = self.add_state("teacher", teacher)
        trainable = freeze_all_but(self.model, norm_affine(self.model))
        self.optimizer = self.add_state("optimizer", torch.optim.Adam(trainable, lr=lr))

    def step(self, images: Tensor) -> Tensor:
        self.optimizer_step(entropy(self.model(images)).mean(), self.optimizer)
        with torch.no_grad():
            for mine, theirs in zip(self.teacher.parameters(), self.model.parameters(), strict=True):
                mine.lerp_(theirs, 1 - self.decay)
            logits: Tensor = self.teacher(images)
        return logits


class CarelessTeacher(MeanTeacher):
    """The same without the declaration of the teacher."""

    def add_state(self, name: str, value: Any) -> Any:
        if name != "teacher":
            return super().add_state(name, value)
        return value


class SharedTeacher(MeanTeacher):
    """Its state dict holds the teacher's own tensors, so a saved state changes as the method adapts."""

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        shared = {f"teacher.{name}": value for name, value in self.teacher.state_dict().items()}
        return {**super().state_dict(*args, **kwargs), **shared}


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
        "check_changing_attributes_are_declared",
        "check_resume_is_exact",
        "check_saved_states_are_independent",
        "check_resume_in_another_process",
        "check_gradient_modes_do_not_matter",  # it resets, too
        "check_autocast_blocks_do_not_matter",  # likewise
    }


class Counting(Forgetful):
    """Counts batches, and would use the number only after many."""

    def step(self, images: Tensor) -> Tensor:
        self.seen += 1
        logits: Tensor = self.model(images)
        return logits + (self.seen > 100)


def test_undeclared_state_is_caught_and_named_before_it_changes_a_prediction() -> None:
    assert failing(Counting) == {"check_changing_attributes_are_declared"}
    with pytest.raises(AssertionError, match=r'a reset does not restore seen: .* self.seen = self\.add_state\("seen"'):
        check_changing_attributes_are_declared(Counting)


@pytest.mark.parametrize("method", [Remembering, Random, MeanTeacher])
def test_declared_state_passes(method: Factory) -> None:
    assert failing(method) == set()


@pytest.mark.parametrize("method", [CarelessTeacher, SharedTeacher])
def test_a_teacher_that_is_not_saved_is_caught(method: Factory) -> None:
    assert "check_saved_states_are_independent" in failing(method)


def test_a_declared_module_is_state_and_the_frozen_network_is_not() -> None:
    method = MeanTeacher(tiny_network())
    tensors = method.snapshot()["tensors"]
    assert {name for name in tensors if name.startswith("teacher.")} == {
        f"teacher.{name}" for name, _ in method.teacher.named_parameters()
    }
    assert {name for name in tensors if name.startswith("model.")} == {
        f"model.{layer}.{kind}" for layer in (1, 4) for kind in ("weight", "bias")
    }
    mita = midway.MITA(tiny_network())  # its second network shares what is frozen
    assert {name.split(".")[0] for name in mita.snapshot()["tensors"]} == {"model", "data_model"}
    assert all(".1." in name or ".4." in name for name in mita.snapshot()["tensors"])


def test_a_declared_module_moves_with_the_method_and_is_reset_there() -> None:
    method, images = MeanTeacher(tiny_network()).double(), [each.double() for each in batches(2)]
    first = method(images[0])
    method(images[1])
    assert all(parameter.dtype == torch.float64 for parameter in method.teacher.parameters())
    method.reset()
    assert torch.equal(method(images[0]), first)


def test_state_is_declared_once_and_in_the_constructor() -> None:
    method = Remembering(tiny_network())
    with pytest.raises(RuntimeError, match="the state 'late' is declared too late: call add_state in the constructor"):
        method.add_state("late", 0)

    class Twice(Remembering):
        def __init__(self, model: nn.Module) -> None:
            super().__init__(model)
            self.add_state("seen", 1)

    with pytest.raises(ValueError, match="the state 'seen' is declared twice"):
        Twice(tiny_network())

    class Odd(Remembering):
        def __init__(self, model: nn.Module) -> None:
            super().__init__(model)
            self.add_state("odd", object())

    with pytest.raises(TypeError, match="object cannot be part of a method's state: use tensors"):
        Odd(tiny_network())


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
