from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from midway.data import Draws, corrupt, corruption, corruption_names
from midway.data.corruptions import REGISTRY
from midway.streams import expand


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget corruptions that a test registers."""
    monkeypatch.setattr(REGISTRY, "_objects", dict(REGISTRY))


def _filled(images: Any, strength: tuple[float, ...], draws: Draws) -> Any:
    return np.full_like(images, strength[0])


def test_a_twentieth_corruption_changes_neither_the_benchmark_nor_the_tuning_set() -> None:
    before = {purpose: corruption_names(purpose) for purpose in ("benchmark", "tuning")}  # type: ignore[arg-type]
    texts = [[str(each) for each in expand(text)] for text in ("pure:all", "continual:tuning")]
    corruption(strengths=[1, 2, 3, 4, 5], name="filled")(_filled)
    assert corruption_names("extra") == ("filled",)
    assert corruption_names() == before["benchmark"] + before["tuning"] + ("filled",)
    assert [[str(each) for each in expand(text)] for text in ("pure:all", "continual:tuning")] == texts


@pytest.mark.parametrize(
    ("strengths", "expected"),
    [([1, 2, 3, 4, 5], (3, 3, 3)), ({64: range(5)}, (2, 2, 2)), ({32: range(5), 224: range(10, 15)}, (2, 2, 12))],
)
def test_missing_image_sizes_use_the_nearest_strengths(strengths: Any, expected: tuple[int, ...]) -> None:
    corruption(strengths=strengths, name="filled")(_filled)
    for side, value in zip((32, 64, 224), expected, strict=True):
        images = np.full((2, side, side, 3), 99, np.uint8)
        assert set(corrupt(images, "filled", severity=3).ravel()) == {value}


def test_a_purpose_places_a_corruption_last_in_its_category() -> None:
    decorator: Callable[..., Any] = corruption(strengths=[1] * 5, purpose="tuning", category="blur", name="filled")
    decorator(_filled)
    assert corruption_names("tuning") == ("speckle_noise", "gaussian_blur", "filled", "spatter", "saturate")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strengths": [1, 2, 3]}, "strengths of _filled must be five values, for severities 1 to 5"),
        ({"strengths": {}}, "strengths of _filled must be five values"),
        ({"strengths": {100: [1] * 5}}, "a mapping from image sides (32, 64, 224) to five values each"),
        ({"strengths": [1] * 5, "purpose": "test"}, "purpose of _filled must be one of benchmark, tuning, extra"),
        ({"strengths": [1] * 5, "category": "fur"}, "category of _filled must be one of noise, blur, weather"),
        ({"strengths": [1] * 5, "name": "fog"}, "the name 'fog' is already used by the corruption midway.data.corr"),
    ],
)
def test_a_forgotten_part_is_an_error_at_registration(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        corruption(**arguments)(_filled)
    assert "_filled" not in REGISTRY


def test_a_definition_may_be_executed_twice() -> None:
    for value in (7, 8):
        corruption(strengths=[value] * 5, name="filled")(_filled)
    assert corrupt(np.zeros((1, 8, 8, 3), np.uint8), "filled").max() == 8
