"""What the documents show runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from midway.adaptation import registry
from midway.bench import load_plan
from midway.bench.plan_values import READERS
from midway.streams.scenario import KINDS, expand

ROOT = Path(__file__).parents[1]
BLOCKS = [
    pytest.param(block, id=f"{path.name}:{number}")
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_blocks_run(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))  # a block may register a method of its own
    exec(compile(block, "block", "exec"), {"__name__": "block"})


def test_the_page_on_plans_has_every_key_and_every_kind_of_scenario(tmp_path: Path) -> None:
    page = (ROOT / "docs/plans.md").read_text()
    (plan := tmp_path / "plan.toml").write_text(re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)[0])
    assert len(load_plan(plan).cells()) == 5 * 16 * 3
    keys = re.findall(r"^\| `\[*(\w+)\]*` \|", page, flags=re.MULTILINE)
    assert keys == list(READERS)
    written = [text for line in re.findall(r"^\| (`\w+:.*?) \|", page, flags=re.MULTILINE) for text in line.split(", ")]
    kinds = {scenario.kind for text in written for scenario in expand(text.strip("`"))}
    assert kinds == set(KINDS)


def test_local_links_lead_somewhere() -> None:
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
            if not link.startswith("http"):
                assert (path.parent / link).exists(), f"{path.name} links to {link}"


def test_importing_midway_is_free_of_optional_packages() -> None:
    code = (
        "import sys, midway; print(sorted({'optuna', 'ray', 'matplotlib', 'timm', 'torchvision'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
