"""What the documents show runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import midway
from midway._registry import Registry
from midway.adaptation.registry import METHODS
from midway.adaptation.wrappers import WRAPPERS
from midway.bench import ENGINES, load_plan
from midway.bench.entries import READERS
from midway.data.corruptions import REGISTRY as CORRUPTIONS
from midway.data.datasets import REGISTRY as DATA_SETS
from midway.metrics import METRICS
from midway.report.figures import FIGURES
from midway.streams import expand
from midway.streams.registry import REGISTRY as SCENARIOS

ROOT = Path(__file__).parents[1]
REGISTRIES: list[Registry[Any]] = [
    METHODS, WRAPPERS, CORRUPTIONS, SCENARIOS, DATA_SETS, ENGINES, METRICS, FIGURES,
]  # fmt: skip
BLOCKS = [
    pytest.param(block, id=f"{path.name}:{number}")
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_blocks_run(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for registry in REGISTRIES:  # a block may register something
        monkeypatch.setattr(registry, "_objects", dict(registry))
    exec(compile(block, "block", "exec"), {"__name__": "block"})


def test_the_page_on_plans_has_every_key_and_every_kind_of_scenario(tmp_path: Path) -> None:
    page = (ROOT / "docs/plans.md").read_text()
    (plan := tmp_path / "plan.toml").write_text(re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)[0])
    assert len(load_plan(plan).cells()) == 5 * 16 * 3
    keys = re.findall(r"^\| `\[*(\w+)\]*` \|", page, flags=re.MULTILINE)
    assert keys == list(READERS)
    written = [text for line in re.findall(r"^\| (`\w+:.*?) \|", page, flags=re.MULTILINE) for text in line.split(", ")]
    kinds = {scenario.kind for text in written for scenario in expand(text.strip("`"))}
    assert kinds == set(SCENARIOS)


def test_local_links_lead_somewhere() -> None:
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
            if not link.startswith("http"):
                assert (path.parent / link).exists(), f"{path.name} links to {link}"


def test_the_citation_and_the_changelog_name_the_version() -> None:
    cited = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)
    assert cited == [midway.__version__]
    newest = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert newest is not None
    assert newest[1] in (midway.__version__, "Unreleased")


def test_the_version_has_one_definition() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"]["attr"] == "midway._version.__version__"
    literals = [path for path in (ROOT / "src").rglob("*.py") if re.search(r"^__version__ =", path.read_text(), re.M)]
    assert [path.name for path in literals] == ["_version.py"]


def test_the_minimum_constraints_are_the_claimed_minimum_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    claimed = [*project["dependencies"], *extras["tune"], *extras["test"]]
    pins = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints-minimum.txt").read_text(), flags=re.MULTILINE))
    minimum = dict(re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=(\S+)", text).groups() for text in claimed if ">=" in text)
    del minimum["torch"], pins["torch"]
    assert {name: f"{pins[name]}."[: len(version) + 1] for name, version in minimum.items()} == {
        name: f"{version}." for name, version in minimum.items()
    }


def test_every_requirement_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    names = {re.split(r"[\[>]", text)[0].lower().replace("_", "-") for text in texts} - {"midway"}
    lines = (ROOT / "constraints.txt").read_text().lower().replace("_", "-").splitlines()
    assert names - {line.split("==")[0] for line in lines} == set()


def test_importing_midway_is_free_of_optional_packages() -> None:
    code = (
        "import sys, midway; print(sorted({'optuna', 'ray', 'matplotlib', 'timm', 'torchvision'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
