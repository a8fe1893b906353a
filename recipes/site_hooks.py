"""Complete the documentation site while mkdocs builds it (mkdocs.yml names this file).

The facts on the page of a method come from the registry, the API pages from the table in docs/public_api.md, formulas
become MathML, and files outside docs/ that a page links to become pages of the site.
"""

from __future__ import annotations

import html
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from midway.adaptation import describe
from midway.adaptation.registry import FOR_EVERY_METHOD
from midway.methods import METHODS, find, hyperparameters, names

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FACTS = "<!-- facts -->"
"""Where the table of facts goes in the page of a method; without it, below the heading."""

_documented: dict[int, str] = {}


def on_config(config: Any) -> Any:
    """Fill in the pages of the methods and of the API in the navigation."""
    methods = [{find(name).about.title: f"methods/{name}.md"} for name in names()]
    modules: list[dict[str, str]] = [{name: f"api/{name}.md"} for name in public_modules()]
    for section in config.nav:
        for title, entries in section.items():
            if isinstance(entries, list):
                section[title] = [
                    each
                    for entry in entries
                    for each in (methods if entry == "methods/*" else modules if entry == "api/*" else [entry])
                ]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that no file in docs/ holds."""
    from mkdocs.structure.files import File

    _documented.clear()
    pages = {f"api/{name}.md": api_page(name) for name in public_modules()}
    for target, uri in outside_files().items():
        text = target.read_text(encoding="utf-8")
        code = f"# {target.relative_to(ROOT)}\n\n```python\n{text}```\n"
        pages[uri] = text if target.suffix == ".md" else code
    for uri, text in pages.items():
        page = File.generated(config, uri, content=text)
        if uri.startswith("source/"):
            page.inclusion = page.inclusion.NOT_IN_NAV
        files.append(page)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Add the facts to the page of a method, and redirect links to files outside docs/."""
    uri = Path(page.file.src_uri)
    if uri.parent == Path("methods"):
        markdown = with_facts(markdown, uri.stem)
    if str(uri) == "methods.md":  # the table leads to the pages
        known = "|".join(names())
        markdown = re.sub(rf"^\| ({known}) \| ", r"| [\1](methods/\1.md) | ", markdown, flags=re.MULTILINE)
    if str(uri) in ("contributing.md", "changelog.md"):
        markdown = re.sub(r"\]\(docs/", "](", markdown)
        markdown = re.sub(r"\]\((CHANGELOG|CONTRIBUTING)\.md", lambda match: f"]({match[1].lower()}.md", markdown)
    markdown = re.sub(r"\[([\w/]+)\.md\]\(", lambda match: f"[{Path(match[1]).name}](", markdown)  # names of files
    up = "../" * len(uri.parent.parts)
    for target, other in outside_files().items():
        written = re.escape(str(target.relative_to(ROOT)))
        markdown = re.sub(rf"\]\((?:\.\./)+{written}(#[^)]*)?\)", lambda m: f"]({up}{other}{m[1] or ''})", markdown)  # noqa: B023
    return markdown


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    """Turn formulas into MathML, which browsers draw without scripts or fonts from the network."""
    from latex2mathml.converter import convert

    def mathml(match: re.Match[str]) -> str:
        text = html.unescape(match[2]).strip()
        block = text.startswith(r"\[")
        return str(convert(text[2:-2].strip(), display="block" if block else "inline"))

    return re.sub(r'<(span|div) class="arithmatex">(.*?)</\1>', mathml, content, flags=re.DOTALL)


# ---- methods ---------------------------------------------------------------------------------------------------------


def with_facts(markdown: str, name: str) -> str:
    """Return the page of a method with its facts below the heading and its settings at the end."""
    marker = FACTS if FACTS in markdown else markdown.splitlines()[0]
    keep = "" if marker == FACTS else marker + "\n\n"
    return f"{markdown.replace(marker, keep + facts(name), 1)}\n{settings(name)}"


def facts(name: str) -> str:
    """Return the facts of a method as a Markdown table, from the registry."""
    row = next(row for row in describe.overview() if row["name"] == name)
    method = find(name)
    shown = {
        "paper": row["paper"],
        "in code": f'`midway.{method.__name__}(model)` or `midway.adapt(model, "{name}")`',
        "paradigm": f"{row['paradigm']} (uses other images: {row['uses other images']}, "
        f"aligns each image: {row['aligns each image']})",
        "adapts": row["adapts"],
        "cost of a batch": f"{row['passes per batch']} (F, B: forward and backward passes)",
        "predicts": {"-": "without an update"}.get(row["predicts"], f"{row['predicts']} the update"),
        "needs": row["needs"].replace("-", "nothing but images") if row["needs"] == "-" else row["needs"],
        "signals (N, C, L)": "yes" if method.about.accepts_signals else "no, images only",
    }
    lines = ["| | |", "| --- | --- |", *(f"| {key} | {_cell(value)} |" for key, value in shown.items())]
    return '<div class="facts" markdown>\n\n' + "\n".join(lines) + "\n\n</div>\n"


