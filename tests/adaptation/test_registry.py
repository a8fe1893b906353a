"""The registries of methods and wrappers, and what follows from them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from write_stubs import CLASSES, classes_module

import midway
from midway.adaptation.registry import METHODS, names, register
from midway.adaptation.wrappers import WRAPPERS, Wrapper, register_wrapper
from midway.methods import About, AdaptiveClassifier, Method
from midway.testing import batches, tiny_network


class Nothing(Method):
    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)

    def step(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images)
        return logits


def test_the_imports_for_editors_are_up_to_date() -> None:
    assert CLASSES.read_text() == classes_module(), "run python recipes/write_stubs.py"
    for found in (*METHODS.values(), *WRAPPERS.values()):
        assert getattr(midway, found.__name__) is getattr(midway.methods, found.__name__) is found


def test_methods_are_sorted_by_paradigm_year_and_title(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(METHODS, "_objects", dict(METHODS))
    assert (names()[0], names()[-1]) == ("source", "mita")
    for name, paper, paradigm in (("older", "A, ICLR 2019", "batch"), ("newer", "A, 2030", "mutual")):
        register(type(name, (Nothing,), {"about": About(name, name, paper, paradigm, "-", "-", "1 F")}))
    order = names()
    assert order[-1] == "newer"
    assert order.index("pl") < order.index("older") < order.index("bn")
    assert About("own", "Own", "-", "batch", "-", "-", "1 F").year is None


def test_a_wrapper_needs_one_class_and_one_decorator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WRAPPERS, "_objects", dict(WRAPPERS))

    @register_wrapper
    class Doubled(Wrapper):
        """Doubles the logits."""

        def __init__(self, method: AdaptiveClassifier) -> None:
            super().__init__(method)
            self.calls = self.add_state("calls", 0)

        def step(self, images: Tensor) -> Tensor:
            self.calls += 1
            self.count("doubled")
            return 2 * self.method.step(images)

    (images,) = batches(1)
    doubled = midway.adapt(tiny_network(), "bn", wrap="doubled")
    torch.testing.assert_close(doubled(images), 2 * midway.BN(tiny_network())(images))
    assert doubled.diagnostics == {"doubled": 1}
    assert doubled.about.title == "BN, doubled"
    doubled.reset()
    assert (doubled.calls, doubled.diagnostics) == (0, {})  # type: ignore[attr-defined]
    message = "wrap must be 'doubled', 'episodic', 'guarded', 'mirrored', 'periodic', 'window', .* got 'foil'"
    with pytest.raises(ValueError, match=message):
        midway.adapt(tiny_network(), "tent", wrap="foil")
