"""docs/recommend.md has the tables that benchmarks/label_free_table.py prints of the stored scores."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import nn

ROOT = Path(__file__).parents[1]
STORED = ROOT / "docs" / "results" / "label_free.csv"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    specification = importlib.util.spec_from_file_location("label_free_table", ROOT / "benchmarks/label_free_table.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_page_has_the_tables(script: ModuleType) -> None:
    page = (ROOT / "docs" / "recommend.md").read_text()
    table = script.read(STORED)
    for block in (script.choice(table), script.regret(table), script.kinds(table)):
        assert block in page, "run benchmarks/label_free_table.py and copy its table"


def test_regret_by_hand(script: ModuleType) -> None:
    def candidate(accuracy: float, score: float, chosen: int = 0, **values: float) -> dict[str, float]:
        return {"accuracy": accuracy, "score": score, "recommended": chosen, "mirror_information": score} | values

    table = {
        ("test", "one"): {"source": candidate(50, 20), "a": candidate(60, 30, 1), "b": candidate(64, 25)},
        ("test", "two"): {"source": candidate(90, 80, 1), "a": candidate(80, 70), "b": candidate(70, 60)},
    }
    assert script.summary(table, script.recommended) == {"mean": 2.0, "largest": 4.0, "worst": 0.0}
    assert script.correlation(table, "score") == pytest.approx((0.5 + 1) / 2)


def test_the_former_rule_by_hand(script: ModuleType) -> None:
    def candidate(information: float, changed: float = 10.0, late: float = 100.0) -> dict[str, float]:
        return {"mirror_information": information, "changed": changed, "late_classes": late}

    clustered = "bn(statistics='clustered')"
    assert script.former({"source": candidate(50, 0), "a": candidate(61), clustered: candidate(60)}) == clustered
    assert script.former({"source": candidate(50, 0), "a": candidate(63), clustered: candidate(60)}) == "a"
    assert script.former({"source": candidate(50, 0), "a": candidate(90, 1), "b": candidate(90, 9, 30)}) == "source"


def test_the_preference_for_clustered_by_hand(script: ModuleType) -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (400,), generator=generator)

    def answers(wrong: int) -> dict[str, np.ndarray]:
        """Logits with some answers at random, other ones for the mirrored images."""
        guesses = torch.randint(4, (2, 400), generator=generator)
        chosen = torch.randperm(400, generator=generator)[:wrong]
        given = labels.repeat(2, 1)
        given[:, chosen] = guesses[:, chosen]
        logits, mirrored = nn.functional.one_hot(given, 4).float().numpy()
        return {"logits": logits, "mirrored": mirrored}

    source, better, near, far = answers(300), answers(50), answers(52), answers(90)
    clustered = "bn(statistics='clustered')"

    def chosen(**files: dict[str, np.ndarray]) -> tuple[str, str]:
        given = {clustered if label == "clustered" else label: file for label, file in files.items()}
        scores, best, preferring = script.scored({"source": source} | given, ["source", *given])
        assert scores["source"] == 0
        return best, preferring

    assert chosen(bn=better, clustered=near) == ("bn", clustered)
    assert chosen(bn=better, clustered=far) == ("bn", "bn")
    assert chosen(bn=near, clustered=better) == (clustered, clustered)
    assert chosen(bn=source, clustered=source) == ("source", "source")


def test_scores_of_stored_answers(script: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "answers" / "tuning" / "mixture:fog|snow"
    folder.mkdir(parents=True)
    logits = np.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 4.0]], dtype=np.float16)
    labels = np.array([0, 1, 1, 1], dtype=np.int16)
    for label, given in (("source", logits), ("bn", logits[::-1])):
        np.savez(folder / f"{label}.npz", logits=given, mirrored=given, labels=labels, sizes=[4], seconds=np.array(2.0))
    script.scores(tmp_path / "answers", tmp_path / "scores.csv")
    table = script.read(tmp_path / "scores.csv")
    assert list(table) == [("tuning", "mixture:fog/snow")]
    source = table["tuning", "mixture:fog/snow"]["source"]
    assert (source["accuracy"], source["mirror_information"], source["agreement"]) == (75, 100, 0)
    assert (source["score"], source["recommended"], source["recommended_default"]) == (0, 1, 1)
    assert "shift_information" not in source
    certain = 1 / (1 + math.exp(-4))
    assert source["confidence"] == pytest.approx(100 * certain, abs=1e-3)
    assert source["energy"] == pytest.approx(-math.log(1 + math.exp(4)), abs=1e-3)


def test_scenarios_without_stored_answers_keep_their_rows(script: ModuleType, tmp_path: Path) -> None:
    logits = np.array([[4.0, 0.0], [0.0, 4.0]], dtype=np.float16)

    def store(part: str, labels: list[int]) -> Path:
        folder = tmp_path / part / part / "pure:fog"
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {"logits": logits, "mirrored": logits, "labels": np.array(labels, dtype=np.int16)}
        for label in ("source", "bn"):
            np.savez(folder / f"{label}.npz", sizes=[2], seconds=np.array(2.0), **arrays)
        return tmp_path / part

    path = tmp_path / "scores.csv"
    script.scores(store("test", [0, 1]), path)
    script.scores(store("pacs", [1, 1]), path)
    script.scores(store("pacs", [1, 0]), path)
    accuracies = {part: candidates["source"]["accuracy"] for (part, _), candidates in script.read(path).items()}
    assert accuracies == {"pacs": 0, "test": 100}
