"""The settings of wrappers, in Python and in text."""

from __future__ import annotations

from typing import Any

import pytest

import midway
from midway.adaptation.wrappers import read_wrapper
from midway.testing import tiny_network


@pytest.mark.parametrize(
    ("text", "read"),
    [("episodic", ("episodic", {})), ("periodic(every=3)", ("periodic", {"every": 3})), ("window()", ("window", {}))],
)
def test_wrappers_with_settings(text: str, read: tuple[str, dict[str, Any]]) -> None:
    assert read_wrapper(text) == read


def test_a_wrapper_has_the_settings_that_it_is_given() -> None:
    method = midway.adapt(tiny_network(), "bn", wrap="periodic(every=2)")
    assert isinstance(method, midway.Periodic)
    assert method.hyperparameters["every"] == 2
    for wrong in ("windw", "window(", "window(3)", "window(size=x)", "1", "window(size=1)(2)"):
        with pytest.raises(ValueError, match=r"such as 'window\(size=64\)', got "):
            midway.adapt(tiny_network(), "bn", wrap=wrong)
    with pytest.raises(TypeError, match="unknown hyper-parameter of Window 'length'"):
        midway.adapt(tiny_network(), "bn", wrap="window(length=3)")


def test_settings_of_the_wrong_type_are_refused() -> None:
    tent = midway.Tent(tiny_network())
    with pytest.raises(TypeError, match=r"entropy_range must be two numbers"):
        midway.Guarded(tent, entropy_range=0.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="min_diversity must be a number, got None"):
        midway.Guarded(tent, min_diversity=None)  # type: ignore[arg-type]
