from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from midway import data
from midway.data.preview import panels


def test_panels_are_the_corruptions_in_order() -> None:
    mini = data.load("cifar10-mini")
    made = panels(mini, image=7, severities=(2, 4))
    assert (made[0].corruption, made[0].severity) == ("clean", 0)
    assert [panel.corruption for panel in made[1::2]] == list(data.corruption_names())
    assert [panel.severity for panel in made[1:5]] == [2, 4, 2, 4]
    np.testing.assert_array_equal(made[0].image, mini.images[7])
    np.testing.assert_array_equal(
        made[2].image, data.corrupt(mini.images[[7]], "gaussian_noise", severity=4, indices=[7])[0]
    )


@pytest.mark.parametrize(("severities", "size"), [((5,), (1472, 1436)), ((1, 5), (932, 3692))])
def test_sheet(tmp_path: Path, severities: tuple[int, ...], size: tuple[int, int]) -> None:
    path = data.contact_sheet(data.load("cifar10-mini"), tmp_path / "new" / "sheet.png", image=1, severities=severities)
    with Image.open(path) as sheet:
        assert sheet.size == size
        assert sheet.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
    assert [file.name for file in path.parent.iterdir()] == ["sheet.png"]


def test_there_is_no_such_image(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no image 2000 in cifar10-mini: it has 0 to 1999"):
        data.contact_sheet(data.load("cifar10-mini"), tmp_path / "sheet.png", image=2000)
    with pytest.raises(ValueError, match="severity must be an integer from 1 to 5, got 9"):
        data.contact_sheet(data.load("cifar10-mini"), tmp_path / "sheet.png", severities=[9])
    with pytest.raises(ValueError, match=r"sheet.txt is to be a PNG: give it a name that ends in .png"):
        data.contact_sheet(data.load("cifar10-mini"), tmp_path / "sheet.txt")
