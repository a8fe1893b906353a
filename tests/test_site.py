"""The documentation site: every method has its page, facts come from the registry, and the site builds strictly."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from check_site import faults
from site_hooks import facts, public_modules, settings, with_facts

from midway.methods import METHODS

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs/methods"
BUILT_IN = {name: method for name, method in METHODS.items() if method.__module__.startswith("midway.methods.")}
SECTIONS = ["Formula", "When to use", "When not"]


def test_every_method_has_a_page_and_every_page_a_method() -> None:
    pages = {path.stem for path in PAGES.glob("*.md")}
    assert sorted(BUILT_IN.keys() - pages) == [], f"write docs/methods/<name>.md with the sections {SECTIONS}"
    assert sorted(pages - BUILT_IN.keys()) == [], "these pages belong to no method"


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_the_page_of_a_method_has_its_title_a_formula_and_when_to_use_it(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text()
    assert text.splitlines()[0] == f"# {BUILT_IN[name].about.title}"
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE)[: len(SECTIONS)] == SECTIONS
    assert "$$" in text.split("## Formula")[1].split("## When to use")[0]
    assert text.count("<!-- facts -->") == 1


def test_facts_and_settings_come_from_the_registry() -> None:
    assert "| paper | Wang et al., ICLR 2021 |" in facts("tent")
    assert '`midway.Tent(model)` or `midway.adapt(model, "tent")`' in facts("tent")
    lines = settings("tent").splitlines()
    row = next(line for line in lines if line.startswith("| `lr` |"))
    assert "default `0.001` (CIFAR-size), `0.00025` (ImageNet-size)" in row
    assert "searched 1e-05 to 0.01, logarithmic" in row
    assert "published `80`" in settings("dua")
    assert settings("source") == "## Settings\n\nNone.\n"


def test_facts_replace_the_marker_and_settings_follow() -> None:
    page = with_facts("# BN\n\nText.\n\n<!-- facts -->\n\n## Formula\n", "bn")
    assert page.index("Text.") < page.index("| paper |") < page.index("## Formula") < page.index("## Settings")
    assert "<!-- facts -->" not in page


def test_the_check_of_a_site_finds_broken_links_and_the_network(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<a href="other.html#there">1</a><a href="other.html#gone">2</a><a href="gone.html">3</a>'
        '<a href="https://example.org">4</a><script src="https://example.org/x.js"></script><img src="gone.png">'
    )
    (tmp_path / "other.html").write_text('<h1 id="there">Title</h1>')
    (tmp_path / "style.css").write_text("@import 'https://example.org/font.css';")
    assert list(faults(tmp_path)) == [
        "index.html links to other.html#gone, and other.html has no such heading",
        "index.html links to gone.html, which does not exist",
        "index.html loads https://example.org/x.js from the network",
        "index.html links to gone.png, which does not exist",
        "style.css loads https://example.org/font.css from the network",
    ]


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("material", "mkdocstrings", "latex2mathml")),
    reason="needs the extra docs: pip install '.[docs]'",
)
def test_the_site_builds_strictly_and_its_links_lead_somewhere(tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(site)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")
    assert list(faults(site)) == []
    assert {path.stem for path in (site / "methods").glob("*.html")} == set(BUILT_IN)
    assert {path.stem for path in (site / "api").glob("*.html")} == set(public_modules())
    page = (site / "methods/tent.html").read_text()
    assert "<math" in page
    assert "arithmatex" not in page
    reference = (site / "api/midway.html").read_text()
    assert 'id="midway.adapt"' in reference
    for path in (site / "api").glob("*.html"):
        assert "doc-symbol-module" not in path.read_text(), path.stem  # functions and classes alone
    assert "<blockquote>" not in reference  # what >>> becomes outside of the section of examples
