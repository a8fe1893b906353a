"""The page in a real browser."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

from midway.bench import Comparison, Result
from midway.report import write_report
from midway.report.stored_run import StoredRun

HOSTILE = """</script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">"><b onclick=alert(1)>"""
RATIOS = (0.005, 0.05, 0.5)


def _driver() -> ModuleType:
    spec = importlib.util.spec_from_file_location("browser", Path(__file__).with_name("browser.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["browser"] = module
    spec.loader.exec_module(module)
    return module


driver = _driver()
pytestmark = pytest.mark.skipif(driver.CHROMIUM is None, reason="needs Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with driver.Browser() as running:
        yield running


@pytest.fixture
def page(made: Callable[..., Result], tmp_path: Path) -> Path:
    results = []
    for place, label in enumerate(("source", "tent", "mita", HOSTILE)):
        method = label if label != HOSTILE else "tent"
        fog, snow = 60.0 + 5 * place, 50.0 - place
        common = {"method": method, "seconds_per_batch": 0.1 * 3**place}
        results += [
            made(label, "pure:fog", fog, batch_accuracies=(fog - 2, fog, fog + 2), **common),
            made(label, "pure:snow", snow, batch_accuracies=(snow, snow, snow), **common),
        ]
        results += [made(label, f"mixture:fog/snow@{r}", 40 + 20 * r, 60.0, 55.0, **common) for r in RATIOS]
    (tmp_path / "figures").mkdir()
    Image.new("RGB", (600, 400), "red").save(tmp_path / "figures" / "moves.png")
    comparison = Comparison("A comparison", "midway run", {"network": HOSTILE}, tuple(results))
    return write_report(StoredRun(HOSTILE, tmp_path, (comparison,)), tmp_path / "report.html")


def names(browser: Any, table: int = 0) -> list[str]:
    code = f"[...document.querySelectorAll('table.sortable')][{table}].tBodies[0].rows"
    found: list[str] = browser.evaluate(f"[...{code}].filter((r) => !r.hidden).map((r) => r.dataset.method)")
    return found


def search(browser: Any, text: str) -> None:
    field = "document.querySelector('input[type=search]')"
    browser.evaluate(f"{field}.value = '{text}'")
    browser.evaluate(f"{field}.dispatchEvent(new Event('input'))")


@pytest.mark.parametrize("width", [360, 800, 1600])
@pytest.mark.parametrize("dark", [False, True])
def test_it_opens_without_complaint_and_fits_the_window(browser: Any, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width=width, dark=dark)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("document.querySelectorAll('.canvas svg').length") == 4
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(21, 23, 27)" if dark else "rgb(255, 255, 255)"
    )
    overflowing = "[...document.querySelectorAll('.canvas')].filter((c) => c.firstChild.clientWidth > c.clientWidth)"
    assert browser.evaluate(f"{overflowing}.length") == 0
    assert browser.errors == []


def test_a_hostile_name_does_not_run(browser: Any, page: Path) -> None:
    browser.open(page)
    assert browser.evaluate("window.hacked === undefined")
    assert browser.evaluate("document.querySelector('h1').textContent") == HOSTILE
    assert HOSTILE in names(browser)
    browser.evaluate(
        "document.querySelector('.canvas svg').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft'}))"
    )
    assert browser.evaluate("window.hacked === undefined")
    assert browser.errors == []


def test_tables_sort_by_click_and_by_key(browser: Any, page: Path) -> None:
    browser.open(page)
    heads = "document.querySelector('table.sortable').querySelectorAll('th[aria-sort]')"
    assert names(browser) == ["source", "tent", HOSTILE, "mita"]
    browser.evaluate(f"{heads}[1].querySelector('button').click()")  # fog, the highest first
    assert names(browser) == [HOSTILE, "mita", "tent", "source"]
    assert browser.evaluate(f"[...{heads}].map((h) => h.getAttribute('aria-sort'))")[:3] == [
        "none",
        "descending",
        "none",
    ]
    browser.evaluate(f"{heads}[2].querySelector('button').focus()")  # snow
    browser.press("Enter")
    assert names(browser) == ["source", "tent", "mita", HOSTILE]
    browser.press("Enter")
    assert names(browser) == [HOSTILE, "mita", "tent", "source"]


def test_methods_and_columns_are_filtered(browser: Any, page: Path) -> None:
    browser.open(page)
    marks = "document.querySelector('.canvas svg').querySelectorAll('polygon, circle').length"
    before = browser.evaluate(marks)
    browser.evaluate("document.querySelector('.chip[data-method=tent]').click()")
    assert names(browser) == ["source", HOSTILE, "mita"]
    assert browser.evaluate("document.querySelector('.chip[data-method=tent]').getAttribute('aria-pressed')") == "false"
    assert browser.evaluate(marks) == before - 2  # one for each of the two pure streams
    browser.evaluate("document.querySelector('.chip.nothing').click()")
    assert names(browser) == []
    browser.evaluate("document.querySelector('.chip.all').click()")
    assert len(names(browser)) == 4
    shown = "[...document.querySelectorAll('.block.columns th[data-column]')].filter((h) => h.offsetParent).length"
    everything = browser.evaluate(shown)
    search(browser, "pure snow")
    assert browser.evaluate(shown) == 1
    search(browser, "")
    assert browser.evaluate(shown) == everything == 2 + 3 * len(RATIOS)


def test_figures_tell_their_values(browser: Any, page: Path) -> None:
    browser.open(page)
    browser.evaluate(
        "document.querySelectorAll('.canvas svg')[0].scrollIntoView({block: 'center', behavior: 'instant'})"
    )
    x, y = browser.evaluate(
        "(() => { const b = document.querySelector('.canvas svg circle').getBoundingClientRect();"
        " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    browser.move_to(x + 2, y)
    tip = "(() => { const t = document.querySelector('.tip'); return t.hidden ? '' : t.textContent; })()"
    assert browser.evaluate(tip) == "fogSource60.00 %"
    browser.move_to(2, 2)
    assert browser.evaluate(tip) == ""
    browser.evaluate("document.querySelector('.canvas svg').focus()")
    browser.press("ArrowRight")
    assert browser.evaluate(tip) == "fogSource60.00 %"
    browser.press("ArrowRight")
    assert browser.evaluate(tip) == "fogTENT65.00 %"
    browser.press("Escape")
    assert browser.evaluate(tip) == ""


def test_another_view_is_drawn(browser: Any, page: Path) -> None:
    browser.open(page)
    select = "document.querySelector('.chart select')"
    browser.evaluate(f"{select}.selectedIndex = 1")
    browser.evaluate(f"{select}.dispatchEvent(new Event('change'))")
    assert browser.evaluate(f"{select}.value") == "mixture: all images"
    assert "50% fog in snow" in browser.evaluate("document.querySelector('.canvas svg').textContent")


def test_pictures_enlarge_and_close(browser: Any, page: Path) -> None:
    browser.open(page, width=800)
    small = browser.evaluate("document.querySelector('.gallery img').clientWidth")
    browser.evaluate("document.querySelector('.gallery button').focus()")
    browser.press("Enter")
    assert browser.evaluate("document.querySelector('dialog').open")
    assert browser.evaluate("document.querySelector('dialog img').clientWidth") > small
    browser.press("Escape")
    assert not browser.evaluate("document.querySelector('dialog').open")
    assert browser.errors == []


def test_the_theme_switches(browser: Any, page: Path) -> None:
    browser.open(page)
    colours = []
    for _ in range(3):
        browser.evaluate("document.getElementById('theme').click()")
        colours.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(255, 255, 255)", "rgb(21, 23, 27)", "rgb(255, 255, 255)"]  # light, dark, the system's