def settings(name: str) -> str:
    """Return the section on the hyper-parameters of a method: defaults, published, tuned, searched, meaning."""
    method = find(name)
    defaults, texts, tuned = describe.defaults_of(name), describe.arguments_of(method), describe.tuned_of(name)
    if not defaults:
        return "## Settings\n\nNone.\n"
    lines = ["| setting | values | meaning |", "| --- | --- | --- |"]
    for key in hyperparameters(name):
        values = {
            "default": _code(defaults[key]),
            "published": _code(repr(method.published[key])) if key in method.published else "",
            "tuned": _code(tuned[key]) if key in tuned else "",
            "searched": str(method.search_space.get(key, "")),
        }
        written = "<br>".join(f"{what} {value}" for what, value in values.items() if value)
        lines.append(f"| {' | '.join(map(_cell, (f'`{key}`', written, texts.get(key, ''))))} |")
    common = ", ".join(f"`{key}`" for key in FOR_EVERY_METHOD)
    notes = [
        '*Published* is given where `preset="published"` differs from the default.' if method.published else "",
        '*Tuned* is `preset="tuned"`, the result of a search on CIFAR-10 ([tuning](../tuning.md)).' if tuned else "",
        "*Searched* is the range of `midway tune`." if method.search_space else "",
        f"Every method also accepts {common}; see [`midway.adapt`](../api/midway.md#midway.adapt).",
    ]
    return "## Settings\n\n" + "\n".join(lines) + "\n\n" + " ".join(filter(None, notes)) + "\n"


def _code(text: str) -> str:
    """Write a value as code; each one of `a (CIFAR-size), b (ImageNet-size)`."""
    several = re.findall(r"(.+?) (\([\w-]+\))(?:, |$)", text) if re.search(r"\((CIFAR|ImageNet)[\w-]*\)$", text) else []
    return ", ".join(f"`{value}` {of}" for value, of in several) or f"`{text}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


# ---- API -------------------------------------------------------------------------------------------------------------


def public_modules() -> list[str]:
    """Return the modules that docs/public_api.md lists."""
    page = (DOCS / "public_api.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(midway[\w.]*)` \|", page.split("## Python\n")[1].split("\n## ")[0], flags=re.MULTILINE)


def public_names(module: ModuleType) -> Iterator[str]:
    """Yield the public functions and classes of a module, except methods, each for the first module that has it."""
    exported = getattr(module, "__all__", None)
    for name, value in sorted(vars(module).items(), key=lambda item: item[0].lower()):
        own = getattr(value, "__module__", None) == module.__name__ and not name.startswith("_")
        public = own if exported is None else name in exported
        if not public or value in METHODS.values() or not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        if _documented.setdefault(id(value), module.__name__) == module.__name__:
            yield name


def api_page(name: str) -> str:
    """Return the page of a public module."""
    module = importlib.import_module(name)
    lines = [f"# {name}", "", f"::: {name}", "    options:", "      members: false", "      show_root_heading: false"]
    lines += ["      show_root_toc_entry: false", ""]
    if name in ("midway", "midway.methods"):
        links = ", ".join(f"[{find(each).__name__}](../methods/{each}.md)" for each in names())
        lines += [f"The methods have pages of their own: {links}.", ""]
    for member in public_names(module):
        target = f"{name}.{member}"
        defined_in = getattr(module, member).__module__
        if defined_in.rpartition(".")[2] == member:  # mkdocstrings would take the module of this name
            lines += [f"[](){{#{target}}}", ""]
            target = f"{defined_in}.{member}"
        lines += [f"::: {target}", "    options:", f"      heading: {name}.{member}", ""]
    return "\n".join(lines)


# ---- files outside docs/ ---------------------------------------------------------------------------------------------


def outside_files() -> dict[Path, str]:
    """Return the files outside docs/ that pages link to, and their pages in the site."""
    found = {ROOT / "CHANGELOG.md": "changelog.md", ROOT / "CONTRIBUTING.md": "contributing.md"}
    for page in sorted(DOCS.rglob("*.md")):
        for link in re.findall(r"\]\((\.\./[^)#]+)", page.read_text(encoding="utf-8")):
            target = (page.parent / link).resolve()
            if not target.is_relative_to(DOCS) and target.is_file():
                found.setdefault(target, f"source/{target.relative_to(ROOT).with_suffix('.md')}")
    return found
