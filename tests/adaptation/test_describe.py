from __future__ import annotations

from pathlib import Path

import pytest

import midway
from midway.adaptation import describe

DOCUMENT = Path(__file__).parents[2] / "docs" / "methods.md"


def test_the_document_shows_the_present_table() -> None:
    assert describe.overview_markdown() in DOCUMENT.read_text(), "put in what `midway methods --markdown` prints"


@pytest.mark.parametrize("name", midway.methods.names())
def test_every_hyperparameter_is_explained_and_nothing_else(name: str) -> None:
    explained = describe.arguments_of(midway.methods.find(name))
    explained.pop("model", None)
    assert list(explained) == list(midway.methods.hyperparameters(name))
    assert all(text.endswith(".") for text in explained.values())
    assert list(describe.defaults_of(name)) == list(explained)


@pytest.mark.parametrize("name", midway.methods.names())
def test_the_summary_is_the_prose_alone(name: str) -> None:
    summary = describe.summary_of(midway.methods.find(name))
    assert summary
    assert not any(word in summary for word in ("Args:", "Example:", ">>>", "``"))


@pytest.mark.parametrize("name", [name for name in midway.methods.names() if name != "source"])
def test_help_names_the_paper(name: str) -> None:
    method = midway.methods.find(name)
    assert f"Paper: {method.about.paper}." in str(method.__doc__)


def test_the_papers_comparison_of_paradigms() -> None:
    """Batch methods use other images and align none; instance methods the other way round; MITA does both."""
    rows = {row["name"]: row for row in describe.overview()}
    both = {name: (row["uses other images"], row["aligns each image"]) for name, row in rows.items()}
    assert {both[name] for name, row in rows.items() if row["paradigm"] == "batch"} == {("yes", "no")}
    assert both["memo"] == both["dda"] == ("no", "yes")
    assert both["mita"] == ("yes", "yes")
    assert both["source"] == ("no", "no")


def test_tuned_values_as_text() -> None:
    assert describe.tuned_of("memo") == {}
    assert describe.tuned_of("bn") == {"prior": "4"}


def test_defaults_by_size() -> None:
    assert describe.defaults_of("eata")["fisher_weight"] == "1 (CIFAR-size), 2000 (ImageNet-size)"
    assert describe.defaults_of("eata")["lr"] == "0.001 (CIFAR-size), 0.00025 (ImageNet-size)"
    assert describe.defaults_of("sar")["lr"] == "0.01 (CIFAR-10), 0.001 (CIFAR-100), 0.00025 (ImageNet)"
    assert describe.defaults_of("tent")["lr"] == "0.001 (CIFAR-size), 0.00025 (ImageNet-size)"
    assert describe.defaults_of("pl")["lr"] == "0.001"
