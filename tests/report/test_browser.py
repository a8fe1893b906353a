"""The page in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import browser as driver
import pytest
from PIL import Image

import midway
from midway.bench import Record
from midway.report import Comparison, StoredRun, group_records, stored_run, write_report
from midway.tune import StudyResult, TrialRecord

HOSTILE = """</script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">"><b onclick=alert(1)>"""
RATIOS = (0.005, 0.05, 0.5)


pytestmark = pytest.mark.skipif(driver.CHROMIUM is None, reason="needs Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with driver.Browser() as running:
        yield running


@pytest.fixture
def page(made: Callable[..., Record], tmp_path: Path) -> Path:
    records = []
    for index, label in enumerate(("source", "tent", "mita", HOSTILE)):
        hostile = {"method": "tent", "settings": {"lr": 1.0}} if label == HOSTILE else {}
        fog, snow = 60.0 + 5 * index, 50.0 - index
        common: dict[str, Any] = {"seconds_per_batch": 0.1 * 3**index, **hostile}
        records += [
            made(label, "pure:fog", fog, batch_accuracies=(fog - 2, fog, fog + 2), **common),
            made(label, "pure:snow", snow, batch_accuracies=(snow, snow, snow), **common),
        ]
        records += [made(label, f"mixture:fog/snow@{r}", 40 + 20 * r, 60.0, 55.0, **common) for r in RATIOS]
    (tmp_path / "figures").mkdir()
    Image.new("RGB", (600, 400), "red").save(tmp_path / "figures" / "motivation.png")
    records = [replace(record, environment={"cpu": HOSTILE}) for record in records]
    return write_report(stored_run(HOSTILE, records, folder=tmp_path), tmp_path / "report.html")


ACCURACIES = "document.querySelector('.block table.sortable')"


def names(browser: Any) -> list[str]:
    code = f"[...{ACCURACIES}.tBodies[0].rows]"
    found: list[str] = browser.evaluate(f"{code}.filter((r) => !r.hidden).map((r) => r.dataset.method)")
    return found


def middle(browser: Any, selector: str) -> tuple[float, float]:
    """Bring an element into view and return where its middle is."""
    element = f"document.querySelector({selector!r})"
    browser.evaluate(f"{element}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    box = f"{element}.getBoundingClientRect()"
    x, y = browser.evaluate(f"[{box}.x + {box}.width / 2, {box}.y + {box}.height / 2]")
    return x, y


def shown(browser: Any, selector: str) -> bool:
    found: bool = browser.evaluate(f"document.querySelector({selector!r}).getClientRects().length > 0")
    return found


TIP = "(() => { const t = document.querySelector('.tip'); return t.hidden ? '' : t.textContent; })()"


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


@pytest.mark.parametrize("kind", ["a search", "two runs", "without labels"])
def test_hostile_names_do_not_run_on_other_pages(
    browser: Any, made: Callable[..., Record], tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "report.html"
    records = [made("source", "pure:fog", 60.0), made(HOSTILE, "pure:fog", 61.0), made("bn", "pure:fog", error=HOSTILE)]
    run = stored_run(HOSTILE, [replace(record, command=HOSTILE) for record in records], left_out={HOSTILE: HOSTILE})
    if kind == "a search":
        settings = {HOSTILE: HOSTILE}
        trials = tuple(TrialRecord(n, "failed" if n else "complete", settings, 70.0, failure=HOSTILE) for n in range(3))
        found = StudyResult(HOSTILE, HOSTILE, {HOSTILE: HOSTILE}, settings, trials, {HOSTILE: 1.0}, HOSTILE)
        write_report(StoredRun(HOSTILE, None, (), search=found), path)
    elif kind == "two runs":
        write_report(run, path, against=replace(run, name=f"{HOSTILE} again"))
    else:
        unlabelled = [
            replace(record, result=replace(record.result, metrics={"changed": 0.0}, groups={}))
            for record in records[:2]
        ]
        midway.CompareResult(tuple(unlabelled), labelled=False).report(path)
    browser.open(path)
    assert HOSTILE in browser.evaluate("document.body.textContent")
    assert browser.evaluate("window.hacked === undefined")
    assert browser.evaluate("document.querySelectorAll('[onerror], [onclick]').length") == 0
    assert browser.errors == []


def test_tables_sort_by_click_and_by_key(browser: Any, page: Path) -> None:
    browser.open(page)
    heads = f"{ACCURACIES}.querySelectorAll('th[aria-sort]')"
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


def test_every_table_sorts(browser: Any, page: Path) -> None:
    browser.open(page)
    assert browser.evaluate("document.querySelectorAll('table:not(.sortable)').length") == 0
    scenarios = "document.querySelector('[aria-label=\"Best by scenario\"] table')"
    column = f"[...{scenarios}.tBodies[0].rows].map((row) => Number(row.children[2].dataset.value))"
    before = browser.evaluate(column)
    browser.evaluate(f"{scenarios}.querySelectorAll('th button')[2].click()")
    assert browser.evaluate(column) == sorted(before, reverse=True) != before
    browser.evaluate(f"{scenarios}.querySelectorAll('th button')[0].click()")  # texts, from a to z
    scopes = browser.evaluate(f"[...{scenarios}.tBodies[0].rows].map((row) => row.children[0].textContent)")
    assert scopes == sorted(scopes)


def test_figures_tell_their_values(browser: Any, page: Path) -> None:
    browser.open(page)
    x, y = middle(browser, ".canvas svg circle")
    browser.move_to(x + 2, y)
    assert browser.evaluate(TIP) == "fogSource60.00 %"
    browser.move_to(2, 2)
    assert browser.evaluate(TIP) == ""
    browser.evaluate("document.querySelector('.canvas svg').focus()")
    browser.press("ArrowRight")
    assert browser.evaluate(TIP) == "fogSource60.00 %"
    browser.press("ArrowRight")
    assert browser.evaluate(TIP) == "fogTENT65.00 %"
    browser.press("Escape")
    assert browser.evaluate(TIP) == ""


def test_a_finger_may_lift_from_a_figure(browser: Any, page: Path) -> None:
    browser.open(page, width=390)
    browser.tap(*middle(browser, ".canvas svg circle"))
    assert browser.evaluate(TIP) == "fogSource60.00 %"
    browser.tap(*middle(browser, ".chart figcaption"))
    assert browser.evaluate(TIP) == ""
    assert browser.errors == []


def test_what_is_cut_shows_that_it_goes_on(browser: Any, page: Path) -> None:
    browser.open(page, width=390)
    scenarios = "document.querySelector('[aria-label=\"Best by scenario\"]')"
    faded = f"getComputedStyle({scenarios}).maskImage !== 'none'"
    assert browser.evaluate(faded)
    assert browser.evaluate("document.querySelector('.chips').classList.contains('cut')")
    browser.evaluate(f"{scenarios}.scrollTo({{left: 9999, behavior: 'instant'}})")
    assert not browser.evaluate(faded)  # the end is there
    browser.open(page, width=1600)
    assert not browser.evaluate(faded)


def test_cards_stand_two_by_two_on_a_phone(browser: Any, page: Path) -> None:
    for width, rows in ((390, 2), (500, 2), (800, 2), (1600, 1)):
        browser.open(page, width=width)
        tops = browser.evaluate("[...document.querySelectorAll('.card')].map((c) => c.getBoundingClientRect().top)")
        assert (len(tops), len(set(tops))) == (4, rows)


def test_paper_has_names_and_legends(browser: Any, page: Path) -> None:
    browser.open(page, dark=True)
    assert not shown(browser, ".legend")
    browser.open(page, dark=True, media="print")
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert shown(browser, ".legend")
    assert shown(browser, ".view")
    assert not shown(browser, ".chart select")
    assert not shown(browser, ".controls")
    legends = browser.evaluate("[...document.querySelectorAll('.legend')].map((l) => l.textContent)")
    assert legends == [f"SourceTENT{HOSTILE}MITA"] * 4
    assert browser.evaluate("document.querySelector('.chart h4').textContent") == "Accuracy by streampure"
    browser.evaluate("document.querySelector('.chip[data-method=tent]').click()")
    assert browser.evaluate("document.querySelector('.legend').textContent") == f"Source{HOSTILE}MITA"
    assert browser.errors == []


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


def test_a_picture_opens_at_its_own_size_on_a_phone(browser: Any, page: Path) -> None:
    browser.open(page, width=390)
    browser.tap(*middle(browser, ".gallery img"))
    assert browser.evaluate("document.querySelector('dialog').open")
    box = "document.querySelector('.whole')"
    assert browser.evaluate(f"{box}.firstElementChild.clientWidth") == 600
    assert browser.evaluate(f"[{box}.scrollWidth, {box}.clientWidth < 390]") == [600, True]
    assert browser.evaluate("document.querySelector('dialog').getBoundingClientRect().width") <= 390
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390
    browser.tap(*middle(browser, ".whole"))
    assert not browser.evaluate("document.querySelector('dialog').open")
    assert browser.errors == []


@pytest.fixture
def two_comparisons(made: Callable[..., Record]) -> tuple[Comparison, ...]:
    def of(title: str, gain: float) -> Comparison:
        rows = [made(label, "pure:fog", 60.0 + gain + index) for index, label in enumerate(("source", "mita"))]
        return replace(group_records(rows)[0], title=title, settings={"network": title})

    return of("a net", 0.0), of("another net", 5.0)


@pytest.mark.parametrize("width", [390, 1600])
def test_several_comparisons(browser: Any, two_comparisons: Any, tmp_path: Path, width: int) -> None:
    browser.open(write_report(StoredRun("x", None, two_comparisons), tmp_path / "report.html"), width=width)
    assert browser.evaluate("document.querySelectorAll('section[data-section]').length") == 2
    best = "[...document.querySelectorAll('nav li')].map((item) => item.textContent)"
    assert browser.evaluate(best) == ["a net: MITA 61.00 %", "another net: MITA 66.00 %"]
    browser.evaluate("document.querySelector('#comparison-1 .chip[data-method=mita]').click()")
    rows = "[...document.querySelectorAll('.block.columns tr[data-method=mita]')].map((row) => row.hidden)"
    assert browser.evaluate(rows) == [False, True]  # each part has its own chips
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.errors == []


@pytest.mark.parametrize("width", [390, 1600])
def test_two_runs(browser: Any, two_comparisons: Any, tmp_path: Path, width: int) -> None:
    first = StoredRun("run", tmp_path / "monday" / "run", two_comparisons[:1])
    better = replace(two_comparisons[1], title="a net")
    second = StoredRun("run", tmp_path / "tuesday" / "run", (better, two_comparisons[1]))
    browser.open(write_report(second, tmp_path / "report.html", against=first), width=width)
    assert browser.evaluate("document.querySelector('h1').textContent") == "tuesday/run against monday/run"
    change = "document.querySelector('#difference')"
    assert browser.evaluate(f"{change}.querySelectorAll('.canvas svg').length") == 1
    assert browser.evaluate(f"{change}.querySelectorAll('td[data-value=\"5.0\"]').length") == 4  # two tables, two rows
    assert "MITA" in browser.evaluate(f"{change}.querySelector('.canvas svg').textContent")
    browser.tap(*middle(browser, "#difference .canvas circle"))
    assert browser.evaluate(f"{change}.querySelector('.tip').textContent") == "SourceSource+5.00 points"
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.errors == []


def test_the_console_is_heard(browser: Any, page: Path) -> None:
    browser.open(page)
    browser.evaluate("console.error('no')")
    assert len(browser.errors) == 1


def test_the_theme_switches(browser: Any, page: Path) -> None:
    browser.open(page)
    colours = []
    for _ in range(3):
        browser.evaluate("document.getElementById('theme').click()")
        colours.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(255, 255, 255)", "rgb(21, 23, 27)", "rgb(255, 255, 255)"]  # light, dark, the system's


@pytest.mark.parametrize("width", [390, 1600])
def test_the_page_of_a_search(browser: Any, tmp_path: Path, width: int) -> None:
    trials = tuple(TrialRecord(n, "complete", {"lr": n}, 70.0 + n % 3, seconds=1.0) for n in range(6))
    found = StudyResult("tent", "tent-0", {}, {"lr": 0}, trials, {"lr": 1.0}, "midway tune tent")
    run = StoredRun("search", None, (), search=found)
    browser.open(write_report(run, tmp_path / "report.html"), width=width)
    assert browser.evaluate("document.querySelectorAll('#search .canvas svg').length") == 2
    assert (
        browser.evaluate("document.querySelectorAll('#search .canvas svg')[0].querySelectorAll('circle').length") == 6
    )
    assert shown(browser, "#search .legend")
    assert browser.evaluate("document.querySelector('.legend').textContent") == "completebest so fardefaults"
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.errors == []
